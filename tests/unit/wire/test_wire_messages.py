"""What generated messages do with versions, tags, nulls and bad bytes; the KIP's wire fragments."""

from __future__ import annotations

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import Message
from kmirror.wire.messages.consumer_group_member_metadata_value import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, MirrorInfo
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState
from kmirror.wire.messages.find_coordinator import FindCoordinatorRequest
from kmirror.wire.messages.last_mirror_epochs_value import LastMirrorEpochsValue, Partition, Topic
from kmirror.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kmirror.wire.messages.mirror_partition_state_key import MirrorPartitionStateKey
from kmirror.wire.messages.mirror_partition_state_value import MirrorPartitionStateValue
from kmirror.wire.messages.mirror_pid_reset_record import MirrorPidResetRecord
from kmirror.wire.messages.offset_commit import OffsetCommitRequest
from kmirror.wire.primitives import ProtocolReadError, ProtocolWriteError, Writer
from kmirror.wire.records import write_versioned

CLUSTER = "lBq12jYZRp-9wF3M9MPopg"


def encode(message: Message, version: int) -> bytes:
    out = Writer()
    message.write(out, version)
    return out.to_bytes()


def fragment(message: Message, version: int) -> str:
    return encode(message, version).hex()


def test_mirror_info_is_a_nullable_struct_at_the_end_of_a_topic() -> None:
    ordinary = fragment(CreatableTopic(name="t"), 8)
    assert ordinary.endswith("ff" + "00")
    mirror = fragment(CreatableTopic(name="t", mirror_info=MirrorInfo(topic_id=Uuid.from_string(CLUSTER))), 8)
    assert mirror == ordinary.removesuffix("ff00") + "01941ab5da3619469fbdc05dccf4c3e8a6" + "00" + "00"


def test_mirror_leader_epoch_is_tag_2_of_the_request_and_3_of_the_response() -> None:
    assert fragment(FetchPartition(mirror_leader_epoch=3), 19).endswith("01020400000003")
    assert fragment(PartitionData(mirror_leader_epoch=3), 19).endswith("01030400000003")
    assert fragment(FetchPartition(mirror_leader_epoch=3), 18) == fragment(FetchPartition(), 18)


def test_mirror_state_records_have_the_bytes_of_the_kips_dump() -> None:
    key = MirrorPartitionStateKey(mirror_name="my-mirror")
    assert write_versioned(key, 0, prefix=MirrorPartitionStateKey.API_KEY).hex() == "000200096d792d6d6972726f72"
    state = MirrorPartitionStateValue(topic_name="my-topic", partition=0, state=1)
    assert write_versioned(state, 0).hex() == "0000096d792d746f706963000000000100"
    epochs = LastMirrorEpochsValue(topics=[Topic(name="my-topic", partitions=[Partition(last_mirror_epoch=1), Partition(1, 3)])])
    assert write_versioned(epochs, 0).hex() == "000002096d792d746f706963030000000000000001000000000100000003000000"


def test_mirror_pid_reset_has_the_decided_bytes() -> None:
    reset = MirrorPidResetRecord(version=0, source_cluster_id=CLUSTER)
    assert fragment(reset, 0) == "0000176c427131326a595a52702d397746334d394d506f706700"


def test_an_ignorable_field_is_dropped_where_the_version_lacks_it() -> None:
    assert encode(FetchRequest(rack_id="r1"), 10) == encode(FetchRequest(), 10)
    with_info = CreatableTopic(name="t", mirror_info=MirrorInfo())
    assert encode(CreateTopicsRequest(topics=[with_info]), 7) == encode(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), 7)


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (FetchRequest(replica_state=ReplicaState(replica_id=1)), 14, "replica_state"),
        (FetchRequest(replica_id=1), 15, "replica_id"),
        (FindCoordinatorRequest(key_type=1), 0, "key_type"),
        (FindCoordinatorRequest(coordinator_keys=["a"]), 3, "coordinator_keys"),
        (OffsetCommitRequest(group_instance_id="i"), 6, "group_instance_id"),
        (FetchRequest(unknown_tagged_fields=((9, b""),)), 11, "unknown_tagged_fields"),
    ],
)
def test_a_field_that_must_not_be_dropped_raises_where_the_version_lacks_it(message: Message, version: int, field: str) -> None:
    with pytest.raises(ApiException, match=f"Attempted to write a non-default {field} at version {version}") as raised:
        encode(message, version)
    assert raised.value.error == Errors.UNSUPPORTED_VERSION


def test_null_is_refused_where_the_version_has_no_null() -> None:
    assert encode(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolWriteError, match="topics must not be null"):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(ProtocolWriteError, match="name must not be null"):
        encode(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)
    with pytest.raises(ProtocolReadError, match="is null, but must not be"):
        MetadataRequest.read(memoryview(b"\xff\xff\xff\xff"), 0, 0)


def test_unknown_tags_are_kept_and_written_back_in_order() -> None:
    request = FetchRequest(cluster_id="c", unknown_tagged_fields=((200, b"xyz"), (7, b"")))
    encoded = encode(request, 12)
    read, _ = FetchRequest.read(memoryview(encoded), 0, 12)
    assert read.unknown_tagged_fields == ((7, b""), (200, b"xyz"))
    assert read.cluster_id == "c"
    assert encode(read, 12) == encoded


def test_a_known_tag_is_an_error_in_a_version_that_lacks_it() -> None:
    encoded = encode(FetchPartition(mirror_leader_epoch=3), 19)
    with pytest.raises(ProtocolReadError, match="tag 2 is not valid for FetchRequest version 18"):
        FetchPartition.read(memoryview(encoded), 0, 18)


def test_a_null_struct_in_a_tag_is_a_zero_and_not_a_minus_one() -> None:
    """Kafka writes it so: the members of consumer groups that never were classic have this in every
    record.
    """
    encoded = encode(ConsumerGroupMemberMetadataValue(classic_member_metadata=None), 0)
    assert encoded.endswith(bytes.fromhex("01" + "000100"))
    assert ConsumerGroupMemberMetadataValue.read(memoryview(encoded), 0, 0)[0].classic_member_metadata is None
    present = encode(ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=7)), 0)
    assert present.endswith(bytes.fromhex("01" + "0007" + "01000000070100"))


@pytest.mark.parametrize("version", [4, 12, 19])
def test_a_request_cut_anywhere_is_a_read_error(version: int) -> None:
    topics = [FetchTopic(topic="topic" if version < 13 else "", partitions=[FetchPartition(partition=1), FetchPartition(partition=2)])]
    encoded = encode(FetchRequest(topics=topics), version)
    for length in range(len(encoded)):
        with pytest.raises(ProtocolReadError):
            FetchRequest.read(memoryview(encoded)[:length], 0, version)


@pytest.mark.parametrize("version", [4, 12, 19])
def test_any_byte_may_be_wrong(version: int) -> None:
    """Whatever a byte is changed to, the request reads as something or is a read error: nothing
    else is raised.
    """
    topics = [FetchTopic(topic="topic" if version < 13 else "", partitions=[FetchPartition(partition=1)])]
    encoded = encode(FetchRequest(topics=topics, cluster_id="c" if version >= 12 else None), version)
    refused = 0
    for position in range(len(encoded)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            changed = bytearray(encoded)
            changed[position] = value
            try:
                FetchRequest.read(memoryview(changed), 0, version)
            except ProtocolReadError:
                refused += 1
    assert refused > 10


@pytest.mark.parametrize("count", ["7fffffff", "00ffffff", "00000100"])
def test_a_huge_count_is_refused_before_anything_is_made_of_it(count: str) -> None:
    with pytest.raises(ProtocolReadError, match="elements, but only 2 bytes are left"):
        MetadataRequest.read(memoryview(bytes.fromhex(count + "0000")), 0, 1)
    with pytest.raises(ProtocolReadError, match="elements, but only 2 bytes are left"):
        MetadataRequest.read(memoryview(bytes.fromhex("ffffffff0f" + "0000")), 0, 9)


def test_record_data_is_a_view_of_the_frame_and_goes_out_by_reference() -> None:
    records = bytearray(b"r" * 100_000)
    out = Writer()
    FetchResponse().write(out, 18)
    PartitionData(records=records).write(out, 18)
    assert any(part is records for part in out.parts())
    assert out.size == len(out.to_bytes())
    encoded = encode(PartitionData(records=records), 18)
    read, _ = PartitionData.read(memoryview(encoded), 0, 18)
    assert isinstance(read.records, memoryview)
    assert read.records.obj is encoded


def test_bad_utf8_is_read_as_java_reads_it() -> None:
    request, _ = FindCoordinatorRequest.read(memoryview(b"\x00\x03a\xffb\x00"), 0, 1)
    assert request.key == "a\N{REPLACEMENT CHARACTER}b"
    assert encode(FindCoordinatorRequest(key="a\udc80"), 0) == b"\x00\x02a?"


def test_a_string_that_is_too_long_for_the_wire_is_refused() -> None:
    with pytest.raises(ProtocolWriteError, match="string of 32768 bytes"):
        encode(FindCoordinatorRequest(key="x" * 32768), 0)
    with pytest.raises(ProtocolReadError, match="invalid length 32768"):
        FindCoordinatorRequest.read(memoryview(b"\x81\x80\x02" + b"x" * 32768), 0, 3)
