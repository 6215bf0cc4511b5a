"""Safeguards that can be switched off, to show that a checker notices (decision 14).

Some safeguards of the mirror are fields of `MirrorSafeguards`; more are in `sim.mirror_ablations`
and `sim.disk_ablations`, and those of MirrorMaker in `sim.flow_ablations`. The ones here are the
broker's own. They have no switch in the program, so each is taken out from here, for the time of
one run:

    tail_recovery       recovery checks each batch and cuts the log at the first bad one
    epoch_truncation    a follower sends the epoch of its last batch, so that the leader can say
                        where the logs diverge (KIP-101, KIP-595), and compares its batches with the
                        leader's, which would notice, too (C36b)
    min_isr             acks=all needs min.insync.replicas in the ISR
    epoch_fencing       coordinator and partitions refuse a transactional producer of an older epoch
    old_records         a producer is not idle while it writes, nor soon after a restart, however
                        old its records are
    last_stable_offset  read_committed ends before the first open transaction
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.transaction import transaction_coordinator_shard
from kmirror.coordinator.transaction.transaction_coordinator_shard import TransactionCoordinatorShard
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.replica.broker_leader_end_point import BrokerLeaderEndPoint
from kmirror.replica.partition import Partition
from kmirror.replica.replica_fetcher import ReplicaFetcher
from kmirror.sim.disk_ablations import DISK_REPLACEMENTS
from kmirror.sim.flow_ablations import FLOW_REPLACEMENTS
from kmirror.sim.mirror_ablations import MIRROR_REPLACEMENTS, Replacement, from_the_end
from kmirror.storage import log_segment_recovery
from kmirror.storage.log_offsets import LogOffsets
from kmirror.storage.producer_append_info import ProducerAppendInfo
from kmirror.storage.producer_state_entry import ProducerStateEntry
from kmirror.storage.producer_state_manager import ProducerStateManager


def safeguard_names() -> list[str]:
    """Returns every name that `Ablations.without` knows."""
    return [*(field.name for field in fields(MirrorSafeguards)), *_REPLACEMENTS]


@dataclass(frozen=True, slots=True)
class Ablations:
    """What is off in one run."""

    safeguards: MirrorSafeguards = ALL_SAFEGUARDS
    removed: tuple[str, ...] = ()

    @classmethod
    def without(cls, names: Iterable[str]) -> Ablations:
        """Switches off the named safeguards; KmirrorError for a name that does not exist."""
        off = list(names)
        for name in off:
            if name not in safeguard_names():
                raise KmirrorError(f"there is no safeguard {name!r}; there are {', '.join(safeguard_names())}")
        safeguards = MirrorSafeguards(**{name: False for name in off if name not in _REPLACEMENTS})
        return cls(safeguards, tuple(name for name in off if name in _REPLACEMENTS))

    @property
    def is_whole(self) -> bool:
        """Whether nothing is off."""
        return not self.removed and self.safeguards == ALL_SAFEGUARDS

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Removes what is to be removed from the program while the block runs."""
        with contextlib.ExitStack() as stack:
            for name in self.removed:
                for replacement in _REPLACEMENTS[name]:
                    stack.enter_context(replaced(*replacement))
            yield


@contextlib.contextmanager
def replaced(owner: Any, attribute: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replaces `owner.attribute` by what `make` returns for it, while the block runs."""
    original = vars(owner)[attribute]
    setattr(owner, attribute, make(original))
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def _trusting(refuse_crc: Any) -> Any:
    def trust(path: str, position: int, stored: int, computed: int) -> None:
        """Accepts whatever is there."""

    return trust


def _without_epoch(partition_of: Any) -> Any:
    def ask(self: BrokerLeaderEndPoint, topic_partition: TopicPartition, state: Any) -> Any:
        row = partition_of(self, topic_partition, state)
        row.last_fetched_epoch = -1
        return row

    return ask


def _one(effective_min_isr: Any) -> Any:
    return property(lambda partition: 1)


def _any_epoch_ends(end: Any) -> Any:
    def ask(current: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool) -> Any:
        return end(current, current.producer_id, current.producer_epoch, commit=commit)

    return ask


def _any_epoch_adds(of_producer: Any) -> Any:
    def ask(self: TransactionCoordinatorShard, transactional_id: str, producer_id: int, producer_epoch: int) -> Any:
        current = self._transactions.get(transactional_id)
        epoch = producer_epoch if current is None else current.producer_epoch
        return of_producer(self, transactional_id, producer_id, epoch)

    return ask


def _any_epoch_appends(check: Any) -> Any:
    return lambda self, producer_epoch, offset: None


def _any_sequence_appends(check: Any) -> Any:
    return lambda self, producer_epoch, base_sequence, offset: None


def _idle_by_its_records(is_expired: Any) -> Any:
    def ask(self: ProducerStateManager, now_ms: int, entry: ProducerStateEntry) -> bool:
        return now_ms - entry.last_timestamp >= self.config.producer_id_expiration_ms

    return ask


def _never_freshly_loaded(is_freshly_loaded: Any) -> Any:
    return lambda self, now_ms: False


def _the_high_watermark(last_stable_offset: Any) -> Any:
    return lambda offsets: offsets.fetch_high_watermark_metadata()


_REPLACEMENTS: Mapping[str, Sequence[Replacement]] = {
    "tail_recovery": [(log_segment_recovery, "refuse_crc", _trusting)],
    "epoch_truncation": [(BrokerLeaderEndPoint, "_partition", _without_epoch), (ReplicaFetcher, "first_fetch_offset", from_the_end)],
    "min_isr": [(Partition, "effective_min_isr", _one)],
    "epoch_fencing": [
        (transaction_coordinator_shard, "end_v2", _any_epoch_ends),
        (TransactionCoordinatorShard, "_of_producer", _any_epoch_adds),
        (ProducerAppendInfo, "_check_producer_epoch", _any_epoch_appends),
        (ProducerAppendInfo, "_check_sequence", _any_sequence_appends),
    ],
    "old_records": [
        (ProducerStateManager, "_is_expired", _idle_by_its_records),
        (ProducerStateManager, "_is_freshly_loaded", _never_freshly_loaded),
    ],
    "last_stable_offset": [(LogOffsets, "fetch_last_stable_offset_metadata", _the_high_watermark)],
    **MIRROR_REPLACEMENTS,
    **DISK_REPLACEMENTS,
    **FLOW_REPLACEMENTS,
}
