"""Each kind of damage done to a sound data dir: replay finds it and names the file, and says
nothing of the sound one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.logs.replay_stories import Story

from kmirror.common.crc32c import crc32c
from kmirror.common.ports import File
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import read_partition
from kmirror.verify.planner import list_input
from kmirror.verify.replay.claims import CHECKPOINTS
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.folder import ReplaySettings, close_parts, data_dirs_of, replay_folder
from kmirror.verify.replay.plan import cuts_of, plan_tasks, run_task

FILES = OsFileSystem()
SEEDS = (1, 2, 3)


def story_folder(tmp_path: Path, seed: int) -> Path:
    story = Story(tmp_path, seed, others=("epoch", "reset", "roll"))
    story.tell(120)
    story.reset()
    story.tell(10)
    story.end()
    return tmp_path / "t-0"


def segments(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.log")) if path.stat().st_size]


def middle_segment(folder: Path) -> Path:
    found = segments(folder)
    return max(found[1:-1], key=lambda path: path.stat().st_size)


def rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change([bytes(batch.memory) for batch in iter_batches(path.read_bytes())])))


def patch(path: Path, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def flip_a_byte(folder: Path) -> str:
    path = middle_segment(folder)
    patch(path, path.stat().st_size - 1, bytes([path.read_bytes()[-1] ^ 1]))
    return path.name


def cut_the_tail(folder: Path) -> str:
    path = segments(folder)[-1]
    rewrite(path, lambda parts: parts[:-1])
    return ".snapshot"


def swap_batches(folder: Path) -> str:
    path = middle_segment(folder)
    rewrite(path, lambda parts: [parts[1], parts[0], *parts[2:]])
    return path.name


def another_epoch(folder: Path) -> str:
    path = middle_segment(folder)
    patch(path, 12, struct.pack(">i", 1000))
    return "log"


def lose_a_marker(folder: Path) -> str:
    for path in segments(folder)[:-1]:
        parts = list(iter_batches(path.read_bytes()))
        if any(batch.is_control and batch.has_producer_id for batch in parts[1:]):
            rewrite(path, lambda parts: drop_first(parts, lambda batch: batch.is_control and batch.has_producer_id))
            return path.name
    raise AssertionError("no marker")


def lose_a_reset(folder: Path) -> str:
    for path in segments(folder):
        parts = list(iter_batches(path.read_bytes()))
        if any(batch.is_control and not batch.has_producer_id for batch in parts[1:-1]):
            rewrite(path, lambda parts: drop_first(parts, lambda batch: batch.is_control and not batch.has_producer_id))
            return path.name
    pytest.skip("no reset inside of a segment")


def drop_first(parts: list[bytes], matches: Callable[[RecordBatch], bool]) -> list[bytes]:
    at = next(index for index, part in enumerate(parts) if index and matches(RecordBatch(part)))
    return parts[:at] + parts[at + 1 :]


def change_a_snapshot(folder: Path) -> str:
    path = next(path for path in sorted(folder.glob("*.snapshot")) if path.stat().st_size > 10)
    data = bytearray(path.read_bytes())
    struct.pack_into(">h", data, 18, struct.unpack_from(">h", data, 18)[0] + 1)  # the first producer's epoch
    struct.pack_into(">I", data, 2, crc32c(bytes(data[6:])))
    path.write_bytes(data)
    return path.name


def drop_a_producer(folder: Path) -> str:
    path = next(path for path in sorted(folder.glob("*.snapshot")) if path.stat().st_size > 10)
    data = bytearray(path.read_bytes()[:-46])
    struct.pack_into(">i", data, 6, struct.unpack_from(">i", data, 6)[0] - 1)
    struct.pack_into(">I", data, 2, crc32c(bytes(data[6:])))
    path.write_bytes(data)
    os.utime(path, (1_750_000_060, 1_750_000_060))  # soon after its records: nobody has been idle for a day
    return path.name


def change_an_index(folder: Path) -> str:
    path = next(path for path in sorted(folder.glob("*.index")) if path.stat().st_size >= 8)
    patch(path, 4, struct.pack(">i", struct.unpack_from(">i", path.read_bytes(), 4)[0] + 1))
    return path.name


def change_a_time_index(folder: Path) -> str:
    path = next(path for path in sorted(folder.glob("*.timeindex")) if path.stat().st_size >= 12)
    patch(path, 0, struct.pack(">q", struct.unpack_from(">q", path.read_bytes())[0] - 10_000))
    return path.name


def change_a_transaction(folder: Path) -> str:
    path = next(path for path in sorted(folder.glob("*.txnindex")) if path.stat().st_size)
    patch(path, 10, struct.pack(">q", struct.unpack_from(">q", path.read_bytes(), 10)[0] + 1))
    return path.name


def drop_a_transaction(folder: Path) -> str:
    path = next(path for path in sorted(folder.glob("*.txnindex")) if path.stat().st_size)
    os.truncate(path, path.stat().st_size - 34)
    return path.name


def change_the_epochs(folder: Path) -> str:
    path = folder / "leader-epoch-checkpoint"
    lines = path.read_text().split("\n")
    epoch, start = lines[-2].split()
    lines[-2] = f"{epoch} {int(start) - 1}"
    path.write_text("\n".join(lines))
    return path.name


def delete_a_segment(folder: Path) -> str:
    found = segments(folder)
    at = found.index(middle_segment(folder))
    for path in folder.glob(f"{found[at].stem}.*"):
        path.unlink()
    return found[at + 1].name


def die_while_swapping(folder: Path) -> str:
    path = middle_segment(folder)
    path.rename(f"{path}.swap")
    return f"{path.name}.swap"


def delete_the_first_segment(folder: Path) -> str:
    found = segments(folder)
    for path in folder.glob(f"{found[0].stem}.*"):
        path.unlink()
    return found[1].name


def raise_the_high_watermark(folder: Path) -> str:
    path = folder.parent / "replication-offset-checkpoint"
    path.write_text("0\n1\nt 0 100000\n")
    return path.name


DAMAGE = [
    (flip_a_byte, "structure", "crc"),
    (cut_the_tail, "producers", "beyond_end"),
    (swap_batches, "structure", "order"),
    (another_epoch, "leader_epochs", "epoch"),
    (lose_a_marker, "structure", "gap"),
    (lose_a_reset, "structure", "gap"),
    (change_a_snapshot, "producers", "differs"),
    (drop_a_producer, "producers", "missing"),
    (change_an_index, "indexes", "wrong"),
    (change_a_time_index, "indexes", "wrong"),
    (change_a_transaction, "transactions", "differs"),
    (drop_a_transaction, "transactions", "missing"),
    (change_the_epochs, "leader_epochs", "differs"),
    (delete_a_segment, "structure", "gap"),
    (die_while_swapping, "structure", "swap"),
    (delete_the_first_segment, "structure", "gap"),
    (raise_the_high_watermark, "checkpoints", "beyond_end"),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("damage", "table", "kind"), DAMAGE, ids=[damage.__name__ for damage, _, _ in DAMAGE])
def test_damage_is_found_and_named(tmp_path: Path, seed: int, damage: Callable[[Path], str], table: str, kind: str) -> None:
    folder = story_folder(tmp_path, seed)
    assert replay_folder(FILES, str(tmp_path), ReplaySettings(compacted_topics=())).findings == []
    file = damage(folder)
    findings = replay_folder(FILES, str(tmp_path), ReplaySettings(compacted_topics=())).findings
    assert [finding for finding in findings if (finding.table, finding.kind) == (table, kind) and file in finding.file], text_of(findings)
    assert all("\n" not in finding.text for finding in findings)


def text_of(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.table} {finding.kind} {finding.file}: {finding.text}" for finding in findings)


def test_one_wrong_snapshot_is_one_finding(tmp_path: Path) -> None:
    folder = story_folder(tmp_path, 1)
    change_a_snapshot(folder)
    assert len(replay_folder(FILES, str(tmp_path)).findings) == 1


def test_behind_bytes_that_cannot_be_read_the_next_snapshot_is_believed(tmp_path: Path) -> None:
    folder = story_folder(tmp_path, 2)
    path = middle_segment(folder)
    patch(path, 8, b"\0\0\0\3")
    findings = replay_folder(FILES, str(tmp_path)).findings
    assert [finding.kind for finding in findings] == ["corrupt"], text_of(findings)
    assert (findings[0].file, findings[0].position) == (str(path), 0)


def test_a_partition_s_folder_alone_can_be_replayed(tmp_path: Path) -> None:
    folder = story_folder(tmp_path, 1)
    tables = replay_folder(FILES, str(folder))
    assert tables.findings == []
    assert len(tables.structure) == len(read_partition(FILES, str(folder)).segments)


def test_a_running_broker_s_append_is_no_damage(tmp_path: Path) -> None:
    folder = story_folder(tmp_path, 1)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    path = segments(folder)[-1]
    os.truncate(path, path.stat().st_size - 5)
    kinds = {finding.kind for finding in replay_folder(FILES, str(tmp_path)).findings}
    assert "corrupt" not in kinds and "torn" not in kinds


def test_a_segment_that_retention_took_meanwhile_is_no_damage(tmp_path: Path) -> None:
    folder = story_folder(tmp_path, 1)

    class Vanishing(OsFileSystem):
        def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File:
            if path == str(segments(folder)[0]) and not write:
                raise FileNotFoundError(2, "gone", path)
            return super().open(path, create=create, exclusive=exclusive, write=write)

    assert [finding.kind for finding in replay_folder(Vanishing(), str(tmp_path)).findings if finding.table == "structure"] == ["gone"]
    (tmp_path / ".kafka_cleanshutdown").unlink()
    assert replay_folder(Vanishing(), str(tmp_path)).findings == []


def test_a_checkpoint_newer_than_what_was_read_is_no_damage(tmp_path: Path) -> None:
    folder = story_folder(tmp_path, 1)
    (tmp_path / ".kafka_cleanshutdown").unlink()

    class Growing(OsFileSystem):
        def read_bytes(self, path: str) -> bytes:
            data = super().read_bytes(path)
            if path.endswith("leader-epoch-checkpoint"):
                with open(segments(folder)[-1], "ab") as file:
                    file.write(b"x")
                raise_the_high_watermark(folder)
            return data

    assert replay_folder(Growing(), str(tmp_path)).findings == []


def test_tasks_of_a_few_slices_in_any_order_give_the_same_tables(tmp_path: Path) -> None:
    story_folder(tmp_path, 3)
    listing = list_input(FILES, str(tmp_path))
    tasks = [[piece] for task in plan_tasks(FILES, listing, task_bytes=300) for piece in task]
    assert len(tasks) > len(listing.partitions[0].segments)
    parts = [part for task in reversed(tasks) for part in run_task(FILES, task, cuts_of(listing.partitions))]
    data_dir = data_dirs_of(FILES, listing)[str(tmp_path)]
    assert close_parts(FILES, listing.partitions[0], parts, data_dir) == replay_folder(FILES, str(tmp_path))


@pytest.mark.parametrize("name", CHECKPOINTS.values())
def test_a_checkpoint_that_cannot_be_read_is_told_once(tmp_path: Path, name: str) -> None:
    story_folder(tmp_path, 1)
    (tmp_path / "u-0").mkdir()
    (tmp_path / "u-0" / f"{0:020d}.log").touch()
    (tmp_path / name).write_text("0\n1\nno checkpoint\n")
    tables = replay_folder(FILES, str(tmp_path))
    (finding,) = tables.findings
    assert (finding.table, finding.kind, finding.file) == ("checkpoints", "corrupt", str(tmp_path / name))
    assert sum(row.findings for row in tables.logs) == 1
