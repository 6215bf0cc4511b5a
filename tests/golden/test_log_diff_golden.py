"""`kafka-log-diff` on logs that real brokers wrote: the reference's clusters that differ in one
batch, compacted logs, damaged ones.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.logs.golden_vectors import COMMITTED, golden_cases, golden_dir, unpacked_stage
from support.logs.log_folders import write_log

from kmirror.cli.log_diff import main
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import iter_batches
from kmirror.verify.cleaner_facts import POLICY_UNKNOWN


def diff(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, object]]:
    code = main([*(str(argument) for argument in arguments), "--json"])
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return code, report


def counts(report: dict[str, object]) -> dict[str, int]:
    found = report["difference_counts"]
    assert isinstance(found, dict)
    return found


@pytest.mark.skipif(
    not (golden_dir() / "20-reference" / "c6_restart_resume.tar.xz").exists(), reason="no such stage in this folder of vectors"
)
def test_c6_names_the_one_batch_in_which_the_reference_clusters_differ(capsys: pytest.CaptureFixture[str]) -> None:
    stage = unpacked_stage("c6_restart_resume")
    code = main([str(stage / "C"), str(stage / "D")])
    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[2] == "f1-0: equal, compared from offset 0, 2345 bytes equal, ends at offset 114"
    assert lines[4] == "  bytes differ at offset 50: A has a data batch, B a control (MIRROR_PID_RESET) batch"
    assert lines[5].startswith("    A: offsets 50..50, epoch 0, 1 record, 72 bytes at 2402 of ") and "/C/f2-0/" in lines[5]
    assert lines[6].startswith("    B: offsets 50..50, epoch 0, 1 MIRROR_PID_RESET, 98 bytes at 2402 of ") and "/D/f2-0/" in lines[6]
    assert all(line.startswith("set of ") for line in lines[7:9])
    assert lines[9:] == ["2 partitions: 1 equal, 1 different (bytes differ: 1)"]


@pytest.mark.parametrize("case", golden_cases("01-", "03-txn-j", "04-rolled", "06-"))
def test_a_log_equals_itself(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = golden_dir() / case / "log"
    if folder.is_dir():
        code, report = diff(capsys, folder, folder)
        assert (code, report["status"]) == (0, "equal")


CLEANED = [case for case in golden_cases("05-compact") if not case.endswith(("delete", "open"))]


@pytest.mark.parametrize("case", CLEANED)
def test_what_the_cleaner_removed_is_not_called_missing(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker's log dirs hold the cleaner's checkpoint, which proves that it was there. It also
    names the logs of other topics, which were not copied."""
    before, after = (log_dir(tmp_path / stage, case, stage) for stage in ("before", "after2"))
    code, report = diff(capsys, before, after, "--ignore", "set-incomplete")
    found = counts(report)
    assert code == 1 and found["compacted"] > (10 if COMMITTED else 0)
    assert set(found) <= {"compacted", "control-only", "extra"}, found


@pytest.mark.parametrize("case", CLEANED)
def test_keys_alone_do_not_prove_that_a_cleaner_was_there(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A partition's folder by itself has no checkpoint: what only keys explain is not decided, and
    the verdict says why. It is neither a loss nor excused by `--ignore compacted`.
    """
    folders = golden_dir() / case / "before", golden_dir() / case / "after2"
    code, report = diff(capsys, *folders, "--ignore", "compacted,extra,control-only")
    found = counts(report)
    assert code == 1 and found["not-decided"] > 0
    assert set(found) <= {"compacted", "control-only", "extra", "not-decided"}, found
    assert main([*map(str, folders)]) == 1
    undecided = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  not decided at ")]
    assert undecided and all(POLICY_UNKNOWN in line for line in undecided)


def log_dir(folder: Path, case: str, stage: str) -> Path:
    """A broker's log dir with this partition as it was at `stage`, and its cleaner's checkpoint."""
    kind = case.removeprefix("05-compact-").removesuffix("-second")
    topic = {"live-producers": "c-live", "log-append-time": "c-appendtime"}.get(kind, f"c-{kind}")
    shutil.copytree(golden_dir() / case / stage, folder / f"{topic}-0")
    shutil.copy(golden_dir() / case / f"top.{stage}" / "cleaner-offset-checkpoint", folder)
    return folder


@pytest.mark.parametrize("case", golden_cases("01-plain-java", "02-idempotent"))
def test_the_same_records_compressed_anew_are_re_batched(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = golden_dir() / case / "log"
    batches = [batch for path in sorted(folder.glob("*.log")) for batch in iter_batches(path.read_bytes())]
    anew = [
        build_batch(
            list(batch.records()),
            base_offset=batch.base_offset,
            compression=CompressionType.LZ4 if batch.compression is CompressionType.GZIP else CompressionType.GZIP,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            partition_leader_epoch=batch.partition_leader_epoch,
        )
        for batch in batches
    ]
    code, report = diff(capsys, folder, write_log(tmp_path / "anew-0", *map(bytes, anew)))
    assert code == 1 and counts(report) == {"re-batched": len(batches)}


def test_a_damaged_batch_is_told_from_a_damaged_length(capsys: pytest.CaptureFixture[str]) -> None:
    damaged = golden_dir() / "11-damage-unclean-start-bad-length-5" / "before"
    sound = golden_dir() / "11-damage-clean-start-nothing-wrong" / "before"
    if damaged.is_dir() and sound.is_dir():
        code, report = diff(capsys, sound, damaged)
        assert code == 2 and ".log: at byte " in json.dumps(report)
    flipped = golden_dir() / "11-damage-unclean-start-crc-first-batch-rp0" / "before"
    if flipped.is_dir() and sound.is_dir():
        code, report = diff(capsys, sound, flipped)
        assert code == 1 and '"crc_valid": false' in json.dumps(report)
