"""Brokers: registration, incarnations, sessions, fencing, controlled shutdown, and what they do to
partitions.
"""

from __future__ import annotations

import pytest
from support.brokers.metadata_doubles import CLUSTER_ID, ControllerDouble, directory_of

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.broker_heartbeat_manager import BrokerControlState, BrokerHeartbeatManager
from kmirror.wire.messages import assign_replicas_to_dirs as ad
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kmirror.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from kmirror.wire.messages.register_broker_record import RegisterBrokerRecord


def refused(controller: ControllerDouble, request: BrokerRegistrationRequest) -> tuple[Errors, str]:
    with pytest.raises(ApiException) as error:
        controller.cluster.register_broker(request)
    return error.value.error, error.value.message


def test_a_broker_epoch_is_the_offset_of_its_registration() -> None:
    controller = ControllerDouble()
    offset = controller.state.log_end_offset
    assert controller.register(1) == offset
    assert isinstance(controller.records[0], RegisterBrokerRecord)
    assert controller.state.image.cluster.brokers[1].fenced


def test_a_broker_is_unfenced_once_it_has_read_its_registration() -> None:
    controller = ControllerDouble()
    epoch = controller.register(1)
    behind = controller.heartbeat(1, offset=epoch - 1)
    assert (behind.is_fenced, behind.is_caught_up) == (True, False)
    there = controller.heartbeat(1, offset=epoch)
    assert (there.is_fenced, there.is_caught_up) == (False, True)
    assert controller.state.is_active(1)


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "kill"])
@pytest.mark.parametrize("elr", [0, 1], ids=["without ELR", "with ELR"])
def test_a_restart_of_a_lone_replica_raises_the_leader_epoch_by_two(clean: bool, elr: int) -> None:
    controller = ControllerDouble(levels={"eligible.leader.replicas.version": elr})
    controller.start_brokers(1)
    controller.create_topic("t", [[1]])
    for restart in (1, 2):
        previous_epoch = -1
        if clean:
            assert not controller.heartbeat(1, want_shut_down=True).should_shut_down
            assert controller.heartbeat(1, want_shut_down=True).should_shut_down
            previous_epoch = controller.state.image.cluster.brokers[1].epoch
        else:
            controller.clock.now_ms += 9_000
        controller.register(1, incarnation=1 + restart, previous_epoch=previous_epoch)
        assert controller.partition("t").leader == -1
        assert not controller.heartbeat(1).is_fenced
        partition = controller.partition("t")
        assert (partition.leader, partition.leader_epoch) == (1, 2 * restart)
        assert partition.isr == (1,)
        assert partition.elr == ()


def test_another_live_incarnation_is_refused_until_its_session_ends() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1)
    with pytest.raises(ApiException) as error:
        controller.register(1, incarnation=2)
    assert error.value.error is Errors.DUPLICATE_BROKER_REGISTRATION
    controller.clock.now_ms += 9_000
    controller.register(1, incarnation=2)


def test_a_broker_nobody_heard_of_since_the_controller_began_is_not_in_the_way() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1)
    controller.state.heartbeats.brokers.clear()
    controller.state.heartbeats.register(1, controller.state.image.cluster.brokers[1].epoch, fenced=False)
    controller.state.heartbeats.grant_session(1, controller.clock.now_ms)
    controller.register(1, incarnation=2)
    assert controller.state.image.cluster.brokers[1].fenced


def test_the_same_incarnation_keeps_its_epoch_and_state() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1)
    epoch = controller.state.image.cluster.brokers[1].epoch
    assert controller.register(1) == epoch
    assert not controller.state.image.cluster.brokers[1].fenced


def test_registrations_that_are_refused() -> None:
    controller = ControllerDouble()
    controller.register(1)
    directory = [directory_of(2)]
    levels = [Feature(name="metadata.version", min_supported_version=1, max_supported_version=25)]
    code, text = refused(controller, BrokerRegistrationRequest(broker_id=2, cluster_id="other", log_dirs=directory))
    assert (code, text) == (Errors.INCONSISTENT_CLUSTER_ID, f"Expected cluster ID {CLUSTER_ID}, but got cluster ID other")
    code, text = refused(controller, BrokerRegistrationRequest(broker_id=2, cluster_id=CLUSTER_ID, log_dirs=directory, features=levels))
    assert code is Errors.UNSUPPORTED_VERSION
    assert "does not support finalized version 30 of metadata.version" in text
    assert refused(controller, BrokerRegistrationRequest(broker_id=2, cluster_id=CLUSTER_ID))[0] is Errors.INVALID_REGISTRATION
    taken = BrokerRegistrationRequest(broker_id=2, cluster_id=CLUSTER_ID, log_dirs=[directory_of(1)])
    assert refused(controller, taken) == (Errors.INVALID_REGISTRATION, f"Broker 1 is already registered with directory {directory_of(1)}")


def test_stale_brokers_are_fenced_and_lose_their_leaderships() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1, 2)
    controller.create_topic("t", [[1, 2]])
    controller.clock.now_ms += 8_000
    controller.heartbeat(2)
    controller.clock.now_ms += 1_000
    assert controller.run(controller.cluster.fence_stale_broker()) == 1
    assert controller.run(controller.cluster.fence_stale_broker()) == -1
    partition = controller.partition("t")
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, (2,))
    controller.heartbeat(1)
    assert controller.partition("t").leader == 2, "an unfenced broker is back in the ISR only when the leader says so"


def test_controlled_shutdown_hands_over_and_waits_for_the_others() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1, 2)
    controller.create_topic("t", [[1, 2]])
    controller.heartbeat(2)
    assert not controller.heartbeat(1, want_shut_down=True).should_shut_down
    assert controller.partition("t").leader == 2
    assert not controller.heartbeat(1, want_shut_down=True).should_shut_down, "broker 2 has not seen that it leads"
    controller.heartbeat(2)
    answer = controller.heartbeat(1, want_shut_down=True)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)


def test_heartbeats_of_strangers() -> None:
    controller = ControllerDouble()
    for request, code in [
        (BrokerHeartbeatRequest(broker_id=9, broker_epoch=1), Errors.STALE_BROKER_EPOCH),
        (BrokerHeartbeatRequest(broker_id=1, broker_epoch=99), Errors.STALE_BROKER_EPOCH),
    ]:
        if code is Errors.STALE_BROKER_EPOCH:
            controller.register(1)
        with pytest.raises(ApiException) as error:
            controller.cluster.heartbeat(request)
        assert error.value.error is code


def test_a_directory_that_fails_takes_its_replicas_out() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1, 2)
    controller.create_topic("t", [[1, 2]])
    epoch = controller.state.image.cluster.brokers[1].epoch
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=1000, offline_log_dirs=[directory_of(1)])
    controller.run(controller.cluster.heartbeat(request))
    assert controller.partition("t").leader == 2
    assert controller.state.image.cluster.brokers[1].directories == (directory_of(1),), (
        "an empty list in the record says nothing, as in Kafka"
    )


def test_cordoned_directories_are_recorded_once() -> None:
    controller = ControllerDouble()
    epoch = controller.register(1)
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch, cordoned_log_dirs=[])
    controller.run(controller.cluster.heartbeat(request))
    assert controller.state.image.cluster.brokers[1].cordoned_directories == ()
    assert controller.cluster.heartbeat(request).records == []


def test_unregistering() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1, 2)
    controller.create_topic("t", [[1, 2]])
    controller.run(controller.cluster.unregister_broker(1))
    assert list(controller.state.image.cluster.brokers) == [2]
    assert controller.partition("t").leader == 2
    with pytest.raises(ApiException, match="Broker ID 77 is not currently registered"):
        controller.cluster.unregister_broker(77)


def state(fenced: bool, shutdown_offset: int = -1) -> BrokerHeartbeatManager:
    manager = BrokerHeartbeatManager(9_000)
    manager.register(1, 10, fenced=fenced)
    manager.brokers[1].controlled_shutdown_offset = shutdown_offset
    manager.register(2, 11, fenced=False)
    manager.brokers[2].metadata_offset = 50
    return manager


F, U, C, S = BrokerControlState.FENCED, BrokerControlState.UNFENCED, BrokerControlState.CONTROLLED_SHUTDOWN, BrokerControlState.SHUTDOWN_NOW


@pytest.mark.parametrize(
    ("fenced", "shutdown_offset", "want_fence", "want_shut_down", "leads", "offset", "expected"),
    [
        (True, -1, False, True, False, 99, S), (True, -1, True, False, False, 99, F), (True, -1, False, False, False, 9, F),
        (True, -1, False, False, False, 10, U), (False, -1, False, False, True, 99, U), (False, -1, True, False, True, 99, F),
        (False, -1, True, True, True, 99, S), (False, -1, False, True, True, 99, C), (False, -1, False, True, False, 99, S),
        (False, 40, False, True, True, 99, C), (False, 40, False, True, False, 99, S), (False, 60, False, True, False, 99, C),
        (False, 40, False, False, False, 99, S),
    ],
)  # fmt: skip
def test_every_transition(
    fenced: bool, shutdown_offset: int, want_fence: bool, want_shut_down: bool, leads: bool, offset: int, expected: BrokerControlState
) -> None:
    following = state(fenced, shutdown_offset).next_state(
        1,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
        metadata_offset=offset,
        registration_offset=10,
        has_leaderships=lambda: leads,
    )
    assert following is expected


@pytest.mark.parametrize("elr", [0, 1], ids=["without ELR", "with ELR"])
@pytest.mark.parametrize("reports_first", [True, False])
def test_a_lone_replica_whose_disk_was_replaced_had_no_leader_if_its_broker_was_unfenced_first(elr: int, reports_first: bool) -> None:
    """Its replica was still in the directory that is gone, and nothing but the report came after."""
    controller = ControllerDouble(levels={"eligible.leader.replicas.version": elr})
    controller.start_brokers(1, 2)
    controller.create_topic("t", [[1]])
    replaced = directory_of(9)
    controller.clock.now_ms += 9_000
    epoch = controller.register(1, incarnation=2, directory=replaced)
    topic_id = controller.state.image.topics.by_name["t"].id
    partition = ad.AssignReplicasToDirsRequestPartitionData(partition_index=0)
    topic = ad.AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=[partition])
    report = ad.AssignReplicasToDirsRequest(
        broker_id=1, broker_epoch=epoch, directories=[ad.AssignReplicasToDirsRequestDirectoryData(id=replaced, topics=[topic])]
    )
    steps = [
        lambda: controller.run(controller.replication.reports.assign_replicas_to_dirs(report)),
        lambda: controller.heartbeat(1),
    ]
    for step in steps if reports_first else reversed(steps):
        assert controller.partition("t").leader == -1
        step()
    found = controller.partition("t")
    assert (found.leader, found.isr, found.directories) == (1, (1,), (replaced,))
