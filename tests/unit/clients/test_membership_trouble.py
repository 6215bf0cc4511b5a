"""A member that cannot join its group says why, under both protocols."""

from __future__ import annotations

import pytest
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import Errors


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_cannot_be_joined_is_told(protocol: str) -> None:
    """The application waits in `poll` as if there were nothing to read."""
    cluster = ScriptedCluster(2)
    cluster.topics["t"] = ScriptedTopic({0: 0})
    cluster.coordinator_error = Errors.COORDINATOR_NOT_AVAILABLE
    settings = {"group.id": "g", "group.protocol": protocol}

    async def story() -> tuple[str | None, str | None]:
        consumer = KafkaConsumer(cluster.runtime, cluster.props(0, 1) | settings)
        consumer.subscribe(["t"])
        before = consumer.trouble()
        assert not await consumer.poll(2_000)
        after = consumer.trouble()
        await consumer.close(timeout_ms=100)
        return before, after

    assert cluster.run(story()) == (None, "joining the group g failed at the last try: COORDINATOR_NOT_AVAILABLE")
    cluster.close()
