"""Changes of source offsets that the REST interface may ask for: what MirrorMaker's connectors take
(`SourceConnector.alterOffsets`, KIP-875).

    MirrorSourceConnector        {"cluster": "A", "topic": "t", "partition": 0}                   {"offset": n >= 0}
    MirrorCheckpointConnector    {"group": "g", "topic": "t", "partition": 0}                     {"offset": 0}
    MirrorHeartbeatConnector     {"sourceClusterAlias": "A", "targetClusterAlias": "B"}           {"offset": 0}

An offset that is removed (None) is never refused, so that rubbish can be removed. Only the source
connector reads its offsets again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kmirror.mirrormaker.herder.herder import BAD_REQUEST, INTERNAL_SERVER_ERROR, HerderError, SourceOffset

ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"
_TEXTS: Final = {
    "MirrorSourceConnector": ("cluster", "topic"),
    "MirrorCheckpointConnector": ("group", "topic"),
    "MirrorHeartbeatConnector": ("sourceClusterAlias", "targetClusterAlias"),
}
_INTS: Final = range(-(2**31), 2**31)


def require_stopped(connector: str, *, is_stopped: bool) -> None:
    """HerderError 400: offsets of a connector that runs, or will run on, are its own."""
    if not is_stopped:
        raise HerderError(
            BAD_REQUEST,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified connector by "
            f"issuing a 'PUT' request to the '/connectors/{connector}/stop' endpoint",
        )


def check_offsets(connector_class: str, offsets: Sequence[SourceOffset]) -> None:
    """HerderError 500, as of Connect, for what is not of the form of the connector with this simple name."""
    for partition, offset in offsets:
        if offset is None:
            continue
        if partition is None:
            raise _wrong("Source partitions may not be null")
        for name in _TEXTS[connector_class]:
            if not isinstance(_required(partition, name), str):
                raise _invalid(partition, name, "must be a string")
        if connector_class != "MirrorHeartbeatConnector":
            number = _required(partition, "partition")
            if not _is_integer(number) or number not in _INTS:
                raise _invalid(partition, "partition", "must be an integer")
            if number < 0:
                raise _invalid(partition, "partition", "cannot be negative")
        _check_offset(partition, offset, only_0=connector_class != "MirrorSourceConnector")


def _check_offset(partition: Mapping[str, Any], offset: Mapping[str, Any], *, only_0: bool) -> None:
    what = f"Source offset {java_map(offset)} for source partition {java_map(partition)}"
    if "offset" not in offset:
        raise _wrong(f"{what} is missing the 'offset' key, which is required")
    value = offset["offset"]
    invalid = f"{what} has an invalid value {_java(value)} for the 'offset' key"
    if not _is_integer(value):
        raise _wrong(f"{invalid}, which must be an integer")
    if only_0 and value != 0:
        raise _wrong(f"{invalid}; the only accepted value is 0")
    if value < 0:
        raise _wrong(f"{invalid}, which cannot be negative")


def _required(partition: Mapping[str, Any], name: str) -> Any:
    if name not in partition:
        raise _wrong(f"Source partition {java_map(partition)} is missing the '{name}' key, which is required")
    return partition[name]


def _invalid(partition: Mapping[str, Any], name: str, rule: str) -> HerderError:
    return _wrong(f"Source partition {java_map(partition)} has an invalid value {_java(partition[name])} for the '{name}' key, which {rule}")


def _wrong(message: str) -> HerderError:
    return HerderError(INTERNAL_SERVER_ERROR, message)


def java_map(values: Mapping[str, Any]) -> str:
    """Returns the text of a Java map, names in order."""
    return "{" + ", ".join(f"{name}={_java(values[name])}" for name in sorted(values)) + "}"


def _java(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return java_map(value)
    return f"[{', '.join(map(_java, value))}]" if isinstance(value, list) else str(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
