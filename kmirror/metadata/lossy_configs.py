"""The topic configs that decide what is deleted from a log, or refused by it, and how two values of
one compare.

Two clusters may have the same overrides on a topic and treat it differently, because the rest comes
from their brokers. Of these configs it is the value in force that has to be the same on both sides
of a mirror (C17). What only tunes a broker (`flush.ms`, `index.interval.bytes`) is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kmirror.common.errors import ConfigError
from kmirror.metadata.topic_configs import TOPIC_CONFIGS, default_text

CLEANUP_POLICY_CONFIG: Final = "cleanup.policy"


def _limit(value: int) -> float:
    return float("inf") if value < 0 else value


def _fewest(value: Any) -> float:
    return -float(value)


def _as_it_is(value: Any) -> float:
    return float(value)


def _of_producers(value: str) -> float:
    return float(value == "CreateTime")


HOW_MUCH_IS_KEPT: Final[Mapping[str, Callable[[Any], float]]] = {
    "retention.ms": _limit,
    "retention.bytes": _limit,
    "delete.retention.ms": _as_it_is,
    "min.compaction.lag.ms": _as_it_is,
    "max.compaction.lag.ms": _as_it_is,
    "min.cleanable.dirty.ratio": _as_it_is,
    "segment.ms": _as_it_is,
    "segment.jitter.ms": _fewest,
    "segment.bytes": _as_it_is,
    "unclean.leader.election.enable": _fewest,
    CLEANUP_POLICY_CONFIG: lambda policies: _fewest(len(set(policies))),
    "message.timestamp.type": _of_producers,
    "message.timestamp.before.max.ms": _as_it_is,
    "message.timestamp.after.max.ms": _as_it_is,
    "max.message.bytes": _as_it_is,
    "min.insync.replicas": _fewest,
}
"""By config: how much its value keeps and takes, in comparison with other values of it."""

LOSSY_CONFIGS: Final = tuple(HOW_MUCH_IS_KEPT)


def value_in_force(name: str, defaults: Mapping[str, str]) -> str:
    """The value that a topic without an override has under a broker's `defaults`."""
    return defaults.get(name) or default_text(name) or ""


def has_same_effect(name: str, left: str, right: str) -> bool:
    """Whether two values mean the same. Texts that are no values mean the same only if they are
    equal.
    """
    if left == right:
        return True
    try:
        parsed = [TOPIC_CONFIGS.validate_value(name, text) for text in (left, right)]
    except ConfigError:
        return False
    return set(parsed[0]) == set(parsed[1]) if name == CLEANUP_POLICY_CONFIG else bool(parsed[0] == parsed[1])


def keeps_most(name: str, values: Sequence[str]) -> str:
    """The value under which most is kept and taken, of those that the brokers of one cluster have.

    Of cleanup policies this is what all of them have in common: it may be empty, and then nothing
    is deleted.
    """
    if len(values) == 1:
        return values[0]
    if name == CLEANUP_POLICY_CONFIG:
        policies = [[policy.strip() for policy in value.split(",") if policy.strip()] for value in values]
        return ",".join(policy for policy in policies[0] if all(policy in others for others in policies))
    try:
        return max(values, key=lambda text: HOW_MUCH_IS_KEPT[name](TOPIC_CONFIGS.validate_value(name, text)))
    except ConfigError:
        return values[0]
