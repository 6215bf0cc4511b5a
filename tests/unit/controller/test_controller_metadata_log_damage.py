"""Damage to `__cluster_metadata`: what was committed is never cut away silently, what was not is."""

from __future__ import annotations

import copy
import errno

import pytest
from support.logs.failing_files import FailingFiles
from support.logs.storage_doubles import ManualClock, SeededRandom, StorageWorld

from kmirror.common.errors import ApiException, CorruptFileError
from kmirror.common.uuid import Uuid
from kmirror.controller.committed_offset import COMMITTED_OFFSET_FILE_NAME, CommittedOffsetFile
from kmirror.controller.metadata_log import METADATA_LOG_FOLDER, MetadataLog, MetadataLogConfig
from kmirror.metadata.image import MetadataImage, MetadataProvenance
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.sim.disk import SimDisk
from kmirror.wire.messages.topic_record import TopicRecord

FOLDER = f"/m/{METADATA_LOG_FOLDER}"
COMMITTED = f"{FOLDER}/{COMMITTED_OFFSET_FILE_NAME}"
FIRST = f"{FOLDER}/{0:020d}.log"
CONFIG = MetadataLogConfig(node_id=1, segment_bytes=1000)


def open_log(disk: SimDisk | FailingFiles) -> MetadataLog:
    return MetadataLog.open("/m", StorageWorld(files=disk).ports, CONFIG)


def append(log: MetadataLog, count: int, *, flush: bool = True) -> None:
    for _ in range(count):
        name = f"topic-{log.log_end_offset}"
        log.append([ApiMessageAndVersion(TopicRecord(name=name, topic_id=Uuid(bytes(16))), 0)], time_ms=1_750_000_000_000)
    if flush:
        log.flush()


def offsets(log: MetadataLog) -> list[int]:
    return [batch.base_offset for batch in log.batches()]


def logs(disk: SimDisk) -> dict[str, bytes]:
    return {name: disk.contents(f"{FOLDER}/{name}") for name in disk.names(FOLDER) if name.endswith(".log")}


def killed(disk: SimDisk, log: MetadataLog) -> None:
    log.kill()
    disk.detach(power_loss=False)
    disk.attach()


@pytest.fixture
def disk() -> SimDisk:
    """Two epochs, several segments; the process was killed."""
    disk = SimDisk(ManualClock(), SeededRandom(1), note=lambda text: None)
    disk.make_dirs("/m")
    for count in (20, 15):
        log = open_log(disk)
        log.become_leader()
        append(log, count)
        killed(disk, log)
    return disk


def refused(disk: SimDisk) -> str:
    before = logs(disk)
    with pytest.raises(CorruptFileError) as caught:
        open_log(disk)
    assert logs(disk) == before, "a refused start changed the log"
    return str(caught.value)


def forget_committed(disk: SimDisk) -> None:
    disk.remove(COMMITTED)


@pytest.mark.parametrize("position", [30, 700])
def test_a_bad_sector_in_what_was_committed_ends_the_start_and_cuts_nothing(disk: SimDisk, position: int) -> None:
    whole = offsets(open_log(copy.deepcopy(disk)))
    for number, name in enumerate(logs(disk)):
        if position >= len(disk.contents(f"{FOLDER}/{name}")):
            continue
        disk.corrupt(f"{FOLDER}/{name}", position, 0xFF)
        said = refused(disk)
        assert "Nothing was changed" in said and name in said, number
        assert f"the offsets up to {whole[-1] + 1} were committed" in said
        disk.corrupt(f"{FOLDER}/{name}", position, 0xFF)
    assert offsets(open_log(disk)) == whole


def test_a_log_that_ends_too_early_ends_the_start(disk: SimDisk) -> None:
    last = sorted(logs(disk))[-1]
    disk.remove(f"{FOLDER}/{last}")
    assert "were committed" in refused(disk)


def test_a_missing_segment_in_the_middle_ends_the_start(disk: SimDisk) -> None:
    names = sorted(logs(disk))
    assert len(names) > 3
    disk.remove(f"{FOLDER}/{names[1]}")
    assert "are missing: a segment is not there" in refused(disk)


@pytest.mark.parametrize("torn", [1, 60, 90])
def test_a_torn_tail_that_nobody_has_seen_is_cut_off(disk: SimDisk, torn: int) -> None:
    log = open_log(disk)
    log.become_leader()
    append(log, 2)
    whole = offsets(log)
    append(log, 1, flush=False)
    path = f"{FOLDER}/{sorted(logs(disk))[-1]}"
    file = disk.open(path)
    file.truncate(file.size() - torn)
    file.close()
    killed(disk, log)
    again = open_log(disk)
    assert offsets(again) == whole and again.log_end_offset == whole[-1] + 1


def test_without_the_file_the_newest_epoch_says_what_was_committed(disk: SimDisk) -> None:
    forget_committed(disk)
    epoch_start = 21
    tail = copy.deepcopy(disk)
    disk.corrupt(FIRST, 300, 0xFF)
    assert f"the offsets up to {epoch_start} were committed" in refused(disk)
    path = f"{FOLDER}/{sorted(logs(tail))[-1]}"
    tail.corrupt(path, len(tail.contents(path)) - 1, 0xFF)
    assert offsets(open_log(tail))[-1] >= epoch_start, "Kafka's way: cut at the first bad batch"


def test_who_has_no_backup_can_go_on_with_what_is_left(disk: SimDisk) -> None:
    """README, "When a disk fails": nobody stays refused for good."""
    disk.corrupt(FIRST, 700, 0xFF)
    refused(disk)
    forget_committed(disk)
    disk.remove(f"{FOLDER}/leader-epoch-checkpoint")
    log = open_log(disk)
    left = offsets(log)
    assert left == list(range(left[-1] + 1)) and left
    log.become_leader()
    append(log, 1)
    killed(disk, log)
    assert offsets(open_log(disk))[: len(left)] == left


@pytest.mark.parametrize("data", [b"", b"99999999999999999999 00000000\n", b"\0" * 30, b"00000000000000000"])
def test_a_torn_note_counts_as_none(disk: SimDisk, data: bytes) -> None:
    whole = offsets(open_log(copy.deepcopy(disk)))
    disk.write_bytes(COMMITTED, data)
    assert CommittedOffsetFile(disk, FOLDER).read() == 0
    assert offsets(open_log(disk)) == whole


def with_snapshot(disk: SimDisk) -> MetadataLog:
    """A snapshot of everything that was committed, and nothing behind it."""
    log = open_log(disk)
    log.become_leader()
    writer = log.snapshot_writer(MetadataImage(provenance=MetadataProvenance(log.high_watermark - 1, log.leader_epoch, 0)))
    writer.write()
    log.add_snapshot(writer)
    killed(disk, log)
    return log


def test_what_a_snapshot_holds_may_be_cut(disk: SimDisk) -> None:
    end = with_snapshot(disk).high_watermark
    disk.corrupt(FIRST, 300, 0xFF)
    assert open_log(disk).log_end_offset == end


def test_a_broken_snapshot_does_not_take_the_log_with_it(disk: SimDisk) -> None:
    log = with_snapshot(disk)
    disk.corrupt(log.snapshot_path(log.snapshots[-1]), 80, 0xFF)
    forget_committed(disk)
    for name in sorted(logs(disk))[1:]:
        disk.remove(f"{FOLDER}/{name}")
    disk.remove(f"{FOLDER}/leader-epoch-checkpoint")
    assert ".checkpoint" in refused(disk)


def test_where_the_note_cannot_be_written_the_node_goes_on(disk: SimDisk) -> None:
    files = FailingFiles(disk)
    log = open_log(files)
    files.fail(0, errno.ENOSPC, goes_on=True, path_part=COMMITTED_OFFSET_FILE_NAME)
    log.become_leader()
    append(log, 3)
    assert log.high_watermark == log.log_end_offset and files.failures > 0


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_fault_at_any_call_of_a_start_loses_nothing(disk: SimDisk, goes_on: bool) -> None:
    """A full disk at a restart emptied the segment that it was found at, with all topics in it."""
    before, whole = logs(disk), offsets(open_log(copy.deepcopy(disk)))
    number, failed = 0, True
    while failed:
        tried = copy.deepcopy(disk)
        files = FailingFiles(tried)
        files.fail(number, (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES)[number % 4], goes_on=goes_on)
        try:
            log = open_log(files)
            log.become_leader()
            log.kill()
        except (OSError, ApiException):
            assert files.failures, "nothing but the fault ends a start"
        failed = files.failures > 0
        tried.detach(power_loss=False)
        tried.attach()
        again = open_log(tried)
        assert offsets(again)[: len(whole)] == whole, (number, files.failed[:1])
        assert all(logs(tried)[name].startswith(data) for name, data in before.items()), (number, files.failed[:1])
        number += 4 if goes_on else 1
    assert number > 100, "a start makes more calls than that"
