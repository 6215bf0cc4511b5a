"""Hazards of the state machine and the coordinator (section C), on a whole mirror with real logs
and a scripted source.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.brokers.metadata_doubles import ControllerDouble
from support.logs.storage_doubles import StorageWorld
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, REFRESH_MS, T0, MirrorMachine
from support.mirrors.open_transactions import STOPPED_THERE, transactional
from support.mirrors.scripted_source import batch

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_result import ControllerResult
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.metadata.image import RESOURCE_TOPIC, ConfigResource
from kmirror.metadata.mirror_names import parse_association
from kmirror.mirror.coordination.mirror_coordinator_shard import MirrorCoordinatorShard, StateWrite
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, last_mirror_epochs_record, read_record
from kmirror.mirror.logs.local_log import cut
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.storage.log_cleaner_manager import LogCleanerManager
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_settings import LogSettings
from kmirror.wire import mirror_dialect
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.create_mirror import CreateMirrorRequest, MirrorConfig
from kmirror.wire.messages.delete_mirror import DeleteMirrorRequest
from kmirror.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

BACKOFF_MS = 5_000


async def test_c1_the_cleaner_never_takes_the_state_topic(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.set_configs(MIRROR_STATE_TOPIC_NAME, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    machine.create_topic("plain", configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    for name in (MIRROR_STATE_TOPIC_NAME, "plain"):
        log = machine.partition(name).leader_log
        log.append_as_leader(bytearray(build_batch([Record(0, 1_750_000_000_000, b"key", b"value")])), leader_epoch=0)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
    logs = {log.topic_partition: log for log in machine.log_manager.all_logs()}
    manager = LogCleanerManager(StorageWorld().ports, [str(tmp_path)], logs)
    assert [log.topic_partition.topic for log in manager.deletable_logs()] == ["plain"]
    await machine.close()


@pytest.mark.item("B1")
def test_c1_a_reader_takes_every_record_and_the_newest_of_a_partition_wins() -> None:
    """All keys of a mirror's states are equal: what compaction would keep is the last record alone."""
    shard = MirrorCoordinatorShard()
    records = []
    for number in range(3):
        for state in (State.PREPARING, State.MIRRORING):
            records += shard.write(MIRROR, [StateWrite("t", number, state)]).records
            shard.replay(len(records), records[-1])
    assert len({record.key for record in records}) == 1
    again = MirrorCoordinatorShard()
    for offset, record in enumerate(records):
        again.replay(offset, record)
    found = again.read(MIRROR, [("t", number) for number in range(3)])
    assert [stored.state for stored in found.values()] == [State.MIRRORING] * 3


@pytest.mark.item("B5")
async def test_d3_22_a_paused_partition_whose_source_topic_was_replaced_between_two_refreshes_stops_like_the_others(tmp_path: Path) -> None:
    """Another leader has set X.paused (B5) before this one's second look, by which the source has
    another topic of the name.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.name("m.paused")
    await machine.reach("PAUSED")
    ours = machine.source.topic_ids.pop("t")
    await machine.advance(REFRESH_MS, step_ms=1_000)
    assert machine.state() == "PAUSED", "a single refresh is not trusted"
    machine.source.topic_ids["t"] = Uuid.random(machine.runtime.random)
    await machine.reach("STOPPED", within_ms=REFRESH_MS + 1_000)
    assert machine.source.topic_ids["t"] != ours and machine.produce(batch(0, b"mine")) is Errors.NONE
    await machine.advance(2 * REFRESH_MS, step_ms=1_000)
    assert machine.state() == "STOPPED" and machine.states_written()[-2:] == ["STOPPING", "STOPPED"]
    await machine.close()


async def test_c24_the_wanted_state_is_a_level(tmp_path: Path) -> None:
    """Whatever happens in whatever order, it ends where `mirror.name` says, also when the
    leadership moved in between.
    """
    for seed in range(12):
        machine = MirrorMachine(str(tmp_path / str(seed)), others=(2,))
        random = machine.runtime.random
        await machine.mirroring(batch(0, b"a"))
        for _ in range(12):
            value = ("m", "m.paused", "m.removed", "m.paused.removed")[random.randrange(4)]
            if not machine.cache.image.configs.topic("t")["mirror.name"].endswith(".removed") or value == "m":
                machine.name(value)
            if random.randrange(3) == 0:
                machine.change(leader=2)
                machine.change(leader=1)
            for _ in range(random.randrange(40)):
                await machine.settle() if random.randrange(8) == 0 else machine.runtime.advance(1)
        association = parse_association(machine.cache.image.configs.topic("t")["mirror.name"])
        assert association is not None
        await machine.advance(40_000)
        expected = {(False, False): {"MIRRORING"}, (True, False): {"PAUSED", "MIRRORING", "STOPPED"}}
        wanted = {"STOPPED"} if association.removed else expected[association.paused, association.removed]
        if association.paused and not association.removed and machine.state() == "MIRRORING":
            raise AssertionError("paused, but it goes on")
        assert machine.state() in wanted, (seed, association, machine.states_written())
        await machine.close()


def test_c25_the_map_has_one_mirrors_topics_only() -> None:
    shard = MirrorCoordinatorShard()
    for name in ("m", "other"):
        for record in shard.write(name, [StateWrite(f"of-{name}", 0, State.UNKNOWN, 3)]).records:
            shard.replay(0, record)
    (record,) = shard.write("m", [StateWrite("of-m", 1, State.UNKNOWN, 4)]).records
    assert read_record(record) == LastMirrorEpochs("m", {("of-m", 0): 3, ("of-m", 1): 4})


def test_c26_a_hundred_thousand_partitions_over_fifty_stay_below_a_mebibyte() -> None:
    per_partition = 100_000 // 50
    epochs = {(f"a-topic-of-forty-characters-{number // 100:012d}", number % 100): 1 << 20 for number in range(per_partition)}
    record: CoordinatorRecord = last_mirror_epochs_record(MIRROR, epochs)
    assert record.value is not None and len(record.value) < 1 << 20


async def test_c26_an_epoch_that_has_no_room_keeps_its_partition_stopping_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for 400 bytes: in a cluster it takes a mirror with more partitions than a record of
    a megabyte names.
    """

    def without_a_floor(settings: LogSettings, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        return LogConfig.from_props(overrides, defaults=settings.default_log_config)

    monkeypatch.setattr(LogSettings, "over_defaults", without_a_floor)
    machine = MirrorMachine(str(tmp_path))
    machine.set_configs(MIRROR_STATE_TOPIC_NAME, {"max.message.bytes": "400"})
    for name in ("t", "x" * 200, "y" * 200):
        machine.source.create(name)
        machine.at_source(batch(0, b"a", epoch=1), topic=name)
        machine.topic(name)
        await machine.reach("MIRRORING", name)
    await machine.advance(600)
    machine.name("m.removed", "x" * 200)
    await machine.reach("STOPPED", "x" * 200)
    machine.name("m.removed", "y" * 200)
    await machine.advance(1_000)
    assert machine.state("y" * 200) == "STOPPING"
    assert "RECORD_LIST_TOO_LARGE" in str(machine.driver("y" * 200).status.reason)
    machine.name("m.paused")
    await machine.reach("PAUSED")
    machine.set_configs(MIRROR_STATE_TOPIC_NAME, {"max.message.bytes": "1048576"})
    await machine.reach("STOPPED", "y" * 200)
    await machine.close()


async def test_c27_a_malformed_batch_fails_its_partition_alone_and_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t", partitions=2)
    machine.at_source(batch(0, b"a"))
    machine.at_source(batch(0, b"b"), number=1)
    machine.topic(partitions=2)
    for number in (0, 1):
        await machine.reach("MIRRORING", number=number)
    await machine.advance(600)
    broken = bytearray(batch(1, b"c"))
    broken[-1] ^= 0xFF
    machine.at_source(bytes(broken))
    await machine.reach("FAILED")
    assert "malformed batch from the source" in str(machine.driver().status.reason)
    assert any(record.levelno == logging.ERROR and "malformed batch" in record.getMessage() for record in caplog.records)
    machine.at_source(batch(1, b"d"), number=1)
    await machine.advance(600)
    assert machine.state(number=1) == "MIRRORING" and machine.log(number=1).log_end_offset == 2
    reasons = {row.partition: row.reason for row in machine.mirror.describe(MIRROR)}
    assert reasons[1] is None and "malformed" in str(reasons[0])
    await machine.close()


async def test_c28_stopping_is_tried_again_with_its_reason_also_after_a_disk_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.mirror_controller.fail = lambda request: ApiException(Errors.REQUEST_TIMED_OUT, "no controller")
    machine.name("m.removed")
    await machine.advance(3 * BACKOFF_MS)
    assert machine.state() == "STOPPING" and machine.driver().status.reason == "REQUEST_TIMED_OUT: no controller"
    assert sum("no controller" in record.getMessage() for record in caplog.records) == 1, "said once, not at every try"
    assert len([request for request in machine.mirror_controller.requests if "Bump" in type(request).__name__]) in (3, 4)
    machine.driver().on_storage_error("the disk is gone")
    await machine.settle()
    assert machine.state() == "STOPPING" and "the disk is gone" in str(machine.driver().status.reason)
    machine.mirror_controller.fail = lambda request: None
    await machine.reach("STOPPED", within_ms=BACKOFF_MS + 1_000)
    await machine.close()


async def waits_with_its_own_record(machine: MirrorMachine) -> None:
    """The topic has a record of ours, is added, and nothing of it is cut."""
    machine.topic(value=None)
    machine.local(batch(0, b"mine"))
    machine.name(MIRROR)
    await machine.advance(2 * BACKOFF_MS)
    assert machine.state() == "PREPARING" and machine.log().log_end_offset == 1


@pytest.mark.parametrize("name", [MIRROR, "another"])
@pytest.mark.parametrize("source_cluster_id", [OWN_CLUSTER_ID, ""])
async def test_c34_the_source_mirrors_the_topic_from_us(tmp_path: Path, name: str, source_cluster_id: str) -> None:
    """Or may do so: a mirror there whose source is not known yet."""
    machine = MirrorMachine(str(tmp_path))
    machine.source_mirrors = {name: (source_cluster_id, {T0: ("PREPARING", -1)})}
    await waits_with_its_own_record(machine)
    assert "mirror loop" in str(machine.driver().status.reason)
    await machine.close()


async def test_c34_another_mirror_of_ours_there_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    """Whether it has our topic is not known; the mirror of this name is not there at all, which
    alone would empty the log.
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source_mirrors = {"another": (OWN_CLUSTER_ID, {})}
    machine.refusing["another"] = Errors.COORDINATOR_NOT_AVAILABLE
    await waits_with_its_own_record(machine)
    assert "mirror another: COORDINATOR_NOT_AVAILABLE" in str(machine.driver().status.reason)
    machine.refusing.clear()
    await machine.reach("MIRRORING")
    await machine.close()


async def test_c35_a_target_inside_a_batch_is_lowered_and_the_cut_has_two_phases(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source_mirrors = dict(STOPPED_THERE)
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1), batch(1, b"b", epoch=3))
    machine.topic(value=None, replicas=(1, 2))
    machine.local(batch(0, b"a", epoch=1), batch(1, b"x", b"y", b"z", epoch=2))
    await machine.follow(2, 2)
    machine.name(MIRROR)
    await machine.advance(1_000)
    assert machine.log().log_end_offset == 4, "before all in the ISR have caught up nothing is cut"
    await machine.follow(2, 4)
    await machine.advance(BACKOFF_MS)
    assert machine.log().log_end_offset == 1 and machine.state() == "PREPARING"
    assert machine.registration().leader_epoch == 1, "bumped, so that the follower verifies its log"
    await machine.follow(2, 1)
    await machine.reach("MIRRORING")
    machine.topic("plain", value=None)
    machine.local(batch(0, b"a"), batch(1, b"p", b"q", b"r"), topic="plain")
    assert cut(machine.partition("plain"), 2) == 3 and machine.log("plain").log_end_offset == 1
    await machine.close()


async def test_c38_until_the_state_is_loaded_a_produce_may_be_tried_again(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a"))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    machine.change(leader=2)
    machine.change(leader=1)
    assert machine.produce(batch(0, b"early")) is Errors.NOT_LEADER_OR_FOLLOWER
    await machine.settle()
    assert machine.produce(batch(0, b"late")) is Errors.NONE
    await machine.close()


def test_c40_numbers_come_with_the_name_of_their_revision() -> None:
    assert mirror_dialect.DEFAULT_REVISION == "kip-2026-04"
    default = mirror_dialect.mirror_dialect()
    assert {byte: default.state_name(byte) for byte in (0, 1, 5)} == {0: "PREPARING", 1: "MIRRORING", 5: "STOPPED"}
    later = mirror_dialect.mirror_dialect("ri-2026-07")
    assert later.state_name(6) == "STOPPED" and later.revision == "ri-2026-07"
    with pytest.raises(Exception, match="kip-2026-05"):
        mirror_dialect.mirror_dialect("kip-2026-05")


async def test_c41_a_marker_for_a_mirror_is_answered_and_not_appended(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.topic(value=None)
    machine.local(transactional(0, 7, b"open"))
    machine.source.down.update(machine.source.addresses.values())
    machine.name(MIRROR)
    await machine.settle()
    assert machine.state() == "PREPARING"
    request = WriteTxnMarkersRequest([WritableTxnMarker(7, 0, False, [WritableTxnMarkerTopic("t", [0])], 0, 0)])
    response = await machine.ask(ApiKeys.WRITE_TXN_MARKERS, request, 2)
    assert response.markers[0].topics[0].partitions[0].error_code == 0
    assert machine.log().log_end_offset == 1
    await machine.close()


def test_c23_delete_mirror_clears_topics_that_were_paused_when_they_were_removed() -> None:
    controller = ControllerDouble(mirroring=True, mirror_topic_num_partitions=1, mirror_topic_replication_factor=1)
    controller.start_brokers(1)
    controller.run(
        controller.mirrors.create_mirror(
            CreateMirrorRequest(mirror_name=MIRROR, config=[MirrorConfig(name="bootstrap.servers", value="a:1")])
        )
    )  # fmt: skip
    for topic, value in {"a": "m.removed", "b": "m.paused.removed", "c": "mm.paused.removed"}.items():
        controller.create_topic(topic, [[1]])
        records = controller.configuration.set_records(ConfigResource(RESOURCE_TOPIC, topic), {"mirror.name": value})
        controller.run(ControllerResult(records, None))
    assert controller.run(controller.mirrors.delete_mirror(DeleteMirrorRequest(mirror_name=MIRROR))).error_code == 0
    left = {topic: controller.state.image.configs.topic(topic).get("mirror.name") for topic in "abc"}
    assert left == {"a": None, "b": None, "c": "mm.paused.removed"}
