"""Moving partitions: the three steps of a reassignment, cancelling, listing, and Kafka's refusals."""

from __future__ import annotations

from support.brokers.metadata_doubles import ControllerDouble

from kmirror.common.errors import Errors
from kmirror.wire.messages import alter_partition_reassignments as alter
from kmirror.wire.messages import list_partition_reassignments as listing


def five(**settings: object) -> ControllerDouble:
    controller = ControllerDouble(**settings)  # type: ignore[arg-type]
    controller.start_brokers(1, 2, 3, 4, 5)
    return controller


def reassign(
    controller: ControllerDouble, target: list[int] | None, *, topic: str = "t", partition: int = 0, may_change_factor: bool = True
) -> tuple[Errors, str | None]:
    wanted = alter.ReassignablePartition(partition_index=partition, replicas=target)
    request = alter.AlterPartitionReassignmentsRequest(
        topics=[alter.ReassignableTopic(name=topic, partitions=[wanted])], allow_replication_factor_change=may_change_factor
    )
    response = controller.run(controller.replication.reassignments.alter_partition_reassignments(request))
    assert response.allow_replication_factor_change is may_change_factor
    assert (response.error_code, response.error_message) == (0, None)
    result = response.responses[0].partitions[0]
    return Errors(result.error_code), result.error_message


def ongoing(controller: ControllerDouble, *topics: tuple[str, list[int]]) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    asked = [listing.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in topics]
    request = listing.ListPartitionReassignmentsRequest(topics=asked or None)
    response = controller.replication.reassignments.list_partition_reassignments(request)
    return [
        (topic.name, partition.partition_index, partition.replicas, partition.adding_replicas, partition.removing_replicas)
        for topic in response.topics
        for partition in topic.partitions
    ]


def test_a_move_adds_waits_and_removes() -> None:
    controller = five()
    controller.create_topic("t", [[1, 2]])
    assert reassign(controller, [3, 4]) == (Errors.NONE, None)
    partition = controller.partition("t")
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2), 0), "who has the data still leads"
    assert ongoing(controller) == [("t", 0, [3, 4, 1, 2], [3, 4], [1, 2])]
    assert controller.alter_isr("t", [1, 2, 3]) is Errors.NONE
    assert controller.partition("t").is_reassigning, "4 is not in sync yet"
    assert controller.alter_isr("t", [1, 2, 3, 4]) is Errors.NEW_LEADER_ELECTED
    partition = controller.partition("t")
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((3, 4), (3, 4), 3, 1)
    assert not partition.is_reassigning
    assert len(partition.directories) == 2
    assert ongoing(controller) == []


def test_it_waits_until_staying_replicas_are_in_sync_too() -> None:
    """A replica that stays but lags must not be the only one left beside a new one."""
    controller = five()
    controller.create_topic("t", [[1, 2, 3]])
    assert controller.alter_isr("t", [1, 3]) is Errors.NONE
    assert reassign(controller, [2, 4]) == (Errors.NONE, None)
    assert controller.alter_isr("t", [1, 3, 4]) is Errors.NONE
    assert controller.partition("t").is_reassigning, "2 lags"
    assert controller.alter_isr("t", [1, 3, 4, 2]) is Errors.NEW_LEADER_ELECTED
    assert controller.partition("t").replicas == (2, 4)


def test_another_order_takes_effect_at_once_and_keeps_the_leader() -> None:
    controller = five()
    controller.create_topic("t", [[1, 2, 3]])
    assert reassign(controller, [3, 2, 1]) == (Errors.NONE, None)
    partition = controller.partition("t")
    assert (partition.replicas, partition.leader, partition.leader_epoch, partition.is_reassigning) == ((3, 2, 1), 1, 0, False)


def test_fewer_replicas_take_effect_at_once_with_a_new_leader_epoch() -> None:
    controller = five()
    controller.create_topic("t", [[1, 2, 3]])
    assert reassign(controller, [1, 2]) == (Errors.NONE, None)
    partition = controller.partition("t")
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((1, 2), (1, 2), 1, 1)


def test_a_cancelled_move_gives_back_what_was_there() -> None:
    controller = five()
    before = controller.create_topic("t", [[1, 2]]).partitions[0]
    reassign(controller, [2, 3])
    assert controller.alter_isr("t", [1, 2]) is Errors.NONE
    assert reassign(controller, None) == (Errors.NONE, None)
    partition = controller.partition("t")
    assert (sorted(partition.replicas), partition.isr, partition.leader) == ([1, 2], (1, 2), 1)
    assert not partition.is_reassigning
    assert partition.directory(1) == before.directory(1)


def test_cancelling_what_does_not_move() -> None:
    controller = five()
    controller.create_topic("t", [[1, 2]])
    assert reassign(controller, None) == (Errors.NO_REASSIGNMENT_IN_PROGRESS, None)


def test_cancelling_with_only_new_replicas_in_sync_needs_unclean_elections() -> None:
    controller = five()
    for name in ("safe", "unclean"):
        controller.create_topic(name, [[1, 2]], {"unclean.leader.election.enable": "true"} if name == "unclean" else {})
        reassign(controller, [3, 4, 5], topic=name)
        assert controller.alter_isr(name, [1, 3]) is Errors.NONE
    for broker_id in (1, 2):
        controller.heartbeat(broker_id, want_fence=True)
    assert controller.partition("safe").isr == (3,)
    text = "Unable to revert partition assignment for safe:0 because it would require an unclean leader election."
    assert reassign(controller, None, topic="safe") == (Errors.INVALID_REPLICA_ASSIGNMENT, text)
    assert reassign(controller, None, topic="unclean") == (Errors.NONE, None)
    partition = controller.partition("unclean")
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (1,), -1), "the first old replica, once it is back"


def test_a_second_reassignment_replaces_the_first() -> None:
    controller = five()
    controller.create_topic("t", [[1, 2]])
    reassign(controller, [3, 4])
    assert reassign(controller, [1, 5]) == (Errors.NONE, None)
    partition = controller.partition("t")
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((1, 5, 2, 3, 4), (5,), (2, 3, 4))


def test_a_changed_replication_factor_may_be_forbidden() -> None:
    """KIP-860: what counts is the factor that a reassignment under way will end with."""
    controller = five()
    controller.create_topic("t", [[1, 2]])
    text = "The replication factor is changed from 2 to 3"
    assert reassign(controller, [1, 2, 3], may_change_factor=False) == (Errors.INVALID_REPLICATION_FACTOR, text)
    assert reassign(controller, [3, 4], may_change_factor=False) == (Errors.NONE, None)
    assert reassign(controller, [4, 5], may_change_factor=False) == (Errors.NONE, None)
    assert controller.partition("t").replicas[:2] == (4, 5)


def test_refusals_have_kafkas_texts() -> None:
    controller = five()
    controller.create_topic("t", [[1, 2]])
    cases = [
        (reassign(controller, [1], topic="x"), Errors.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named x."),
        (reassign(controller, [1], partition=7), Errors.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:7."),
        (reassign(controller, []), Errors.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."),
        (reassign(controller, [1, 9]), Errors.INVALID_REPLICA_ASSIGNMENT,
         "The manual partition assignment includes broker 9, but no such broker is registered."),
        (reassign(controller, [1, 1]), Errors.INVALID_REPLICA_ASSIGNMENT,
         "The manual partition assignment includes the broker 1 more than once."),
    ]  # fmt: skip
    for got, error, text in cases:
        assert got == (error, text)


def test_the_list_names_what_moves_among_what_is_asked_for() -> None:
    controller = five()
    controller.create_topic("a", [[1, 2], [2, 3]])
    controller.create_topic("b", [[1, 2]])
    reassign(controller, [4, 5], topic="a", partition=1)
    moving = ("a", 1, [4, 5, 2, 3], [4, 5], [2, 3])
    assert ongoing(controller) == [moving]
    assert ongoing(controller, ("a", [0, 1, 9]), ("b", [0]), ("no", [0])) == [moving]
    assert ongoing(controller, ("a", [0])) == []


def test_with_elr_a_finished_move_leaves_no_eligible_replica_behind() -> None:
    controller = five(levels={"eligible.leader.replicas.version": 1})
    controller.create_topic("t", [[1, 2]], {"min.insync.replicas": "2"})
    reassign(controller, [3, 4])
    controller.alter_isr("t", [1, 2, 3, 4])
    partition = controller.partition("t")
    assert (partition.replicas, partition.isr, partition.elr, partition.last_known_elr) == ((3, 4), (3, 4), (), ())
