"""MirrorMaker's own topics: made when they are missing, looked after, and read (Kafka's `TopicAdmin`,
`KafkaBasedLog`).

They are compacted logs of few records. `InternalTopicReader` reads all partitions of one from the
beginning, up to the end that it has then, and later on from where it stopped. With read_committed,
records of aborted transactions, which exactly-once workers may have left, do not count. "The end" is
the high watermark even so: whoever starts waits for transactions that are open, for one of them may
hold back what a former task has committed. Without `awaits_transactions` it is the last stable offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import NewTopic
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.scheduler import Job, Step
from kmirror.runtime.api import Runtime

POLL_MS: Final = 1_000
LOOK_AFTER_MS: Final = 60_000
APPEARS_MS: Final = 15_000
APPEARS_POLL_MS: Final = 200
COMPACT: Final = {"cleanup.policy": "compact"}
_MAY_EXIST: Final = (
    Errors.UNSUPPORTED_VERSION,
    Errors.CLUSTER_AUTHORIZATION_FAILED,
    Errors.TOPIC_AUTHORIZATION_FAILED,
)
"""Who may not create topics may still use one that somebody else made."""
_log = logging.getLogger(__name__)

HandleRecord = Callable[[bytes | None, bytes | None], object]
"""Gets key and value."""


async def create_compacted_topic(admin: AdminClient, name: str, *, partitions: int, replication_factor: int) -> bool:
    """Makes the topic unless it exists; returns whether it was made. ApiException if the cluster
    refuses for another reason than that the topic exists, or that we may not make it.
    """
    outcome = await admin.create_topics([NewTopic(name, partitions, replication_factor, dict(COMPACT))])
    error = outcome.errors.get(name)
    if error is None:
        _log.info("Created topic %s with %d partitions and replication factor %d.", name, partitions, replication_factor)
        return True
    if error.error is Errors.TOPIC_ALREADY_EXISTS:
        return False
    if error.error in _MAY_EXIST:
        _log.debug("Topic %s cannot be created (%s); it is expected to exist.", name, error)
        return False
    raise ApiException(error.error, f"Error while attempting to create topic {name}: {error}")


async def require_only_compact(admin: AdminClient, topic: str, keeps: str) -> None:
    """ConfigError for a topic that loses records by another policy than compaction (Kafka's
    `verifyTopicCleanupPolicyOnlyCompact`). Whoever may not ask for its configs takes it as it is.
    """
    said = await _forgets(admin, topic, keeps)
    if said is not None:
        raise ConfigError(f"{said}; set cleanup.policy=compact for it, or name another topic")


async def _forgets(admin: AdminClient, topic: str, keeps: str) -> str | None:
    """Returns what to say of a topic that loses records by another policy than compaction."""
    described = (await admin.describe_topic_configs([topic])).get(topic)
    if described is None or isinstance(described, ApiException):
        _log.info("The cleanup policy of topic %s is not known: %s", topic, described)
        return None
    policies = [(entry.value or "").replace(" ", "") for entry in described if entry.name == "cleanup.policy"]
    others = [policy for policy in policies if policy != "compact"]
    return f"Topic {topic} has cleanup.policy={others[0]}, so {keeps} would be lost in time" if others else None


class KeptTopic:
    """A connector's own topic, of one partition. `keeps` says what is in it. In Kafka it is made when the
    connector starts. Here it is also made anew if somebody deletes it, and the log says so if it is not
    compacted: a broker with auto.create.topics.enable makes such a one when a producer asks for a
    missing topic.
    """

    def __init__(self, admin: AdminClient, name: str, replication_factor: int, keeps: str) -> None:
        self._admin = admin
        self._name = name
        self._replication_factor = replication_factor
        self._keeps = keeps
        self._said: str | None = None

    async def make(self) -> None:
        """A cluster that refuses for good is told, and keeps nothing from being copied (as in Kafka, where it is
        an error in the log): the job tries again. Raises what helps to try at once.
        """
        try:
            if not await self._create():
                await self._tell_if_it_forgets()
        except ApiException as error:
            if error.error.retriable:
                raise
            _log.error("Topic %s cannot be made, so there are no %s until it can: %s", self._name, self._keeps, error)

    async def _create(self) -> bool:
        return await create_compacted_topic(self._admin, self._name, partitions=1, replication_factor=self._replication_factor)

    def job(self) -> Job:
        return Job(self._look_after, LOOK_AFTER_MS, f"looking after topic {self._name}", delayed=True)

    async def _look_after(self, step: Step) -> None:
        if self._name not in await self._admin.list_topics(include_internal=True):
            step()
            if await self._create():
                _log.warning("Topic %s was gone, and its %s with it: it is made anew", self._name, self._keeps)
        step()
        await self._tell_if_it_forgets()

    async def _tell_if_it_forgets(self) -> None:
        """The log says it once, and again after a change."""
        said = await _forgets(self._admin, self._name, self._keeps)
        if said is not None and said != self._said:
            _log.warning("%s; set cleanup.policy=compact for it", said)
        self._said = said


class InternalTopicReader:
    """Owns two consumers: one reads, one asks for ends. `handle` is called with key and
    value of every record, in the order of each partition.
    """

    def __init__(
        self,
        runtime: Runtime,
        props: Mapping[str, str],
        topic: str,
        handle: HandleRecord,
        *,
        awaits_transactions: bool = True,
        appears_ms: int = 0,
    ) -> None:
        """The topic may be so new that not all brokers know it: `start` asks for so long."""
        self._runtime = runtime
        self._appears_ms = appears_ms
        self._topic = topic
        self._handle = handle
        fixed = {"auto.offset.reset": "earliest", "enable.auto.commit": "false", "allow.auto.create.topics": "false"}
        self._consumer = KafkaConsumer(runtime, {"isolation.level": "read_committed", **props, **fixed})
        isolation = "read_uncommitted" if awaits_transactions else "read_committed"
        self._ends = KafkaConsumer(runtime, {**props, **fixed, "isolation.level": isolation})
        self._partitions: list[TopicPartition] = []
        self.next_offset = 0
        """Behind the last record that was handled; of a topic of one partition."""

    @property
    def partition_count(self) -> int:
        """Once it has started."""
        return len(self._partitions)

    async def start(self) -> None:
        """Finds the topic's partitions, and reads them to their end.

        UNKNOWN_TOPIC_OR_PARTITION when the topic does not exist.
        """
        found, waited_ms = await self._consumer.partitions_for(self._topic), 0
        while not found and waited_ms < self._appears_ms:
            await self._runtime.sleep_ms(APPEARS_POLL_MS)
            found, waited_ms = await self._consumer.partitions_for(self._topic), waited_ms + APPEARS_POLL_MS
        if not found:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {self._topic} does not exist")
        self._partitions = [TopicPartition(self._topic, number) for number in range(len(found))]
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning(self._partitions)
        await self.read_to_end()

    async def read_to_end(self) -> None:
        """Reads on, up to the ends that the topic has at the time of the call. A topic that ends before
        the place where reading stopped was deleted and made anew: it is read from its beginning. Where it
        stopped is asked before anything is read: reading one partition up to its end may take another
        one beyond the end that it had.
        """
        ends = await self._ends.end_offsets(self._partitions)
        stopped = {partition: await self._consumer.position(partition) for partition in ends}
        for partition, position in stopped.items():
            if position > ends[partition]:
                _log.warning(
                    "%s ends at offset %d and was read up to %d before: it is read from its beginning", partition, ends[partition], position
                )
                self._consumer.seek_to_beginning([partition])
                self.next_offset = 0
        for partition, end in ends.items():
            while await self._consumer.position(partition) < end:
                await self.read(POLL_MS)

    async def read(self, timeout_ms: int) -> None:
        """Reads what comes next; returns after `timeout_ms` if nothing does."""
        for record in await self._consumer.poll(timeout_ms):
            self._handle(record.key, record.value)
            self.next_offset = record.offset + 1

    async def close(self) -> None:
        try:
            await self._consumer.close(timeout_ms=0)
        finally:
            await self._ends.close(timeout_ms=0)
