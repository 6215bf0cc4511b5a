"""Values that fill the KIP's blanks (section A), as far as no other test of the conformance suite
shows them under their number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.acl import ResourceType
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.metadata.features import MIRROR_VERSION, MV_MIRROR
from kmirror.metadata.image import RESOURCE_MIRROR, RESOURCE_TOPIC
from kmirror.metadata.mirror_names import parse_association
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, last_mirror_epochs_record, read_record
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.record.control_record import ControlRecordType, build_mirror_pid_reset
from kmirror.record.record_batch import RecordBatch
from kmirror.wire.messages import bump_leader_epochs as bump
from kmirror.wire.messages import describe_mirrors, write_mirror_states
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.partition_record import PartitionRecord

CLUSTER_ID = "lBq12jYZRp-9wF3M9MPopg"
PID_RESET = (
    "000000000000000a0000005600000002029fb04a120020000000000000019c66135dd70000019c66135dd7"
    "ffffffffffffffffffffffffffff00000001480000000800000007340000176c427131326a595a52702d397746334d394d506f70670000"
)


def test_a4_numbers_of_the_enumerations() -> None:
    assert (ResourceType.CLUSTER_MIRROR, RESOURCE_MIRROR) == (8, 64)
    assert ControlRecordType.MIRROR_PID_RESET == 7
    assert (MIRROR_VERSION, MV_MIRROR) == ("mirror.version", 30)
    assert MIRROR_STATE_TOPIC_NAME == "__mirror_state"
    assert {state.name: state.value for state in MirrorPartitionState} == {
        "PREPARING": 0, "MIRRORING": 1, "PAUSING": 2, "PAUSED": 3, "STOPPING": 4, "STOPPED": 5, "FAILED": 6, "UNKNOWN": 16,
    }  # fmt: skip
    assert MirrorPartitionState.from_byte(-1) is MirrorPartitionState.UNKNOWN


@pytest.mark.parametrize(
    ("value", "paused", "removed"),
    [("m", False, False), ("m.paused", True, False), ("m.removed", False, True), ("m.paused.removed", True, True)],
)
def test_a4_suffixes_of_the_association(value: str, paused: bool, removed: bool) -> None:
    found = parse_association(value)
    assert found is not None
    assert (found.mirror_name, found.paused, found.removed) == ("m", paused, removed)


def test_a5_the_field_without_a_name_is_the_last_mirror_epoch() -> None:
    """An int32 of the partition in three messages; -1 where nothing is said."""
    assert describe_mirrors.PartitionDetail().last_mirror_epoch == -1
    assert write_mirror_states.PartitionData().last_mirror_epoch == -1
    epochs = {("t", 0): 1, ("t", 1): 3}
    assert read_record(last_mirror_epochs_record("m", epochs)) == LastMirrorEpochs("m", epochs)


def test_a8_the_reset_is_the_batch_of_98_bytes() -> None:
    made = bytes(build_mirror_pid_reset(CLUSTER_ID, timestamp=1771239071191, base_offset=10, partition_leader_epoch=2))
    assert (made.hex(), len(made)) == (PID_RESET, 98)
    read = RecordBatch(memoryview(made))
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (-1, -1, -1)
    assert read.is_control and not read.is_transactional


async def test_a11_a_bump_is_a_whole_partition_record_and_the_association_a_topic_config(tmp_path: Path) -> None:
    """No field of a release to come: what any reader of Kafka 4 replays."""

    class Watched(MirrorMachine):
        """What the controller writes is kept."""

        def apply(self, *records: Any) -> None:
            applied.extend(records)
            super().apply(*records)

    applied: list[Any] = []
    machine = Watched(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=3))
    before = machine.registration()
    applied.clear()
    machine.name("m.removed")
    await machine.reach("STOPPED")
    bumps = [message for message in machine.mirror_controller.requests if isinstance(message, bump.BumpLeaderEpochsRequest)]
    assert [row.min_leader_epoch for message in bumps for topic in message.topics for row in topic.partitions] == [3]
    records = [record for record in applied if isinstance(record, PartitionRecord)]
    assert [(row.leader_epoch, row.partition_epoch, row.isr) for row in records] == [(4, before.partition_epoch + 1, [1])]
    names = [record for record in applied if isinstance(record, ConfigRecord) and record.name == "mirror.name"]
    assert [(row.resource_type, row.resource_name, row.value) for row in names] == [(RESOURCE_TOPIC, "t", f"{MIRROR}.removed")]
    await machine.close()
