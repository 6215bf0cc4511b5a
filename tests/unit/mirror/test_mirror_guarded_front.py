"""An old source that is failed back to does not follow a log start that would delete the last copy of
its front: it fails with a reason and keeps everything.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.record.record_batch import RecordBatch

NINE = [batch(offset, b"a", epoch=1) for offset in range(9)]
OURS = [batch(offset, b"b", epoch=2) for offset in range(9, 12)]
HOUR_MS = 3_600_000


async def failed_back(tmp_path: Path, *, source_start: int, later_ms: int = 0, limit: str | None = "4", **configs: str) -> MirrorMachine:
    """Our nine records were mirrored; what we wrote after the failover is given up. The new source has
    records of its own, and begins at `source_start`.
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(*NINE, batch(9, b"there", epoch=3), batch(10, b"there", epoch=3))
    log = machine.source.log("t")
    if source_start > 11:  # it has deleted all of that
        machine.at_source(batch(source_start, b"there", epoch=3))
    log.start = source_start
    log.batches[:] = [each for each in log.batches if RecordBatch(each).base_offset >= source_start]
    machine.topic(value=None, **({} if limit is None else {"mirror_max_truncation_records": limit}), **configs)
    machine.local(*NINE, *OURS)
    machine.log().update_high_watermark(12)
    machine.source_mirrors[MIRROR] = (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})
    machine.runtime.advance(later_ms)
    machine.name(MIRROR)
    await machine.advance(8_000)
    return machine


@pytest.mark.parametrize("source_start", [5, 8, 9, 11, 40])
async def test_a_front_that_only_the_old_source_has_was_deleted_there_too(tmp_path: Path, source_start: int) -> None:
    machine = await failed_back(tmp_path, source_start=source_start)
    reason = machine.driver().status.reason or ""
    assert machine.state() == "FAILED", reason
    assert f"begins at offset {source_start}, and the local one at 0" in reason
    assert f"remove {min(source_start, 9)} records from the front" in reason and "--add --accept-truncation" in reason
    assert (machine.log().log_start_offset, machine.log().log_end_offset) == (0, 12)
    await machine.close()


@pytest.mark.parametrize(("source_start", "limit"), [(4, "4"), (9, "9"), (9, None), (9, "-1"), (0, "0")])
async def test_a_front_within_the_limit_is_followed(tmp_path: Path, source_start: int, limit: str | None) -> None:
    machine = await failed_back(tmp_path, source_start=source_start, limit=limit)
    assert machine.state() == "MIRRORING", machine.driver().status.reason
    assert (machine.log().log_start_offset, machine.log().log_end_offset) == (source_start, 11)
    await machine.close()


@pytest.mark.parametrize(("configs", "state"), [({"retention_ms": str(HOUR_MS)}, "MIRRORING"), ({"retention_ms": "-1"}, "FAILED"),
                                                ({"retention_ms": str(HOUR_MS), "cleanup_policy": "compact"}, "FAILED")])  # fmt: skip
async def test_what_our_own_retention_deletes_is_no_loss(tmp_path: Path, configs: dict[str, str], state: str) -> None:
    """The cluster was away for a day, and the other one has deleted by age what both would have."""
    machine = await failed_back(tmp_path, source_start=8, later_ms=24 * HOUR_MS, **configs)
    assert machine.state() == state, machine.driver().status.reason
    await machine.close()


async def test_a_topic_that_is_mirrored_follows_its_source_without_limit(tmp_path: Path) -> None:
    machine = await failed_back(tmp_path, source_start=0)
    machine.source.log("t").start = 9
    machine.source.notify()
    await machine.advance(2_000)
    assert (machine.state(), machine.log().log_start_offset) == ("MIRRORING", 9)
    await machine.close()
