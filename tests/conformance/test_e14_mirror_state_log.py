"""The mirror-state log that the KIP prints, byte for byte, and that of a real destination (S20)."""

from __future__ import annotations

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, add, create_mirror, create_topic, log_bytes, produce, wait_caught_up

from kmirror import EmbeddedCluster
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.mirror.coordination.mirror_records import last_mirror_epochs_record, partition_state_record
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch

S = MirrorPartitionState
PREPARING = "0000000000000000000000560000000002c594acc90000000000000000019c66135dd70000019c66135dd7ffffffffffffffffffffffffffff00000001480000001a000200096d792d6d6972726f72220000096d792d746f70696300000000000000"
MIRRORING = "0000000000000001000000560000000002ec8e44a10000000000000000019c66135df30000019c66135df3ffffffffffffffffffffffffffff00000001480000001a000200096d792d6d6972726f72220000096d792d746f70696300000000010000"
EPOCHS = "0000000000000002000000660000000002ad8e3ac50000000000000000019c66135dd70000019c66135dd7ffffffffffffffffffffffffffff00000001680000001a000100096d792d6d6972726f7242000002096d792d746f70696303000000000000000100000000010000000300000000"
ROWS = [
    pytest.param(
        0, 1771239071191, partition_state_record("my-mirror", "my-topic", 0, S.PREPARING), PREPARING, 3314855113, 17, id="preparing"
    ),
    pytest.param(
        1, 1771239071219, partition_state_record("my-mirror", "my-topic", 0, S.MIRRORING), MIRRORING, 3968746657, 17, id="mirroring"
    ),
    pytest.param(
        2,
        1771239071191,
        last_mirror_epochs_record("my-mirror", {("my-topic", 1): 3, ("my-topic", 0): 1}),
        EPOCHS,
        2911779525,
        33,
        id="epochs",
    ),
]


@pytest.mark.parametrize(("offset", "time_ms", "record", "wire", "crc", "value_size"), ROWS)
@pytest.mark.item("A7")
def test_s20_batches_of_the_kips_log(offset: int, time_ms: int, record: CoordinatorRecord, wire: str, crc: int, value_size: int) -> None:
    """Each batch has one record and no producer id, and is uncompressed. Sizes and CRCs are as
    printed in the KIP; those of the third batch follow by the same rules.
    """
    raw = build_batch([Record(offset, time_ms, record.key, record.value, [])], base_offset=offset, partition_leader_epoch=0)
    assert bytes(raw).hex() == wire
    batch = RecordBatch(raw)
    assert (batch.size_in_bytes, batch.crc) == (len(wire) // 2, crc)
    assert record.value is not None
    assert (len(record.key), len(record.value)) == (13, value_size)


def test_s20_a_destination_writes_the_same_bytes() -> None:
    """With the KIP's mirror and topic a real destination writes the KIP's log, except for
    timestamps and CRCs.
    """
    config = FAST_MIRROR | {"mirror.topic.num.partitions": "1"}
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=config) as b:
        create_topic(a.bootstrap_servers, "my-topic")
        produce(a.bootstrap_servers, "my-topic", ["v"])
        create_mirror(b.bootstrap_servers, "my-mirror", a.bootstrap_servers)
        add(b.bootstrap_servers, "my-mirror", "my-topic")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "my-mirror")
        found = log_bytes(b.log_dir(), "__mirror_state-0")
        assert [timeless(found[:98]), timeless(found[98:])] == [timeless(bytes.fromhex(wire)) for wire in (PREPARING, MIRRORING)]


def timeless(batch: bytes) -> str:
    """Returns the batch without its CRC (bytes 17 to 21) and timestamps (bytes 27 to 43)."""
    return (batch[:17] + batch[21:27] + batch[43:]).hex()
