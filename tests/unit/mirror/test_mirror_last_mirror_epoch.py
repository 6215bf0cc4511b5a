"""Which answers of the source give a last mirror epoch, which give none, and which refuse (D5 step
1, C6, C7, C34).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.mirror.source.last_mirror_epoch import BrokerAnswer, NotYetError, RejectedError, SourceAnswers, decide_last_mirror_epoch
from kmirror.mirror.source.source_cluster import (
    SourceMetadata,
    SourceMirror,
    SourceMirrorPartition,
    SourceNode,
    SourcePartition,
    SourceTopic,
)

T0 = TopicPartition("t", 0)
TOPIC_ID = Uuid(b"\1" * 16)
NODES = {1: SourceNode(1, "a", 1), 2: SourceNode(2, "b", 2)}


def metadata(*, leader: int = 1, epoch: int = 4, topic_id: Uuid = TOPIC_ID, error: Errors = Errors.NONE) -> SourceMetadata:
    return SourceMetadata("SRC", NODES, {"t": SourceTopic(error, topic_id, {0: SourcePartition(leader, epoch)})})


def row(state: str, epoch: int) -> SourceMirror:
    return SourceMirror(Errors.NONE, {T0: SourceMirrorPartition(state, epoch)})


OURS = {"m": "OWN"}
LEADER = BrokerAnswer(1, OURS, row("STOPPED", 3), metadata=metadata())
OTHER = BrokerAnswer(2, OURS, SourceMirror(Errors.NONE))
UNKNOWN = SourceMirror(Errors.UNKNOWN_MIRROR)


def decide(
    *brokers: BrokerAnswer,
    before: SourceMetadata | None = None,
    after: SourceMetadata | None = None,
    safeguards: MirrorSafeguards = ALL_SAFEGUARDS,
) -> int:
    answers = SourceAnswers(before or metadata(), after or before or metadata(), list(brokers))
    return decide_last_mirror_epoch(
        answers, mirror_name="m", topic_partition=T0, topic_id=TOPIC_ID, own_cluster_id="OWN", safeguards=safeguards
    )


def test_stopped_row_of_the_leader_gives_it() -> None:
    assert decide(LEADER, OTHER) == 3


@pytest.mark.parametrize(
    "brokers",
    [
        (BrokerAnswer(1), BrokerAnswer(2)),
        (BrokerAnswer(1, {}, UNKNOWN), BrokerAnswer(2, {}, UNKNOWN)),
        (BrokerAnswer(1, {}, None), BrokerAnswer(2, {}, None)),
        (BrokerAnswer(1, {}, None), BrokerAnswer(2)),
        (BrokerAnswer(1, {"m": "THIRD"}, row("MIRRORING", 9)), BrokerAnswer(2, {"m": "THIRD"}, SourceMirror(Errors.NONE))),
        (replace(LEADER, mirror=SourceMirror(Errors.NONE)), OTHER),
    ],
)
def test_definite_none(brokers: tuple[BrokerAnswer, ...]) -> None:
    assert decide(*brokers) == -1


@pytest.mark.parametrize(
    ("brokers", "why"),
    [
        ((), "no broker"),
        ((LEADER, BrokerAnswer(2, failure="connection refused")), "connection refused"),
        ((replace(LEADER, mirror=SourceMirror(Errors.MIRROR_AUTHORIZATION_FAILED)), OTHER), "MIRROR_AUTHORIZATION_FAILED"),
        ((replace(LEADER, mirror=SourceMirror(Errors.COORDINATOR_NOT_AVAILABLE)), OTHER), "COORDINATOR_NOT_AVAILABLE"),
        ((replace(LEADER, mirror=row("MIRRORING", -1)), OTHER), "MIRRORING"),
        ((replace(LEADER, mirror=row("STOPPING", 2)), OTHER), "STOPPING"),
        ((replace(LEADER, mirrors={}, mirror=UNKNOWN), OTHER), "do not agree"),
        (
            (replace(LEADER, mirror=SourceMirror(Errors.NONE), metadata=metadata(leader=2, epoch=3)), OTHER),
            "does not know yet that it leads",
        ),
        ((replace(LEADER, metadata=None), OTHER), "does not know yet that it leads"),
        ((OTHER,), "did not answer"),
        ((replace(LEADER, from_us={"other": row("MIRRORING", -1)}), OTHER), "mirror loop"),
    ],
)
def test_anything_else_is_not_yet(brokers: tuple[BrokerAnswer, ...], why: str) -> None:
    with pytest.raises(NotYetError, match=why):
        decide(*brokers)


def test_leader_must_be_the_same_before_and_after() -> None:
    with pytest.raises(NotYetError, match="changing"):
        decide(LEADER, OTHER, after=metadata(epoch=5))


def test_a_leader_that_heard_of_it_last_has_no_row_and_that_says_nothing() -> None:
    """Another broker's metadata already named it leader. Once, its answer without a row was taken
    for "none", and the log was emptied.
    """
    behind = replace(LEADER, mirror=SourceMirror(Errors.NONE), metadata=metadata(leader=2, epoch=3))
    with pytest.raises(NotYetError, match="broker 1 does not know yet that it leads t-0"):
        decide(behind, OTHER)


def test_other_topic_id_fails_the_partition() -> None:
    with pytest.raises(RejectedError, match="id"):
        decide(LEADER, before=metadata(topic_id=Uuid(b"\2" * 16)))


def test_source_without_topic_ids_is_taken() -> None:
    without_ids = metadata(topic_id=Uuid.ZERO)
    assert decide(replace(LEADER, metadata=without_ids), OTHER, before=without_ids) == 3


def test_missing_source_topic_is_not_yet() -> None:
    with pytest.raises(NotYetError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        decide(LEADER, before=metadata(error=Errors.UNKNOWN_TOPIC_OR_PARTITION))


def test_ablation_failed_answers_count_as_none() -> None:
    loose = replace(ALL_SAFEGUARDS, definite_answers_only=False)
    assert decide(LEADER, BrokerAnswer(2, failure="connection refused"), safeguards=loose) == -1
