"""Asking the source for a partition's last mirror epoch (LME): D5 step 1.

The answer decides whether a log is cut at some point or dropped entirely, so only a definite answer
counts (C6, C7). -1 needs one of these: every source broker answers that it has no such mirror (136,
or left out of DescribeMirrors and ListMirrors; or no API 99); the mirror there belongs to another
source than us; or the partition's leader, the same before and after, describes the mirror without a
row for the partition. A row in state STOPPED gives the LME. Everything else, above all silence and
errors, means "not yet": ask again later. A broker may learn late of a new leader, even if it is
that leader itself, and then describes nothing; so its answer counts only if it said beforehand that
it leads.

Two checks come first. The source's topic must have our topic id (or none); otherwise the partition
fails and nothing is cut. And the source must not mirror the same topic from us under any mirror
name: then both sides wait, and neither log is cut (C34).

A broker describes all partitions of a mirror at once, so the question is asked once for all
partitions that need it (`Mirror.survey`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.sentinels import NO_LAST_MIRROR_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.source.source_cluster import SourceCluster, SourceError, SourceMetadata, SourceMirror, SourceNode, SourcePartition
from kmirror.network.client import UnsupportedVersionError
from kmirror.runtime.api import Runtime, run_together

STOPPED = MirrorPartitionState.STOPPED.name


class NotYetError(KmirrorError):
    """PREPARING cannot go on now; the text says why, and it is tried again after
    mirror.truncation.backoff.ms.
    """


class RejectedError(KmirrorError):
    """PREPARING must not go on: the partition fails (D5 step 1)."""


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """What one source broker said.

    `mirrors` None: it has no ListMirrors; `mirror` None: no DescribeMirrors, or left out.
    `from_us`: the mirrors there whose source is this cluster, or may be (not known yet).
    """

    node_id: int
    mirrors: dict[str, str] | None = None
    mirror: SourceMirror | None = None
    from_us: dict[str, SourceMirror] = field(default_factory=dict)
    failure: str | None = None
    metadata: SourceMetadata | None = None
    """What this broker itself knew about the topics before it described the mirrors."""


@dataclass(frozen=True, slots=True)
class SourceAnswers:
    """All that is needed to decide: Metadata before and after, and one answer per broker."""

    before: SourceMetadata
    after: SourceMetadata
    brokers: list[BrokerAnswer] = field(default_factory=list)


async def ask_source(
    runtime: Runtime, source: SourceCluster, *, mirror_name: str, topics: Iterable[str], own_cluster_id: str
) -> SourceAnswers:
    """Ask every broker of the source, for all partitions of `topics` at once.

    SourceError when not even Metadata comes back.
    """
    names = sorted(topics)
    before = await source.refresh(names)
    questions = [_ask_broker(source, node, mirror_name, own_cluster_id, names) for node in source.nodes()]
    answers = await run_together(runtime, "ask-source", questions)
    after = await source.refresh(names)
    return SourceAnswers(before, after, answers)


async def _ask_broker(source: SourceCluster, node: SourceNode, mirror_name: str, own_cluster_id: str, topics: list[str]) -> BrokerAnswer:
    try:
        own_metadata = await source.metadata_of(node, topics)
        mirrors = await source.list_mirrors(node)
        from_us = {}
        for name, source_cluster_id in sorted(mirrors.items()):
            if source_cluster_id in ("", own_cluster_id):
                described = await source.describe_mirror(node, name)
                if described is not None and described.error not in (Errors.NONE, Errors.UNKNOWN_MIRROR):
                    return BrokerAnswer(node.id, mirrors, failure=f"mirror {name}: {described.error.name}")
                if described is not None:
                    from_us[name] = described
        described = from_us.get(mirror_name) or await source.describe_mirror(node, mirror_name)
        return BrokerAnswer(node.id, mirrors, described, from_us, metadata=own_metadata)
    except UnsupportedVersionError:
        return BrokerAnswer(node.id)
    except SourceError as error:
        if error.error is Errors.UNSUPPORTED_VERSION:
            return BrokerAnswer(node.id)
        return BrokerAnswer(node.id, failure=str(error))


def decide_last_mirror_epoch(
    answers: SourceAnswers,
    *,
    mirror_name: str,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    own_cluster_id: str,
    safeguards: MirrorSafeguards,
) -> int:
    """Returns the LME; NotYetError or RejectedError if the answers do not give one. No I/O."""
    _check_topic(answers, topic_partition, topic_id)
    looping = sorted({name for broker in answers.brokers for name in _looping(broker, topic_partition)})
    if looping and safeguards.loop_refused:
        raise NotYetError(f"mirror loop: the source mirrors {topic_partition} from this cluster (mirror {', '.join(looping)})")
    failures = [f"broker {broker.node_id}: {broker.failure}" for broker in answers.brokers if broker.failure is not None]
    if failures:
        return _not_definite("; ".join(failures), safeguards)
    if not answers.brokers:
        raise NotYetError("the source listed no brokers")
    if all(_has_no_mirror(broker, mirror_name) for broker in answers.brokers):
        return NO_LAST_MIRROR_EPOCH
    source_ids = {broker.mirrors[mirror_name] for broker in answers.brokers if broker.mirrors is not None and mirror_name in broker.mirrors}
    if source_ids and "" not in source_ids and own_cluster_id not in source_ids:
        return NO_LAST_MIRROR_EPOCH
    return _from_leader(answers, mirror_name, topic_partition, safeguards)


def _check_topic(answers: SourceAnswers, topic_partition: TopicPartition, topic_id: Uuid) -> None:
    topic = answers.before.topics.get(topic_partition.topic)
    if topic is None or topic.error is not Errors.NONE:
        raise NotYetError(f"source topic {topic_partition.topic}: {topic.error.name if topic is not None else 'no answer'}")
    if topic.topic_id and topic.topic_id != topic_id:
        raise RejectedError(f"source topic {topic_partition.topic} has the id {topic.topic_id}, but the local topic has the id {topic_id}")
    if topic_partition.partition not in topic.partitions:
        text = f"the source has no partition {topic_partition}: its topic has {len(topic.partitions)} partition(s)"
        raise NotYetError(f"{text}; add partitions there, or delete the topic here and add it again")


def _looping(broker: BrokerAnswer, topic_partition: TopicPartition) -> Iterator[str]:
    """Mirrors at the source that copy this partition from us, or are about to (C34)."""
    for name, described in broker.from_us.items():
        row = described.partitions.get(topic_partition)
        if row is not None and row.state != STOPPED:
            yield name


def _has_no_mirror(broker: BrokerAnswer, mirror_name: str) -> bool:
    if broker.mirrors is None:
        return True
    if broker.mirror is None:
        return mirror_name not in broker.mirrors
    return broker.mirror.error is Errors.UNKNOWN_MIRROR


def _from_leader(answers: SourceAnswers, mirror_name: str, topic_partition: TopicPartition, safeguards: MirrorSafeguards) -> int:
    before = answers.before.topics[topic_partition.topic].partitions[topic_partition.partition]
    topic_after = answers.after.topics.get(topic_partition.topic)
    after = topic_after.partitions.get(topic_partition.partition) if topic_after is not None else None
    if before.leader < 0 or after != before:
        return _not_definite(f"the source's leader of {topic_partition} is changing", safeguards)
    answer = next((broker for broker in answers.brokers if broker.node_id == before.leader), None)
    if answer is None:
        return _not_definite(f"the source's leader of {topic_partition} (broker {before.leader}) did not answer", safeguards)
    if not _knows(answer, topic_partition, before):
        return _not_definite(f"the source's broker {answer.node_id} does not know yet that it leads {topic_partition}", safeguards)
    if answer.mirror is None:
        described = SourceMirror(Errors.NONE)
    else:
        described = answer.mirror
    if described.error is Errors.UNKNOWN_MIRROR:
        return _not_definite(f"the source's brokers do not agree on whether mirror {mirror_name} exists", safeguards)
    if described.error is not Errors.NONE:
        return _not_definite(f"mirror {mirror_name} at the source's broker {answer.node_id}: {described.error.name}", safeguards)
    row = described.partitions.get(topic_partition)
    if row is None:
        return NO_LAST_MIRROR_EPOCH
    if row.state != STOPPED:
        raise NotYetError(f"{topic_partition} is {row.state} in mirror {mirror_name} of the source; it must be STOPPED there first")
    return row.last_mirror_epoch


def _knows(answer: BrokerAnswer, topic_partition: TopicPartition, partition: SourcePartition) -> bool:
    topic = answer.metadata.topics.get(topic_partition.topic) if answer.metadata is not None else None
    return topic is not None and topic.partitions.get(topic_partition.partition) == partition


def _not_definite(reason: str, safeguards: MirrorSafeguards) -> int:
    """NotYetError, since a missing or failed answer is no answer; without the safeguard it counts
    as -1, as in the reference implementation (C6, C7).
    """
    if safeguards.definite_answers_only:
        raise NotYetError(reason)
    return NO_LAST_MIRROR_EPOCH
