"""Compacted or lost: what a cleaner cannot have touched was not compacted, whatever its key says.

`A` is complete; `B` lacks its first batches, whose keys come again. The metadata log of both says
when the topic was compacted, with which lag, and how many replicas it has.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.logs.log_folders import TIME, records, write_log, write_segments

from kmirror.cli.kmirror import main
from kmirror.cli.log_diff import main as main_log_diff
from kmirror.cli.log_diff_live import LiveInput
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.verify.fetched_log import FetchedLog
from kmirror.verify.log_diff import DiffSettings, diff_logs
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.records import write_metadata_record

HOUR_MS = 3_600_000
ID = Uuid(b"t" * 16)
CREATED = (TopicRecord(name="t", topic_id=ID), -10 * HOUR_MS)
SEEN_MS = TIME + HOUR_MS


def replicas(*brokers: int) -> tuple[PartitionRecord, int]:
    row = PartitionRecord(
        partition_id=0, topic_id=ID, replicas=list(brokers), isr=list(brokers), leader=brokers[0], leader_epoch=0, partition_epoch=0
    )
    return row, -10 * HOUR_MS


def config(name: str, value: str | None, *, at: int = -10 * HOUR_MS, kind: int = 2) -> tuple[ConfigRecord, int]:
    """Set `at` ms after the first record of the log."""
    return ConfigRecord(resource_type=kind, resource_name="t" if kind == 2 else "", name=name, value=value), at


POLICY, LAG = "cleanup.policy", "min.compaction.lag.ms"
COMPACT = config(POLICY, "compact")


def metadata(said: Sequence[tuple[object, int]]) -> bytes:
    rows = [
        bytes(
            build_batch(
                [Record(offset, TIME + at, None, write_metadata_record(one, int(isinstance(one, PartitionRecord))), [])],  # type: ignore[arg-type]
                base_offset=offset,
            )
        )
        for offset, (one, at) in enumerate(said)
    ]
    return b"".join(rows)


def keyed(first: int, keys: int = 10) -> bytes:
    return bytes(build_batch(records(first, 5, keys=keys), base_offset=first, partition_leader_epoch=0))


class Clusters:
    """Folders `a` and `b`, last seen at `SEEN_MS`. The records' times begin at `TIME`."""

    def __init__(self, folder: Path, *said: tuple[object, int], snapshot: bool = False) -> None:
        self.sides = [folder / "a", folder / "b"]
        parts = [keyed(first) for first in range(0, 40, 5)]
        self.write(parts, parts[2:], rolled=40)
        for side in self.sides:
            log = side / "__cluster_metadata-0"
            if snapshot:
                write_log(log, base_offset=100)
                (log / "00000000000000000100-0000000001.checkpoint").write_bytes(metadata(said))
            else:
                write_log(log, metadata(said))

    def write(self, left: Sequence[bytes], right: Sequence[bytes], *, rolled: int) -> None:
        """Writes both logs; the newest segment begins at `rolled`."""
        for side, parts in zip(self.sides, (left, right)):
            newest = [keyed(40)] if rolled == 40 else [one for one in parts if int.from_bytes(one[:8], "big") >= rolled]
            first = [one for one in parts if one not in newest]
            folder = write_segments(side / "t-0", (0, first), (rolled, newest))
            (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        self.seen()

    def seen(self, at_ms: int = SEEN_MS) -> None:
        for side in self.sides:
            for path in (side / "t-0").iterdir():
                os.utime(path, (at_ms / 1000, at_ms / 1000))


def said(clusters: Clusters, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    code = main_log_diff([*map(str, clusters.sides), "--ignore", "compacted"])
    text = capsys.readouterr().out
    kinds = [kind for kind in ("compacted away", "not decided", "missing") if f"{kind}: " in text]
    assert code == (0 if kinds == ["compacted away"] else 1) and len(kinds) == 1, text
    return f"{kinds[0]}: {text}"


@pytest.mark.parametrize(
    ("configs", "kind"),
    [
        ([COMPACT], "compacted away"),
        ([COMPACT, config(LAG, str(HOUR_MS // 2))], "compacted away"),
        ([COMPACT, config(LAG, str(24 * HOUR_MS))], "missing"),
        ([COMPACT, config(LAG, str(24 * HOUR_MS), at=-5 * HOUR_MS)], "not decided"),
        ([COMPACT, config("log.cleaner.min.compaction.lag.ms", str(24 * HOUR_MS), kind=4)], "missing"),
        ([config(POLICY, "delete"), config(POLICY, "compact", at=0)], "compacted away"),
        ([COMPACT, config(POLICY, "delete", at=HOUR_MS)], "compacted away"),
        ([COMPACT, config(POLICY, "delete", at=-5 * HOUR_MS)], "not decided"),
        ([COMPACT, config(POLICY, None, at=-5 * HOUR_MS)], "not decided"),
        ([COMPACT, config(LAG, str(HOUR_MS)), config(POLICY, "delete", at=0)], "missing"),
        ([COMPACT, (RemoveTopicRecord(topic_id=ID), -HOUR_MS), CREATED, replicas(1)], "missing"),
        ([config("log.cleanup.policy", "compact", kind=4)], "compacted away"),
        ([config("log.cleanup.policy", "compact", kind=4), config(POLICY, "delete")], "missing"),
    ],
    ids=[
        "compact",
        "older-than-the-lag",
        "younger-than-the-lag",
        "the-lag-came-later",
        "the-brokers-lag",
        "compact-later",
        "compact-before",
        "compact-before-they-were-written",
        "default-before-they-were-written",
        "too-young-when-it-ended",
        "another-topic-of-that-name",
        "the-brokers-policy",
        "not-the-brokers-policy",
    ],
)
def test_the_history_of_a_topics_configs_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], configs: list[tuple[object, int]], kind: str
) -> None:
    text = said(Clusters(tmp_path, CREATED, replicas(1), *configs), capsys)
    assert text.startswith(kind), text


def test_a_snapshot_does_not_say_what_was_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(Clusters(tmp_path, CREATED, replicas(1), snapshot=True), capsys)
    assert text.startswith("not decided") and "nothing says whether it was before" in text


@pytest.mark.parametrize(("brokers", "kind"), [((1,), "missing"), ((1, 2), "not decided")])
def test_a_hole_in_the_newest_segment_was_compacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], brokers: tuple[int, ...], kind: str
) -> None:
    """A replica can have fetched it from a log that was cleaned; the only one cannot."""
    clusters = Clusters(tmp_path, CREATED, replicas(*brokers), COMPACT)
    parts = [keyed(first) for first in range(0, 40, 5)]
    clusters.write(parts, [*parts[:2], *parts[4:]], rolled=10)
    for side in clusters.sides:
        (side / "t-0" / f"{40:020d}.log").unlink()
    text = said(clusters, capsys)
    assert text.startswith(kind) and "no cleaner touches the newest segment" in text


def test_keys_that_came_again_only_in_the_newest_segment_explained_a_hole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clusters = Clusters(tmp_path, CREATED, replicas(1), COMPACT)
    parts = [keyed(first, keys=40) for first in range(0, 40, 5)]
    for side in clusters.sides:
        write_segments(side / "t-0", (0, parts if side.name == "a" else [parts[0], *parts[2:]]), (40, [keyed(40, 5), keyed(45, 10)]))
    text = said(clusters, capsys)
    assert text.startswith("missing") and "came again only in the newest segment" in text


@pytest.mark.parametrize(
    ("brokers", "configs", "rolled", "words"),
    [
        ((1,), [COMPACT], 40, "all sound"),
        ((1,), [COMPACT], 10, "offsets are in no batch, and no cleaner touches the newest segment"),
        ((1, 2), [COMPACT], 10, "not looked at: records inside batches (--deep unpacks them), whether a cleaner made the holes in"),
        (
            (1,),
            [COMPACT, config(LAG, str(24 * HOUR_MS))],
            40,
            "are in no batch, and no pass of the cleaner can have read records of that time",
        ),
        ((1,), [COMPACT, config(LAG, str(HOUR_MS // 2))], 40, "all sound"),
        ((1,), [COMPACT, config(POLICY, "delete", at=-5 * HOUR_MS)], 40, "whether a cleaner made the holes in"),
    ],
)
def test_verify_logs_judges_holes_alike(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    brokers: tuple[int, ...],
    configs: list[tuple[object, int]],
    rolled: int,
    words: str,
) -> None:
    clusters = Clusters(tmp_path, CREATED, replicas(*brokers), *configs)
    parts = [keyed(first) for first in range(0, 40, 5)]
    if rolled == 10:
        for side in clusters.sides:
            (side / "t-0" / f"{40:020d}.log").unlink()
    clusters.write(parts, [*parts[:3], *parts[4:]], rolled=rolled)
    capsys.readouterr()
    code = main(["verify-logs", str(clusters.sides[1])])
    text = capsys.readouterr().out
    assert words in text, text
    assert code == (0 if "all sound" in text else 1), text


class Configs:
    def __init__(self, **values: str) -> None:
        self.values = values

    async def describe_configs(self, kind: object, topic: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name.replace("_", "."), value=value) for name, value in self.values.items()]


def live(parts: Sequence[bytes], **configs: str) -> FetchedLog:
    seen = SimpleNamespace(_admin=Configs(**configs))
    return FetchedLog(
        "live",
        TopicPartition("t", 0),
        lambda offset: b"".join(one for one in parts if RecordBatch(one).last_offset >= offset),
        log_start_offset=0,
        high_watermark=RecordBatch(parts[-1]).next_offset,
        cleaner=asyncio.run(LiveInput._cleaner(seen, "t")),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("configs", "keys", "kind"),
    [
        ({"cleanup_policy": "compact"}, 10, "compacted"),
        ({"cleanup_policy": "compact"}, 1_000, "missing"),
        ({"cleanup_policy": "compact", "min_compaction_lag_ms": "9000000000000000"}, 10, "not-decided"),
        ({"cleanup_policy": "delete"}, 10, "not-decided"),
        ({"cleanup_policy": "delete"}, 1_000, "missing"),
        ({}, 10, "not-decided"),
    ],
)
def test_of_a_running_cluster_only_the_configs_of_now_are_known(configs: dict[str, str], keys: int, kind: str) -> None:
    """Whatever a compacted topic of a running cluster lacked was called compacted, the last record
    of a key, too."""
    parts = [keyed(first, keys=keys) for first in range(0, 40, 5)]
    verdict = diff_logs(live(parts, **configs), live([*parts[:1], *parts[2:]], **configs), DiffSettings())
    assert set(verdict.difference_counts) == {kind}, verdict
