"""What a follower says to its leader's session, request after request."""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.broker_leader_end_point import BrokerLeaderEndPoint
from kmirror.replica.leader_end_point import PartitionFetchState
from kmirror.replica.replica_types import ReplicaConfig
from kmirror.wire.messages import fetch

OLD, NEW = Uuid(b"topic-id-of-old-"), Uuid(b"topic-id-of-new-")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Leader:
    """A `NetworkClient` whose peer keeps a session and notes what it is told."""

    def __init__(self) -> None:
        self.waits: list[int] = []
        self.asked: list[tuple[list[tuple[Uuid, int]], list[tuple[Uuid, int]]]] = []

    async def send(self, host: str, port: int, request: fetch.FetchRequest, *, timeout_ms: int) -> fetch.FetchResponse:
        asked = [(topic.topic_id, row.partition) for topic in request.topics for row in topic.partitions]
        gone = [(topic.topic_id, number) for topic in request.forgotten_topics_data for number in topic.partitions]
        self.asked.append((asked, gone))
        self.waits.append(request.max_wait_ms)
        return fetch.FetchResponse(session_id=7)


def state(topic_id: Uuid, offset: int = 0) -> PartitionFetchState:
    return PartitionFetchState(topic_id, offset, current_leader_epoch=0, last_fetched_epoch=None)


async def test_a_topic_that_was_made_anew_is_forgotten_under_its_old_id() -> None:
    """The leader's session went on with the old id, and its UNKNOWN_TOPIC_ID was taken for the new
    one's, for ever (`mirrors`, seed 10925).
    """
    leader = Leader()
    end_point = BrokerLeaderEndPoint(leader, "b", 1, ReplicaConfig(broker_id=1), broker_epoch=1, request_timeout_ms=1_000)  # type: ignore[arg-type]
    await end_point.fetch({T0: state(OLD), T1: state(OLD)}, None, max_wait_ms=None)
    await end_point.fetch({T0: state(NEW), T1: state(OLD, 5)}, None, max_wait_ms=None)
    await end_point.fetch({T1: state(OLD, 5)}, None, max_wait_ms=None)
    assert leader.asked == [
        ([(OLD, 0), (OLD, 1)], []),
        ([(NEW, 0), (OLD, 1)], [(OLD, 0)]),
        ([], [(NEW, 0)]),
    ]


async def test_it_asks_the_leader_to_wait_for_news_no_longer_than_a_partition_waits_for_its_retry() -> None:
    leader = Leader()
    config = ReplicaConfig(broker_id=1, replica_fetch_wait_max_ms=500)
    end_point = BrokerLeaderEndPoint(leader, "b", 1, config, broker_epoch=1, request_timeout_ms=1_000)  # type: ignore[arg-type]
    for max_wait_ms in (None, 10, 800):
        await end_point.fetch({T0: state(OLD)}, None, max_wait_ms=max_wait_ms)
    assert leader.waits == [500, 10, 500]
