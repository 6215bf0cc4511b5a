"""The registry against the table of Kafka 4.3's APIs, written down here a second time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kmirror.common.errors import Errors
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.mirror_dialect import DIALECTS, MIRROR_API_KEYS, mirror_dialect

# key name lowest-highest first-flexible-version listeners [flags: a cluster action, f forwardable,
# u latest version unstable]
KAFKA_4_3 = """
0 Produce 3-13 9 b
1 Fetch 4-18 12 bc
2 ListOffsets 1-11 6 b
3 Metadata 0-13 9 b
8 OffsetCommit 2-10 8 b
9 OffsetFetch 1-10 6 b
10 FindCoordinator 0-6 3 b
11 JoinGroup 0-9 6 b
12 Heartbeat 0-4 4 b
13 LeaveGroup 0-5 4 b
14 SyncGroup 0-5 4 b
15 DescribeGroups 0-6 5 b
16 ListGroups 0-5 3 b
17 SaslHandshake 0-1 none bc
18 ApiVersions 0-4 3 bc
19 CreateTopics 2-7 5 bc f
20 DeleteTopics 1-6 4 bc f
21 DeleteRecords 0-2 2 b
22 InitProducerId 0-6 2 b u
23 OffsetForLeaderEpoch 2-4 4 b
24 AddPartitionsToTxn 0-5 3 b
25 AddOffsetsToTxn 0-4 3 b
26 EndTxn 0-5 3 b
27 WriteTxnMarkers 1-2 1 b a
28 TxnOffsetCommit 0-5 3 b
29 DescribeAcls 1-3 2 bc
30 CreateAcls 1-3 2 bc f
31 DeleteAcls 1-3 2 bc f
32 DescribeConfigs 1-4 4 bc
33 AlterConfigs 0-2 2 bc f
34 AlterReplicaLogDirs 1-2 2 b
35 DescribeLogDirs 1-5 2 b
36 SaslAuthenticate 0-2 2 bc
37 CreatePartitions 0-3 2 bc f
38 CreateDelegationToken 1-3 2 bc f
39 RenewDelegationToken 1-2 2 bc f
40 ExpireDelegationToken 1-2 2 bc f
41 DescribeDelegationToken 1-3 2 bc
42 DeleteGroups 0-2 2 b
43 ElectLeaders 0-2 2 bc f
44 IncrementalAlterConfigs 0-1 1 bc f
45 AlterPartitionReassignments 0-1 0 bc f
46 ListPartitionReassignments 0-0 0 bc f
47 OffsetDelete 0-0 none b
48 DescribeClientQuotas 0-1 1 b
49 AlterClientQuotas 0-1 1 bc f
50 DescribeUserScramCredentials 0-0 0 bc
51 AlterUserScramCredentials 0-0 0 bc f
52 Vote 0-2 0 c a
53 BeginQuorumEpoch 0-1 1 c a
54 EndQuorumEpoch 0-1 1 c a
55 DescribeQuorum 0-2 0 bc af
56 AlterPartition 2-3 2 c a
57 UpdateFeatures 0-2 0 bc af
58 Envelope 0-0 0 c a
59 FetchSnapshot 0-1 0 c
60 DescribeCluster 0-2 0 bc
61 DescribeProducers 0-0 0 b
62 BrokerRegistration 0-4 0 c a
63 BrokerHeartbeat 0-2 0 c a
64 UnregisterBroker 0-0 0 bc f
65 DescribeTransactions 0-0 0 b
66 ListTransactions 0-2 0 b
67 AllocateProducerIds 0-0 0 c af
68 ConsumerGroupHeartbeat 0-1 0 b
69 ConsumerGroupDescribe 0-1 0 b
70 ControllerRegistration 0-0 0 c
71 GetTelemetrySubscriptions 0-0 0 b
72 PushTelemetry 0-0 0 b
73 AssignReplicasToDirs 0-0 0 c
74 ListConfigResources 0-1 0 b
75 DescribeTopicPartitions 0-0 0 b
76 ShareGroupHeartbeat 1-1 1 b
77 ShareGroupDescribe 1-1 1 b
78 ShareFetch 1-2 1 b
79 ShareAcknowledge 1-2 1 b
80 AddRaftVoter 0-1 0 bc f
81 RemoveRaftVoter 0-0 0 bc f
82 UpdateRaftVoter 0-0 0 c
83 InitializeShareGroupState 0-0 0 b a
84 ReadShareGroupState 0-0 0 b a
85 WriteShareGroupState 0-1 0 b a
86 DeleteShareGroupState 0-0 0 b a
87 ReadShareGroupStateSummary 0-1 0 b a
88 StreamsGroupHeartbeat 0-0 0 b
89 StreamsGroupDescribe 0-0 0 b
90 DescribeShareGroupOffsets 0-1 0 b
91 AlterShareGroupOffsets 0-0 0 b
92 DeleteShareGroupOffsets 0-0 0 b
"""
MIRRORING = """
94 CreateMirror 0-0 0 bc fu
95 AddTopicsToMirror 0-0 0 bc f
96 RemoveTopicsFromMirror 0-0 0 bc f
98 ListMirrors 0-0 0 b
99 DescribeMirrors 0-0 0 b
100 ReadMirrorStates 0-0 0 bc a
101 WriteMirrorStates 0-0 0 bc a
102 PauseMirrorTopics 0-0 0 bc f
103 ResumeMirrorTopics 0-0 0 bc f
104 DeleteMirror 0-0 0 bc fu
105 BumpLeaderEpochs 0-0 0 bc af
"""


def row(key: ApiKeys, *, mirroring: bool) -> str:
    spec = API_TABLE[key]
    highest = mirror_dialect().highest_version(key, mirroring=mirroring)
    unstable = spec.latest_unstable and highest == spec.highest
    flags = "a" * spec.cluster_action + "f" * spec.forwardable + "u" * unstable
    flexible = "none" if spec.flexible_from is None else str(spec.flexible_from)
    listeners = "".join(sorted(listener[0] for listener in spec.listeners))
    return f"{int(key)} {spec.name} {spec.lowest}-{highest} {flexible} {listeners} {flags}".strip()


def test_without_mirroring_the_registry_is_kafka_4_3s() -> None:
    assert [row(key, mirroring=False) for key in sorted(API_TABLE) if key not in MIRROR_API_KEYS] == KAFKA_4_3.strip().splitlines()


def test_mirror_apis() -> None:
    assert [row(key, mirroring=True) for key in sorted(MIRROR_API_KEYS)] == MIRRORING.strip().splitlines()


def test_versions_that_mirroring_adds() -> None:
    dialect = mirror_dialect()
    added = {
        key.name: (dialect.highest_version(key, mirroring=False), dialect.highest_version(key, mirroring=True))
        for key in API_TABLE
        if dialect.highest_version(key, mirroring=False) != dialect.highest_version(key, mirroring=True)
    }
    assert added == {
        "FETCH": (18, 19),
        "CREATE_TOPICS": (7, 8),
        "FIND_COORDINATOR": (6, 7),
        "DESCRIBE_CONFIGS": (4, 5),
        "INCREMENTAL_ALTER_CONFIGS": (1, 2),
    }


def test_every_key_has_a_row_and_a_name() -> None:
    assert set(API_TABLE) == set(ApiKeys)
    for key, spec in API_TABLE.items():
        assert key.name.replace("_", "").lower() == spec.name.lower()


def test_requests_and_responses_agree_with_their_row() -> None:
    for key, spec in API_TABLE.items():
        for message in (spec.request, spec.response):
            constants = vars(message)
            assert (constants["API_KEY"], constants["LOWEST_VERSION"], constants["HIGHEST_VERSION"]) == (key, spec.lowest, spec.highest)
            assert constants["FLEXIBLE_FROM"] == spec.flexible_from


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [(ApiKeys.FETCH, 11, 1, 0), (ApiKeys.FETCH, 12, 2, 1), (ApiKeys.API_VERSIONS, 4, 2, 0), (ApiKeys.SASL_HANDSHAKE, 1, 1, 0)],
)
def test_header_versions(key: ApiKeys, version: int, request_header: int, response_header: int) -> None:
    assert API_TABLE[key].request_header_version(version) == request_header
    assert API_TABLE[key].response_header_version(version) == response_header


def test_the_default_dialect_is_what_errors_and_schemas_speak() -> None:
    dialect = mirror_dialect()
    assert dialect.error_names == {int(error): error.name for error in Errors if error >= 134}
    assert dialect.api_names == {int(key): API_TABLE[key].name for key in MIRROR_API_KEYS}


def test_state_bytes_differ_between_revisions() -> None:
    assert [mirror_dialect("kip-2026-04").state_name(state) for state in (0, 1, 5, 16, -1)] == [
        "PREPARING",
        "MIRRORING",
        "STOPPED",
        "UNKNOWN",
        "UNKNOWN",
    ]
    assert [mirror_dialect("ri-2026-07").state_name(state) for state in (0, 1, 2, 6, -1)] == [
        "LOG_TRUNCATION",
        "EPOCH_FENCING",
        "MIRRORING",
        "STOPPED",
        "UNKNOWN",
    ]
    for revision in DIALECTS:
        with pytest.raises(Exception, match=f"mirror state 99 does not exist in revision {revision}"):
            mirror_dialect(revision).state_name(99)


def test_an_unknown_revision_is_refused_by_name() -> None:
    with pytest.raises(Exception, match="unknown mirror revision 'kip-2027'; known are kip-2026-04, ri-2026-07"):
        mirror_dialect("kip-2027")


def test_importing_the_registry_imports_no_message() -> None:
    code = "import sys, kmirror.wire.framing; print([m for m in sys.modules if m.startswith('kmirror.wire.messages.')])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "['kmirror.wire.messages.index']"
    )
