"""Feature levels: their names, the levels kmirror supports, and what they depend on (Kafka's
`Feature`, `MetadataVersion`).

Levels and names are those of Apache Kafka 4.3, plus `mirror.version` (KIP-1279), which exists only
if unstable feature versions are enabled. `kraft.version` is a record of the log itself, not of the
image.
"""

from __future__ import annotations

from typing import NamedTuple

from kmirror.metadata.registrations import VersionRange

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
MIRROR_VERSION = "mirror.version"

METADATA_VERSION_NAMES: dict[int, str] = {
    7: "3.3-IV3", 8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0", 13: "3.6-IV1", 14: "3.6-IV2",
    15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3", 19: "3.7-IV4", 20: "3.8-IV0", 21: "3.9-IV0", 22: "4.0-IV0",
    23: "4.0-IV1", 24: "4.0-IV2", 25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0",
}  # fmt: skip
MINIMUM_METADATA_VERSION = 7
LATEST_METADATA_VERSION = 30

METADATA_CHANGING_VERSIONS = (8, 11, 13, 14, 15, 17, 23, 30)
"""Metadata versions above the minimum that added records or fields; a downgrade below one would
lose them."""

MV_TRANSACTIONS = 13  # 3.6-IV1: BeginTransactionRecord
MV_DIRECTORY_ASSIGNMENT = 17  # 3.7-IV2
MV_ELR = 23  # 4.0-IV1
MV_CORDONED_DIRECTORIES = 30  # 4.3-IV0
MV_MIRROR = 30


class FeatureSpec(NamedTuple):
    """`bootstrap[level]` is the metadata version from which `kafka-storage format` would choose
    that level."""

    name: str
    latest: int
    bootstrap: tuple[int, ...]
    dependencies: dict[int, dict[str, int]]
    unstable: bool = False


FEATURES: dict[str, FeatureSpec] = {
    spec.name: spec
    for spec in (
        FeatureSpec(KRAFT_VERSION, 1, (7, 21), {}),
        FeatureSpec(TRANSACTION_VERSION, 2, (7, 24, 24), {}),
        FeatureSpec(GROUP_VERSION, 1, (7, 22), {}),
        FeatureSpec(ELIGIBLE_LEADER_REPLICAS_VERSION, 1, (7, 26), {1: {METADATA_VERSION: MV_ELR}}),
        FeatureSpec(SHARE_VERSION, 1, (7, 28), {}),
        FeatureSpec(STREAMS_VERSION, 1, (7, 29), {}),
        FeatureSpec(MIRROR_VERSION, 1, (7, LATEST_METADATA_VERSION + 1), {1: {METADATA_VERSION: MV_MIRROR}}, unstable=True),
    )
}


def supported_features(*, unstable: bool) -> dict[str, VersionRange]:
    """Returns what a kmirror node registers: feature name -> supported levels."""
    ranges = {METADATA_VERSION: VersionRange(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION)}
    for spec in FEATURES.values():
        if unstable or not spec.unstable:
            ranges[spec.name] = VersionRange(0, spec.latest)
    return ranges


def default_level(feature: str, metadata_version: int) -> int:
    """Returns the level that `format` gives a feature for a metadata version."""
    bootstrap = FEATURES[feature].bootstrap
    return max(level for level, minimum in enumerate(bootstrap) if minimum <= metadata_version)


def metadata_version_from_string(text: str) -> int:
    """Returns the level of "4.3-IV0", or the newest level of a release ("4.3", "4.0.1"); raises
    ValueError for anything else."""
    for level, name in METADATA_VERSION_NAMES.items():
        if name == text:
            return level
    release = ".".join(text.split("-")[0].split(".")[:2])
    levels = [level for level, name in METADATA_VERSION_NAMES.items() if name.split("-")[0] == release and "-" not in text]
    if not levels:
        raise ValueError(f"Version {text} is not a valid metadata.version")
    return levels[-1]


def unmet_dependencies(feature: str, level: int, levels: dict[str, int]) -> list[tuple[str, int]]:
    """Returns the (feature, needed level) pairs that `feature` at `level` needs and `levels`
    lacks."""
    spec = FEATURES.get(feature)
    needs = {} if spec is None else spec.dependencies.get(level, {})
    return [(name, needed) for name, needed in needs.items() if levels.get(name, 0) < needed]
