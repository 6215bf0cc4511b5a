"""Leader and ISR changes, over many partitions at once, that follow when brokers come, go or lose
directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kmirror.common.sentinels import NO_LEADER
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.partition_change_builder import Election, PartitionChangeBuilder
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import PartitionRegistration

PartitionRef = tuple[str, Uuid, int, PartitionRegistration]


def partitions(state: ControllerState, keep: Callable[[PartitionRegistration], bool]) -> Iterator[PartitionRef]:
    """Yields (topic, topic id, partition id, partition) for partitions for which `keep` returns
    true, in the image's order."""
    for topic in state.image.topics.by_id.values():
        for partition_id, partition in sorted(topic.partitions.items()):
            if keep(partition):
                yield topic.name, topic.id, partition_id, partition


def in_isr_or_elr(broker_id: int) -> Callable[[PartitionRegistration], bool]:
    return lambda partition: broker_id in partition.isr or broker_id in partition.elr


def has_leaderships(state: ControllerState, broker_id: int) -> bool:
    return next(partitions(state, lambda partition: partition.leader == broker_id), None) is not None


def builder_for(
    state: ControllerState,
    topic: str,
    topic_id: Uuid,
    partition_id: int,
    partition: PartitionRegistration,
    acceptable: Callable[[int], bool] | None = None,
    *,
    directories: Mapping[int, Uuid] | None = None,
) -> PartitionChangeBuilder:
    """Returns a builder with the image's values; any active broker whose directory is online may
    lead.

    `directories` are those that replicas move to: they decide, because a broker may be unfenced
    before it reports where its replicas are, and nothing else would then elect a leader.
    """
    alive = acceptable or state.is_active
    moved = directories or {}

    def directory(replica: int) -> Uuid:
        return moved[replica] if replica in moved else partition.directory(replica)

    return PartitionChangeBuilder(
        partition=partition,
        topic_id=topic_id,
        partition_id=partition_id,
        acceptable=lambda replica: alive(replica) and state.has_online_directory(replica, directory(replica)),
        metadata_version=state.metadata_version,
        min_isr=state.min_isr(topic, partition),
        elr_enabled=state.elr_enabled,
        election=Election.UNCLEAN if state.unclean_election_enabled(topic) else Election.ONLINE,
        default_directory=state.default_directory,
        directories=dict(moved),
    )


def leader_and_isr_updates(
    state: ControllerState,
    affected: Iterator[PartitionRef],
    *,
    broker_to_remove: int = NO_LEADER,
    broker_to_add: int = NO_LEADER,
    unclean_shutdown_broker: int = NO_LEADER,
) -> list[ApiMessageAndVersion]:
    """Returns records that take `broker_to_remove` and `unclean_shutdown_broker` out of ISRs and
    leaderships, and let `broker_to_add` lead."""
    gone = (broker_to_remove, unclean_shutdown_broker)

    def acceptable(replica: int) -> bool:
        return replica not in gone and (replica == broker_to_add or state.is_active(replica))

    records = []
    for topic, topic_id, partition_id, partition in affected:
        builder = builder_for(state, topic, topic_id, partition_id, partition, acceptable)
        builder.target_isr = [replica for replica in partition.isr if replica not in gone]
        if unclean_shutdown_broker != NO_LEADER:
            builder.unclean_shutdown_replicas = (unclean_shutdown_broker,)
        record = builder.build()
        if record is not None:
            records.append(record)
    return records
