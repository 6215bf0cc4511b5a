"""Transformations of records between a task and its producer (Connect's single message transforms), as pure
functions.

    connect_data, sides                 schemas, values, records; which part of a record
    literals, date_format, field_paths  texts of values, dates, and paths into structs
    routers, headers, fields, conversions, predicates
                                        the transformations and predicates of Kafka's connect-transforms
    plugins, converters, chain          by class; to bytes; one after the other
"""

from kmirror.mirrormaker.transforms.chain import Chain, Failed, Made, make_chain, source_record

__all__ = ["Chain", "Failed", "Made", "make_chain", "source_record"]
