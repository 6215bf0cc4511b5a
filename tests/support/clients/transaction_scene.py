"""A transactional producer's world: scripted brokers, their logs of topic t, and a coordinator."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from kmirror.clients.kafka_producer import KafkaProducer
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.scripted_logs import ScriptedLogs
from support.clients.scripted_transactions import ScriptedTransactions

T = TypeVar("T")


class TransactionScene:
    """Of transaction version 1 or 2. `leaders` are those of the partitions of t; the coordinator is broker
    1 until somebody moves it.
    """

    def __init__(self, version: int, brokers: int = 2, leaders: tuple[int, ...] = (0, 1)) -> None:
        self.cluster = ScriptedCluster(brokers)
        self.cluster.topics["t"] = ScriptedTopic(dict(enumerate(leaders)))
        self.logs = ScriptedLogs(self.cluster)
        self.coordinator = ScriptedTransactions(self.cluster, version=version)
        self.cluster.coordinator_of = lambda key: 1
        self.version = version

    def producer(self, **settings: Any) -> KafkaProducer:
        async def made() -> KafkaProducer:
            return KafkaProducer(self.cluster.runtime, self.cluster.props(0, transactional_id="tx", **settings))

        return self.run(made())

    def run(self, coroutine: Awaitable[T]) -> T:
        return self.cluster.run(coroutine)

    def move_coordinator(self) -> None:
        """Broker 1 dies, and broker 2 is the coordinator."""
        self.cluster.stop(1)
        self.cluster.coordinator_of = lambda key: 2
