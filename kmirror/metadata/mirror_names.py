"""Names of cluster mirrors, and how a topic says which mirror it belongs to (KIP-1279).

A mirror's name follows the rules of topic names and does not end in a suffix that the association
uses. The association is the topic config `mirror.name`: `X` (mirrored), `X.paused`, `X.removed`,
`X.paused.removed`; the key is absent when the topic belongs to no mirror, and cleared only when the
mirror is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors

MIRROR_NAME_CONFIG = "mirror.name"
MIRROR_SUPPORT_UNCLEAN_CONFIG = "mirror.support.unclean.leader.election"
MIRROR_STATE_PARTITIONS_CONFIG = "mirror.topic.num.partitions"
"""A config of the topic `__mirror_state`, internal: the number of partitions that it was created
with. States are placed by that number, even if the topic grows."""
MIRROR_SOURCE_DEFAULTS_CONFIG = "mirror.source.defaults"
"""A config of a mirrored topic, internal: which of its overrides stand for defaults of the source's
brokers."""
MIRROR_SOURCE_CLEANING_CONFIG = "mirror.source.cleaning"
"""A config of a mirrored topic, internal: the source's configs that the cleaner here may go by;
absent if the source does not compact the topic, or does not show its configs."""
MIRROR_MAX_TRUNCATION_CONFIG = "mirror.max.truncation.records"
DEFAULT_MAX_TRUNCATION_RECORDS = 100_000
PAUSED_SUFFIX = ".paused"
REMOVED_SUFFIX = ".removed"
MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class MirrorAssociation(NamedTuple):
    """The parsed value of `mirror.name`."""

    mirror_name: str
    paused: bool = False
    removed: bool = False

    @property
    def active(self) -> bool:
        """Whether the topic is neither paused nor removed."""
        return not self.paused and not self.removed

    def __str__(self) -> str:
        return f"{self.mirror_name}{PAUSED_SUFFIX if self.paused else ''}{REMOVED_SUFFIX if self.removed else ''}"


def parse_association(value: str | None) -> MirrorAssociation | None:
    """Returns the association of a `mirror.name` value; None if there is none."""
    if not value:
        return None
    removed = value.endswith(REMOVED_SUFFIX)
    name = value.removesuffix(REMOVED_SUFFIX) if removed else value
    paused = name.endswith(PAUSED_SUFFIX)
    return MirrorAssociation(name.removesuffix(PAUSED_SUFFIX) if paused else name, paused, removed)


def association_of(topic_configs: Mapping[str, str]) -> MirrorAssociation | None:
    """Returns the association in a topic's dynamic configs."""
    return parse_association(topic_configs.get(MIRROR_NAME_CONFIG))


def is_unclean_election_supported(topic_configs: Mapping[str, str]) -> bool:
    """Whether a mirror topic goes back to PREPARING after an unclean election at this cluster, and
    waits for every replica before it is mirrored (D3-31)."""
    return topic_configs.get(MIRROR_SUPPORT_UNCLEAN_CONFIG, "false").lower() == "true"


def max_truncation_records(topic_configs: Mapping[str, str], mirror_configs: Mapping[str, str], *, is_added: bool) -> int:
    """Returns how many records below the high watermark a mirror may cut to follow its source; -1
    means any number. The topic's value overrides the mirror's. A topic's -1 is an operator's
    permission for a topic that is being added (`is_added`), and counts for that alignment alone."""
    for configs in (topic_configs, mirror_configs):
        value = configs.get(MIRROR_MAX_TRUNCATION_CONFIG)
        if value is not None and (is_added or configs is mirror_configs or int(value) >= 0):
            return int(value)
    return DEFAULT_MAX_TRUNCATION_RECORDS


def topic_name_problem(name: str) -> str | None:
    """Returns what is wrong with `name` as a topic name, in Kafka's words (without the leading
    "Topic name is invalid: ")."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def validate_topic_name(name: str) -> None:
    """Raises ApiException INVALID_TOPIC_EXCEPTION unless `name` is a legal topic name."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def validate_mirror_name(name: str) -> None:
    """Raises ApiException INVALID_MIRROR_NAME unless `name` is a legal mirror name."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise ApiException(Errors.INVALID_MIRROR_NAME, f"Mirror name is invalid: {problem}")
    if name.endswith((PAUSED_SUFFIX, REMOVED_SUFFIX)):
        raise ApiException(Errors.INVALID_MIRROR_NAME, "Mirror name must not end with '.removed' or '.paused'")
