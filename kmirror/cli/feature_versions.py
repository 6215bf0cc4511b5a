"""`version-mapping` and `feature-dependencies`, for `kafka-features` and `kafka-storage`."""

from __future__ import annotations

from kmirror.cli.tool_options import CommandError
from kmirror.common.numbers import is_integer
from kmirror.metadata.features import (
    FEATURES,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    default_level,
    metadata_version_from_string,
)

MAPPED = ("kraft.version", "transaction.version", "group.version", "eligible.leader.replicas.version", "share.version", "streams.version")
"""Kafka's features, in the order in which its tools list them."""

MAX_SHORT = 32_767


def metadata_version(text: str) -> int:
    """Returns the level of a release like 4.3-IV0; CommandError for anything else."""
    try:
        return metadata_version_from_string(text)
    except ValueError as error:
        supported = ", ".join(METADATA_VERSION_NAMES.values())
        raise CommandError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {supported}") from error


def version_mapping(release_version: str | None) -> list[str]:
    """Returns the feature levels of a release, by default of the latest one."""
    name = METADATA_VERSION_NAMES[LATEST_METADATA_VERSION] if release_version is None else release_version
    level = metadata_version(name)
    return [f"{METADATA_VERSION}={level} ({name})", *(f"{feature}={default_level(feature, level)}" for feature in MAPPED)]


def feature_dependencies(texts: list[str]) -> list[str]:
    """Returns what each `feature=level` needs."""
    lines = []
    for name, level in map(parse_name_and_level, texts):
        if name == METADATA_VERSION:
            if level not in METADATA_VERSION_NAMES:
                raise CommandError(f"Unknown metadata.version {level}")
            lines.append(f"{name}={level} ({METADATA_VERSION_NAMES[level]}) has no dependencies.")
            continue
        if name not in FEATURES:
            raise CommandError(f"Unknown feature: {name}")
        if not 0 <= level <= FEATURES[name].latest:
            raise CommandError(f"No feature:{name} with feature level {level}")
        needs = FEATURES[name].dependencies.get(level, {})
        lines.append(f"{name}={level} {'requires:' if needs else 'has no dependencies.'}")
        for needed, needed_level in needs.items():
            release = f" ({METADATA_VERSION_NAMES[needed_level]})" if needed == METADATA_VERSION else ""
            lines.append(f"    {needed}={needed_level}{release}")
    return lines


def parse_name_and_level(text: str) -> tuple[str, int]:
    """Parse `feature=level`."""
    name, equals, level = text.partition("=")
    if not equals:
        raise CommandError(f"Can't parse feature=level string {text}: equals sign not found.")
    word = level.strip()
    if not is_integer(word) or not -MAX_SHORT - 1 <= int(word) <= MAX_SHORT:
        raise CommandError(f"Can't parse feature=level string {text}: unable to parse {word} as a short.")
    return name.strip(), int(word)


def level_text(feature: str, level: int) -> str:
    """Returns a release for metadata.version, a number for other features."""
    return METADATA_VERSION_NAMES.get(level, f"UNKNOWN [{level}]") if feature == METADATA_VERSION else str(level)
