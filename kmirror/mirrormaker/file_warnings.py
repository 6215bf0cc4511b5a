"""What a driver's file says that means nothing, or something else than it seems to. Pure.

Apache's program takes all of this without a word, and so does ours, but it says it:

    topics = a, b  # both        `#` begins a comment only at the beginning of a line
    A->B.enabled = true␣         a blank behind it switches the flow off (DG5)
    A->C.topics = a              there is no cluster C
    A->B.ssl.protocol = TLSv1.3  no client reads it there (DG7)
    A->B.offset.flush.interval.ms = 1    a worker's setting: it stands with the worker's cluster
    consumer.fetch.min.bytes = 1         at the top level: clients read it behind an alias or a flow
    C.bootstrap.servers = c:1    there is no cluster C
    A.bootstrap.server = a:1     behind an alias: almost the name of a setting

What is not looked at: whether a value is a good one, and other names behind an alias (`A.x`), which
may be meant for a plugin.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kmirror.common.errors import ConfigError
from kmirror.common.java_patterns import compile_pattern
from kmirror.mirrormaker.client_configs import CLIENT_CONFIG_NAMES
from kmirror.mirrormaker.connector_config import CLIENT_KINDS
from kmirror.mirrormaker.property_names import flow_prefix

COMMENT: Final = re.compile(r"(?:^|[\s,])#")
OF_A_FLOW: Final = re.compile(
    r"(?:source|target)\.(?:cluster|consumer|producer|admin)\..+|(?:consumer|producer|admin)\..+|(?:transforms|predicates)(?:\..+)?"
    r"|(?:topic\.creation|errors|replication\.policy|offset-syncs|kmirror|config\.providers)\..+|(?:key|value|header)\.converter.*"
    r"|exactly\.once\.support|transaction\.boundary.*|enabled|name|config\.providers|use\.defaults\.from"
)
"""What a flow's own property may be besides those of the connectors' definitions."""
AT_THE_TOP: Final = re.compile(rf"(?:{'|'.join(CLIENT_KINDS)}|source|target)\..+")
FLAGS: Final = re.compile(r"(?:\(\?[A-Za-z]*(?:-[A-Za-z]+)?\))+")
BEHIND_FLOW: Final = re.compile(r"[^.]+->[^.]+\..+")


OTHER_PREFIXES: Final = re.compile(
    r"(?:source|target)(?:\.cluster)?|(?:(?:source|target)\.)?(?:consumer|producer|admin)|(?:.+\.)?listeners?\..+"
    r"|(?:kmirror|task|worker|replication\.policy|(?:config|offset|status)\.storage|config\.providers|(?:key|value|header)\.converter)(?:\..*)?"
)
"""What may stand before the name of a client's setting, and is no alias."""
ALMOST: Final = 0.88


def file_warnings(properties: Mapping[str, str], clusters: Sequence[str], connector_names: frozenset[str]) -> list[str]:
    """`properties` have their current names, `connector_names` are those that connectors define."""
    return [
        *comment_warnings(properties),
        *_switch_warnings(properties),
        *(f"{name} has no effect: {reason}" for name in properties for reason in _without_effect(name, clusters, connector_names)),
        *alias_warnings(properties, clusters, connector_names),
    ]


def alias_warnings(properties: Mapping[str, str], clusters: Sequence[str], connector_names: frozenset[str]) -> Iterator[str]:
    """What stands behind the alias of no cluster, or is almost a setting's name behind one."""
    known = [*CLIENT_CONFIG_NAMES, *connector_names]
    for name in properties:
        alias = next((one for one in sorted(clusters, key=len, reverse=True) if name.startswith(f"{one}.")), None)
        if alias is not None:
            bare = name.removeprefix(f"{alias}.")
            near = [] if bare in known else difflib.get_close_matches(bare, known, n=1, cutoff=ALMOST)
            if near:
                yield f"{name} is read by nobody that is known here; did you mean {alias}.{near[0]}?"
        elif "->" not in name and name not in known and (stranger := _stranger(name)) is not None:
            yield f"{name} has no effect: {stranger} is not in clusters = {', '.join(clusters)}"


def _stranger(name: str) -> str | None:
    """Returns what stands before the name of a client's setting, if it looks like the alias of a cluster."""
    parts = name.split(".")
    for size in range(1, len(parts)):
        alias, bare = ".".join(parts[:size]), ".".join(parts[size:])
        if bare in CLIENT_CONFIG_NAMES and OTHER_PREFIXES.fullmatch(alias) is None:
            return alias
    return None


def comment_warnings(properties: Mapping[str, str]) -> Iterator[str]:
    for name, value in properties.items():
        if COMMENT.search(value) and "password" not in name and "jaas" not in name:
            yield (
                f"{name} = {value} has a '#' in its value: in a file of properties a comment begins only at the beginning of a line, so the text "
                "behind it is a part of the value"
            )


def _switch_warnings(properties: Mapping[str, str]) -> Iterator[str]:
    for name, value in properties.items():
        if "->" in name and name.endswith(".enabled") and value.lower() != "true" and value.strip().lower() == "true":
            yield f"{name} = '{value}' switches it off: there is a blank behind it, and only exactly 'true' is true"


def _without_effect(name: str, clusters: Sequence[str], connector_names: frozenset[str]) -> Iterator[str]:
    prefix = flow_prefix(name, clusters)
    bare = name.removeprefix(prefix)
    if not prefix and BEHIND_FLOW.fullmatch(name):
        yield f"it names a flow between clusters that are not both in clusters = {', '.join(clusters)}"
    elif not prefix and bare not in connector_names and AT_THE_TOP.fullmatch(bare) and not _is_of_cluster(bare, clusters):
        yield f"clients read it behind an alias ({clusters[0] if clusters else 'A'}.{bare}) or a flow, not at the top level"
    elif prefix and (_is_of_client(bare, connector_names) or (bare not in connector_names and not OF_A_FLOW.fullmatch(bare))):
        source, _, target = prefix.rstrip(".").partition("->")
        if _is_of_client(bare, connector_names):
            yield f"no client reads it there; set {source}.{bare} or {target}.{bare}, or {prefix}source.consumer.{bare} for one client"
        else:
            yield f"no connector has it; a worker's setting stands with its cluster, {target}.{bare}"


def _is_of_client(bare: str, connector_names: frozenset[str]) -> bool:
    is_security = bare.startswith(("ssl.", "sasl.", "security."))
    return bare in CLIENT_CONFIG_NAMES and (is_security or bare not in connector_names)


def _is_of_cluster(name: str, clusters: Sequence[str]) -> bool:
    return any(name.startswith(f"{cluster}.") for cluster in clusters)


def unmatched_entries(entries: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns the entries of a list of Java's expressions that match none of the names.

    Flags at the beginning of an entry hold for the later ones, too, because the list is joined by
    `|`. Those that are no expressions are taken to match.
    """
    found, flags = [], ""
    for entry in entries:
        try:
            pattern = compile_pattern(flags + entry, config="")
        except ConfigError:
            continue
        if not any(pattern.fullmatch(name) for name in names):
            found.append(entry)
        given = FLAGS.match(entry)
        flags += given[0] if given is not None else ""
    return found
