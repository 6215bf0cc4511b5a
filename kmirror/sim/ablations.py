"""Safeguards that can be switched off, to show that a checker notices (decision 14).

Those of the mirror are fields of `MirrorSafeguards`. The others are the broker's own and have no switch in the program; each is taken out
from here, for the time of one run:

    tail_recovery       recovery checks each batch and cuts the log at the first bad one
    epoch_truncation    a follower tells the epoch of its last batch, so that the leader can say where the logs part (KIP-101, KIP-595)
    min_isr             acks=all needs min.insync.replicas in the ISR
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.replica.broker_leader_end_point import BrokerLeaderEndPoint
from kmirror.replica.partition import Partition
from kmirror.storage import log_segment


def safeguard_names() -> list[str]:
    """All that `Ablations.without` knows."""
    return [*(field.name for field in fields(MirrorSafeguards)), *_REPLACEMENTS]


@dataclass(frozen=True, slots=True)
class Ablations:
    """What is off in one run."""

    safeguards: MirrorSafeguards = ALL_SAFEGUARDS
    removed: tuple[str, ...] = ()

    @classmethod
    def without(cls, names: Iterable[str]) -> Ablations:
        """KmirrorError for a name that there is not."""
        off = list(names)
        for name in off:
            if name not in safeguard_names():
                raise KmirrorError(f"there is no safeguard {name!r}; there are {', '.join(safeguard_names())}")
        safeguards = MirrorSafeguards(**{name: False for name in off if name not in _REPLACEMENTS})
        return cls(safeguards, tuple(name for name in off if name in _REPLACEMENTS))

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Within, the program is without what is removed."""
        with contextlib.ExitStack() as stack:
            for name in self.removed:
                stack.enter_context(_replaced(*_REPLACEMENTS[name]))
            yield


@contextlib.contextmanager
def _replaced(owner: Any, attribute: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Within, `owner.attribute` is what `make` makes of it."""
    original = vars(owner)[attribute]
    setattr(owner, attribute, make(original))
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def _trusting(ensure_valid: Any) -> Any:
    def trust(path: str, header: object, batch: object) -> None:
        """Whatever is there is right."""

    return trust


def _without_epoch(partition_of: Any) -> Any:
    def ask(self: BrokerLeaderEndPoint, topic_partition: TopicPartition, state: Any) -> Any:
        row = partition_of(self, topic_partition, state)
        row.last_fetched_epoch = -1
        return row

    return ask


def _one(effective_min_isr: Any) -> Any:
    return property(lambda partition: 1)


_REPLACEMENTS: Mapping[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "tail_recovery": (log_segment, "ensure_valid", _trusting),
    "epoch_truncation": (BrokerLeaderEndPoint, "_partition", _without_epoch),
    "min_isr": (Partition, "effective_min_isr", _one),
}
