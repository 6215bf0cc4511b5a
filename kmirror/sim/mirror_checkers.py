"""What must hold of every history of fleets with mirrors: the rules of a mirror (`sim.checkers`),
and those rules of a fleet (`sim.fleet_checkers`) that a mirror leaves in force.

    isr         in the end the logs of all replicas in sync are equal, byte for byte
    duplicates  no value of a producer with an id is in a log twice, wherever it was written and
                however it got there
    aborted     what a producer was told is aborted is never visible as committed, on either cluster
    reads       what a reader saw is what the log says in the end, unless the partition was aligned,
                stopped or deleted since
    operators   what an operator hears is allowed for the topic's state (`sim.mirror_operators`, D6)
    topics      a topic is deleted and made anew only if somebody asks for it, only when it may be,
                and begins empty (`sim.topic_checker`)
    ownership   no partition is owned by two members of a group at the same moment
    groups      a group that follows the active cluster skips nothing, unless the KIP says so
                (`sim.mirror_group_checker`)

Two rules of fleets are not in force. The same epoch and offset may name different batches, since
each cluster numbers its own epochs. A transaction may be committed in part, since a failover cuts
each partition by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.checkers import Violation, check
from kmirror.sim.events import History, LogLost, Order, Removed, StateWritten
from kmirror.sim.fleet_checkers import Truth, check_duplicates, check_isr, check_ownership, check_reads, truth_of
from kmirror.sim.fleet_events import OwnedPartitions, ReadTo, TransactionEnded
from kmirror.sim.fleet_keys import check_keys
from kmirror.sim.mirror_group_checker import check_groups
from kmirror.sim.mirror_operators import check_operators
from kmirror.sim.topic_checker import check_topics

CUTTING = (State.PREPARING, State.MIRRORING, State.STOPPING)


def check_mirrors(history: History) -> list[Violation]:
    """Returns the violations of all rules. Without `Healed` there is nothing to compare with; that
    the fleets do not heal is a violation of "progress".
    """
    truths = [truth for cluster in sorted(set(history.hosts.values())) if (truth := truth_of(history, cluster)) is not None]
    if len(truths) < len(set(history.hosts.values())):
        return []
    found = check(history) + check_groups(history) + list(check_operators(history)) + check_topics(history) + list(check_keys(history))
    for truth in truths:
        found += check_isr(history, truth) + check_duplicates(history, truth)
        found += check_reads(_only_lasting_reads(history, truth.cluster), truth)
        found += _check_aborted(history, truth)
        found += check_ownership(_of_cluster(history, truth.cluster), truth)
    return sorted(found, key=lambda violation: violation.now_us)


def _only_lasting_reads(history: History, cluster: str) -> History:
    """Keeps the reads of that cluster that were asked for after the last cut by a mirror's rules,
    the last deletion or the last disaster. (A slow link may delay the cut until long after
    MIRRORING was written.)
    """
    cut_us: dict[TopicPartition, int] = {}
    states: dict[TopicPartition, tuple[Order, State | None]] = {}
    for event in history.events:
        if isinstance(event, LogLost):
            if event.cluster == cluster:
                cut_us[event.partition] = event.now_us
            continue
        if isinstance(event, StateWritten) and history.cluster_of(event.log) == cluster:
            newest = states.get(event.log.partition, (event.order, None))[0]  # a host that was away hears older states later
            if event.order >= newest:
                states[event.log.partition] = event.order, event.state
        elif not isinstance(event, Removed) or history.cluster_of(event.log) != cluster:
            continue
        is_cut = states.get(event.log.partition, (None, None))[1] in CUTTING
        if is_cut or (isinstance(event, Removed) and event.cause == "topic deleted"):
            cut_us[event.log.partition] = event.now_us
    reads = [event for event in history.events if isinstance(event, ReadTo) and event.cluster == cluster]
    return History([read for read in reads if read.asked_us > cut_us.get(read.partition, -1)])


def _of_cluster(history: History, cluster: str) -> History:
    """Keeps what members of groups worked on at that cluster."""
    return History([event for event in history.events if isinstance(event, OwnedPartitions) and event.cluster == cluster])


def _check_aborted(history: History, truth: Truth) -> Iterator[Violation]:
    committed = {value for partition in truth.logs for value in truth.committed(partition).values()}
    for event in history.events:
        if isinstance(event, TransactionEnded) and event.outcome == "aborted":
            for _, value in event.values:
                if value in committed:
                    text = f"{event.label} was aborted, and {value.decode()} is visible at {truth.cluster}"
                    yield Violation("aborted", event.now_us, text)
