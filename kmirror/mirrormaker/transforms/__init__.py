"""Transformations of records between a task and its producer (Connect's single message transforms), as pure
functions.

    connect_data, sides                 schemas, values, records; which part of a record
    literals, date_format, field_paths  texts of values, dates, and paths into structs
    routers, headers, fields, conversions, predicates
                                        the transformations and predicates of Kafka's connect-transforms
    plugins, converters, chain          by class; to bytes; one after the other
    alias_configs                       what aliases add to a connector's configs
"""

from kmirror.mirrormaker.transforms.alias_configs import KINDS, VERSION, AliasConfig, alias_configs, other_version, require_valid_aliases
from kmirror.mirrormaker.transforms.chain import Chain, Failed, Made, make_chain, source_record
from kmirror.mirrormaker.transforms.converters import changes_headers
from kmirror.mirrormaker.transforms.plugins import predicate_plugin, transformation_plugin

__all__ = [
    "KINDS",
    "VERSION",
    "AliasConfig",
    "Chain",
    "Failed",
    "Made",
    "alias_configs",
    "changes_headers",
    "make_chain",
    "other_version",
    "predicate_plugin",
    "require_valid_aliases",
    "source_record",
    "transformation_plugin",
]
