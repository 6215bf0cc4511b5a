"""What must hold of every history in which MirrorMaker copies from one fleet to another, besides
the rules of each fleet (`sim.fleet_checkers`).

    lost         what a reader of the source is shown, the target has: every record that was
                 acknowledged, and with read_committed none that was aborted
    order        the first copies of a partition's records come in the order of the source
    once         with exactly-once support the target shows no record twice
    invented     the target shows no record that the source does not, and none that a filter drops
    syncs        the records that an offset sync names are one record
    groups       a group that goes on at a translated offset skips nothing: of each record at or
                 behind its offset at the source, the target has a copy at or behind the translated
                 one
    cycles       no topic has come back to a cluster that it was copied from
    heartbeats   when nothing disturbs a flow any more, its target gets heartbeats

The truth is what the logs say at the end (`Healed`), when the workers have ended. A batch that a
worker sends again is a second copy: at least once. Records that went with a topic of the target that
was deleted need not come again, and what was said of that topic need not be true of the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kmirror.common.topic_partition import TopicPartition
from kmirror.sim.checkers import Violation
from kmirror.sim.events import Appended, Event, History, LogKey, Removed
from kmirror.sim.fleet_checkers import CHECKERS, Truth, truth_of
from kmirror.sim.fleet_clients import is_odd
from kmirror.sim.fleet_events import FleetEvent
from kmirror.sim.flow_events import Copied, FaultsEnded, FlowRead, GroupMoved, TopicsSeen, went_with_topics
from kmirror.sim.log_watch import TOPIC_DELETED
from kmirror.sim.topic_events import DELETE_TOPIC, TopicAsked

OF_LOCAL_TOPICS = ("duplicates",)
"""Rules for what clients of the cluster itself write; MirrorMaker may send a batch again."""


def check_flows(history: History) -> list[Violation]:
    """Returns the violations of all rules, by time. Without `Healed` there is nothing to compare
    with; that a fleet does not heal is a violation of "progress".
    """
    truths = {cluster: truth for cluster in sorted(set(history.hosts.values())) if (truth := truth_of(history, cluster)) is not None}
    if len(truths) < len(set(history.hosts.values())):
        return []
    flows = [event for event in history.events if isinstance(event, FlowRead)]
    copies = {(flow.target, copy) for flow in flows for _, copy in flow.copied}
    found = list(_check_topics(history)) + list(_check_heartbeats(history, flows))
    for cluster, truth in truths.items():
        found += _check_fleet(history, truth, [partition for at, partition in copies if at == cluster])
    for flow in flows:
        comparison = Comparison(flow, truths[flow.source], truths[flow.target], went_with_topics(history, flow.target))
        found += [Violation(rule, flow.now_us, f"{flow.source}->{flow.target}: {text}") for rule, text in comparison.findings()]
        moved = (event for event in history.events if isinstance(event, GroupMoved))
        for event in moved:
            if (event.source, event.target) == (flow.source, flow.target):
                found += [Violation("groups", event.now_us, text) for text in comparison.skipped_by_moved(event)]
    return sorted(found, key=lambda violation: violation.now_us)


def _check_fleet(history: History, truth: Truth, copies: list[TopicPartition]) -> Iterator[Violation]:
    own = _of_cluster(history, truth.cluster)
    local = Truth(truth.cluster, truth.now_us)
    local.logs = {partition: logs for partition, logs in truth.logs.items() if partition not in copies and not _is_internal(partition)}
    for rule, check in CHECKERS.items():
        yield from check(own, local if rule in OF_LOCAL_TOPICS else truth)


def _is_internal(partition: TopicPartition) -> bool:
    return partition.topic.endswith((".internal", "heartbeats"))


def _of_cluster(history: History, cluster: str) -> History:
    """Keeps what happened at that cluster."""

    def is_own(event: object) -> bool:
        log = getattr(event, "log", None)
        if isinstance(log, LogKey):
            return history.cluster_of(log) == cluster
        return isinstance(event, FleetEvent | TopicAsked) and event.cluster == cluster

    own = [event for event in history.events if is_own(event)]
    return History(_of_last_topics(own), hosts=history.hosts)


def _of_last_topics(events: list[Event]) -> list[Event]:
    """Leaves out what happened to logs until the last of their hosts had deleted the topic. A host
    whose log was empty tells nothing of it, but somebody has asked for it.
    """
    deleted: dict[TopicPartition | None, int] = {}
    asked: dict[str, int] = {}
    for number, event in enumerate(events):
        if isinstance(event, Removed) and event.cause == TOPIC_DELETED:
            deleted[event.log.partition] = number
        elif isinstance(event, TopicAsked) and event.operation == DELETE_TOPIC:
            asked[event.topic] = number

    def began(partition: TopicPartition | None) -> int:
        return max(deleted.get(partition, -1), -1 if partition is None else asked.get(partition.topic, -1))

    return [event for number, event in enumerate(events) if number > began(_partition_of(event))]


def _partition_of(event: Event) -> TopicPartition | None:
    log = getattr(event, "log", None)
    return log.partition if isinstance(log, LogKey) else None


def _check_topics(history: History) -> Iterator[Violation]:
    for event in history.events:
        if isinstance(event, TopicsSeen):
            for name in event.names:
                if event.cluster in name.split(".")[:-1] and not name.endswith(".internal"):
                    yield Violation("cycles", event.now_us, f"{event.cluster} has {name}, which came from {event.cluster} itself")


def _check_heartbeats(history: History, flows: list[FlowRead]) -> Iterator[Violation]:
    ended_us = max((event.now_us for event in history.events if isinstance(event, FaultsEnded)), default=None)
    for flow in flows:
        if flow.heartbeats is None or ended_us is None:
            continue
        topic = TopicPartition(flow.heartbeats, 0)
        beats = (event for event in history.events if isinstance(event, Appended) and event.log.partition == topic)
        if not any(beat.now_us > ended_us and history.cluster_of(beat.log) == flow.target for beat in beats):
            yield Violation("heartbeats", flow.now_us, f"{flow.target} gets no heartbeat of {flow.source}->{flow.target}")


@dataclass(slots=True)
class Comparison:
    """The logs of a flow's two clusters. `gone`: what the target has lost with its deleted topics."""

    flow: FlowRead
    source: Truth
    target: Truth
    gone: Mapping[TopicPartition, set[bytes]] = field(default_factory=dict)

    def findings(self) -> Iterator[tuple[str, str]]:
        """Yields rule and text of each violation."""
        for source, target in self.flow.copied:
            yield from self._copied(source, target)
        for target in dict.fromkeys(target for _, target in self.flow.copied):
            yield from self._invented(target)
        yield from self._syncs()
        for checkpoint in self.flow.checkpoints:
            group, partition = checkpoint.consumer_group_id, checkpoint.topic_partition
            if partition in self.gone:
                continue
            skipped = self._skipped(partition, checkpoint.upstream_offset, checkpoint.downstream_offset)
            if skipped:
                yield "groups", f"{checkpoint}: {group} skips {skipped}"

    def skipped_by_moved(self, moved: GroupMoved) -> Iterator[str]:
        for source, target in self.flow.copied:
            offset, translated = moved.at_source.get(source), moved.at_target.get(target)
            if offset is not None and translated is not None:
                skipped = self._skipped(target, offset, translated)
                if skipped:
                    yield f"group {moved.group} is at {offset} of {source}, goes on at {translated} of {target} and skips {skipped}"

    def shown_at_source(self, partition: TopicPartition) -> dict[int, bytes]:
        shown = self.source.committed(partition) if self.flow.committed else self.source.values(partition)
        kept = {offset: value for offset, value in shown.items() if not (self.flow.filters and is_odd(value))}
        return dict(sorted(kept.items()))

    def _shown_at_target(self, partition: TopicPartition) -> dict[int, bytes]:
        return dict(sorted(self.target.committed(partition).items()))

    def _copied(self, source: TopicPartition, target: TopicPartition) -> Iterator[tuple[str, str]]:
        shown, gone = self.shown_at_source(source).values(), self.gone.get(target, set())
        known = set(shown)
        copies = [value for value in self._shown_at_target(target).values() if value in known]
        there = set(copies)
        first = list(dict.fromkeys(value for value in copies if value not in gone))
        wanted = list(dict.fromkeys(value for value in shown if value not in gone))
        missing = [value for value in wanted if value not in there]
        if missing:
            yield "lost", f"{len(missing)} records of {source} are not in {target}, first {missing[0].decode()}"
        elif first != wanted:
            index = next(number for number, value in enumerate(first) if value != wanted[number])
            yield "order", f"{target} has {first[index].decode()} where {source} has {wanted[index].decode()}"
        if self.flow.exactly_once and len(copies) > len(there):
            twice = next(value for number, value in enumerate(copies) if value in copies[:number])
            yield "once", f"{target} has {twice.decode()} twice"

    def _invented(self, target: TopicPartition) -> Iterator[tuple[str, str]]:
        known = {value for source, copy in self.flow.copied if copy == target for value in self.shown_at_source(source).values()}
        for offset, value in self._shown_at_target(target).items():
            if value not in known:
                yield "invented", f"{target} has {value.decode(errors='replace')} at {offset}, which the source does not show"
                return

    def _syncs(self) -> Iterator[tuple[str, str]]:
        copies = {source: target for source, target in self.flow.copied if target not in self.gone}
        for sync in self.flow.syncs:
            if sync.topic_partition in copies:
                upstream = self.source.values(sync.topic_partition).get(sync.upstream_offset)
                downstream = self.target.committed(copies[sync.topic_partition]).get(sync.downstream_offset)
                if upstream is None or upstream != downstream:
                    yield "syncs", f"{sync}: {_shown(upstream)} at the source, {_shown(downstream)} at the target"

    def _skipped(self, target: TopicPartition, offset: int, translated: int) -> str:
        """Returns a record that a group skips there, "" if it skips none."""
        source = _source_of(self.flow.copied, target)
        if source is None:
            return ""
        last = {value: at for at, value in self._shown_at_target(target).items()}
        for at, value in self.shown_at_source(source).items():
            if at >= offset and last.get(value, translated) < translated:
                return f"{value.decode()}, at {at} of {source} and at {last[value]} of {target}"
        return ""


def _source_of(copied: tuple[Copied, ...], target: TopicPartition) -> TopicPartition | None:
    return next((source for source, copy in copied if copy == target), None)


def _shown(value: bytes | None) -> str:
    return "nothing" if value is None else repr(value.decode(errors="replace"))
