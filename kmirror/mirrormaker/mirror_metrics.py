"""What the connectors measure, under the names of Kafka's MBeans (ME1 to ME7).

    kafka.connect.mirror:type=MirrorSourceConnector,source=A,target=B,topic=A.t,partition=0
        record-count, record-rate, byte-count, byte-rate
        record-age-ms, record-age-ms-avg, -min, -max                 when it was read
        replication-latency-ms, replication-latency-ms-avg, ...      when the target acknowledged it
        records-lag                                                  not read yet, by the source's last answer; -1: not known
        copying-stopped                                              1: a topic made anew, with kmirror.recreated.topic.policy=stop
        records-lost                                                 of the source, never to be copied
        records-lost-recreated, records-lost-retention               by why (`source_ledger`)
        records-lost-from, records-lost-to                           the newest loss, offsets of the source
    kafka.connect.mirror:type=MirrorCheckpointConnector,source=A,target=B,group=g,topic=A.t,partition=0
        checkpoint-latency-ms, checkpoint-latency-ms-avg, ...

`metric.names.formats=new` names the same attributes after the task, beside (`legacy,new`) or instead:

    kafka.connect:type=plugins,connector=c,task=0,source=A,target=B,topic=A.t,partition=0
    kafka.connect:type=plugins,connector=c,task=0,source=A,target=B,group=g,topic=A.t,partition=0

A partition's begin with its task, at 0, and are gone with it; a group's begin with its first checkpoint.
Averages, least and greatest values are over Kafka's two windows of 30 seconds, NaN when nothing was
measured. Two things differ from Kafka, because batches are not unpacked: ages and latencies are those
of a batch's newest record, and bytes are the batch's (as compressed as it is) instead of the values'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kmirror.common.metrics import MetricName, MetricsRegistry, Value
from kmirror.common.ports import Clock
from kmirror.common.sensors import AvgMinMax, MetricConfig, Rate
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.cycles import SourceAndTarget

GROUP: Final = "kafka.connect.mirror"
LEGACY, NEW = "legacy", "new"
_CONFIG: Final = MetricConfig()
NOT_KNOWN: Final = -1
LOSSES: Final = ("recreated", "retention")
Tags = tuple[tuple[str, str], ...]


class TaskOfMetrics(NamedTuple):
    """Whose metrics they are, and under which names they are shown (`metric.names.formats`)."""

    connector: str
    task: int
    formats: tuple[str, ...] = (LEGACY,)

    def names(self, kind: str, tags: Tags, attribute: str) -> Iterator[MetricName]:
        """`kind` is Kafka's class of connector."""
        if LEGACY in self.formats:
            yield MetricName(GROUP, kind, "", tags, attribute)
        if NEW in self.formats:
            own = ("connector", self.connector), ("task", str(self.task))
            yield MetricName("kafka.connect", "plugins", "", (*own, *tags), attribute)


UNKNOWN_TASK: Final = TaskOfMetrics("", 0)


class Spread:
    """The newest value (0 before the first), and average, least and greatest of the windows."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = 0.0
        self._values = AvgMinMax()

    def record(self, value: float, now_ms: int) -> None:
        self._last = value
        self._values.record(_CONFIG, value, now_ms)

    def record_all(self, values: Sequence[float], now_ms: int) -> None:
        self._last = values[-1]
        self._values.record_all(_CONFIG, values, now_ms)

    def read(self, now_ms: int) -> Iterator[tuple[str, float]]:
        yield self._name, self._last
        yield f"{self._name}-avg", self._values.measure(_CONFIG, now_ms)
        yield f"{self._name}-min", self._values.least(_CONFIG, now_ms)
        yield f"{self._name}-max", self._values.greatest(_CONFIG, now_ms)


class _Meter:
    """A count and its rate per second."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._rate = Rate()

    def record(self, amount: int, now_ms: int) -> None:
        self._count += amount
        self._rate.record(_CONFIG, amount, now_ms)

    def read(self, now_ms: int) -> Iterator[tuple[str, float]]:
        yield f"{self._name}-count", self._count
        yield f"{self._name}-rate", self._rate.measure(_CONFIG, now_ms)


class _PartitionMetrics:
    def __init__(self) -> None:
        self.records, self.bytes = _Meter("record"), _Meter("byte")
        self.age, self.latency = Spread("record-age-ms"), Spread("replication-latency-ms")
        self.lag = NOT_KNOWN
        self.is_stopped = False

    def read(self, now_ms: int) -> Iterator[tuple[str, float]]:
        for part in (self.records, self.bytes, self.age, self.latency):
            yield from part.read(now_ms)
        yield "records-lag", self.lag
        yield "copying-stopped", int(self.is_stopped)


class _Losses:
    """What a partition has lost since the process began: tasks come and go, what is lost stays so."""

    def __init__(self) -> None:
        self._by_why = dict.fromkeys(LOSSES, 0)
        self._from = self._to = -1

    def record(self, why: str, count: int, start: int, end: int) -> None:
        self._by_why[why] = self._by_why.get(why, 0) + count
        self._from, self._to = start, end

    def read(self) -> Iterator[tuple[str, float]]:
        yield "records-lost", sum(self._by_why.values())
        for why, count in self._by_why.items():
            yield f"records-lost-{why}", count
        yield "records-lost-from", self._from
        yield "records-lost-to", self._to


NOTHING_LOST: Final = _Losses()


class MirrorSourceMetrics:
    """Of one flow, by partition of the remote topics."""

    def __init__(self, registry: MetricsRegistry, clock: Clock, flow: SourceAndTarget) -> None:
        self._clock = clock
        self._flow = flow
        self._partitions: dict[TopicPartition, _PartitionMetrics] = {}
        self._tasks: dict[TopicPartition, TaskOfMetrics] = {}
        self._losses: dict[TopicPartition, _Losses] = {}
        registry.add_collector(self._collect)

    def begin(self, task: TaskOfMetrics, remotes: Iterable[TopicPartition]) -> None:
        """The task begins, with these partitions."""
        for remote in remotes:
            self._tasks[remote], self._partitions[remote] = task, _PartitionMetrics()

    def end(self, task: TaskOfMetrics) -> None:
        """The task has ended. What another task has by now stays."""
        for remote in [remote for remote, owner in self._tasks.items() if owner is task]:
            del self._tasks[remote], self._partitions[remote]

    def batches_read(self, remote: TopicPartition, size: int, newest_ms: Sequence[int]) -> None:
        """Batches of `size` bytes together were read from the source; `newest_ms` are the times of
        their newest records.
        """
        now_ms, time_ms = self._clock.monotonic_ms(), self._clock.time_ms()
        metrics = self._of(remote)
        metrics.bytes.record(size, now_ms)
        metrics.age.record_all([time_ms - one for one in newest_ms], now_ms)

    def batches_acknowledged(self, remote: TopicPartition, count: int, newest_ms: Sequence[int]) -> None:
        """The target has batches of `count` records together."""
        now_ms, time_ms = self._clock.monotonic_ms(), self._clock.time_ms()
        metrics = self._of(remote)
        metrics.records.record(count, now_ms)
        metrics.latency.record_all([time_ms - one for one in newest_ms], now_ms)

    def lag(self, remote: TopicPartition, records: int | None) -> None:
        """So many records of the source are not read yet; None while that is not known."""
        self._of(remote).lag = NOT_KNOWN if records is None else records

    def stopped(self, remote: TopicPartition) -> None:
        """Nothing of it is copied, because its users are to decide first."""
        self._of(remote).is_stopped = True

    def records_lost(self, remote: TopicPartition, why: str, count: int, start: int, end: int) -> None:
        """`count` records of the source will never be copied; `start` to `end` - 1 are their offsets, as far as
        they are known.
        """
        self._losses.setdefault(remote, _Losses()).record(why, count, start, end)

    def _of(self, remote: TopicPartition) -> _PartitionMetrics:
        found = self._partitions.get(remote)
        if found is None:
            found = self._partitions[remote] = _PartitionMetrics()
        return found

    def _collect(self) -> Iterator[tuple[MetricName, Value]]:
        now_ms = self._clock.monotonic_ms()
        for remote, metrics in self._partitions.items():
            tags, task = (*_flow_tags(self._flow), *_partition_tags(remote)), self._tasks.get(remote, UNKNOWN_TASK)
            lost = self._losses.get(remote, NOTHING_LOST)
            for attribute, value in (*metrics.read(now_ms), *lost.read()):
                for name in task.names("MirrorSourceConnector", tags, attribute):
                    yield name, value


class MirrorCheckpointMetrics:
    """Of one flow, by group and partition of the remote topics."""

    def __init__(self, registry: MetricsRegistry, clock: Clock, flow: SourceAndTarget) -> None:
        self._clock = clock
        self._flow = flow
        self._latencies: dict[tuple[str, TopicPartition], Spread] = {}
        self._tasks: dict[str, TaskOfMetrics] = {}
        registry.add_collector(self._collect)

    def begin(self, task: TaskOfMetrics, groups: Iterable[str]) -> None:
        """The task begins, with these groups."""
        self._tasks |= dict.fromkeys(groups, task)

    def end(self, task: TaskOfMetrics) -> None:
        """The task has ended. What another task has by now stays."""
        groups = {group for group, owner in self._tasks.items() if owner is task}
        self._tasks = {group: owner for group, owner in self._tasks.items() if group not in groups}
        self._latencies = {key: latency for key, latency in self._latencies.items() if key[0] not in groups}

    def checkpoint_acknowledged(self, group: str, remote: TopicPartition, timestamp_ms: int) -> None:
        """The target has a checkpoint whose record has this time."""
        found = self._latencies.setdefault((group, remote), Spread("checkpoint-latency-ms"))
        found.record(self._clock.time_ms() - timestamp_ms, self._clock.monotonic_ms())

    def _collect(self) -> Iterator[tuple[MetricName, Value]]:
        now_ms = self._clock.monotonic_ms()
        for (group, remote), latency in self._latencies.items():
            tags = (*_flow_tags(self._flow), ("group", group), *_partition_tags(remote))
            for attribute, value in latency.read(now_ms):
                for name in self._tasks.get(group, UNKNOWN_TASK).names("MirrorCheckpointConnector", tags, attribute):
                    yield name, value


def _flow_tags(flow: SourceAndTarget) -> Tags:
    return ("source", flow.source), ("target", flow.target)


def _partition_tags(remote: TopicPartition) -> Tags:
    return ("topic", remote.topic), ("partition", str(remote.partition))
