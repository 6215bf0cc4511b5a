"""A partition becomes a mirror while it is being moved to another log directory."""

from __future__ import annotations

from pathlib import Path

from support.mirrors.mirror_machine import MIRROR, T0, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.record.record_batch import iter_batches
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.unified_log import UnifiedLog


def values(log: UnifiedLog) -> list[bytes]:
    data = log.read(log.log_start_offset, 1 << 24, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes()
    return [bytes(record.value or b"") for each in iter_batches(memoryview(data)) for record in each.records()]


async def test_a_failback_during_a_move_put_the_batches_back_that_it_had_cut(tmp_path: Path) -> None:
    """The copy was complete and waited for the controller while the log was cut and mirrored again
    in equal epochs. The log ends met again, and the copy with the cut batches took over.
    """
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    machine = MirrorMachine(str(one), props={"log.dirs": f"{one},{two}"})
    machine.source.create("t")
    machine.at_source(*[batch(n, b"source-%d" % n, epoch=1) for n in range(20)])
    machine.topic(value=None)
    for n in range(10):
        machine.local(batch(n, b"own-%d" % n, epoch=1))
    log = machine.log()
    target = str(two) if log.parent_dir == str(one) else str(one)
    ids = {str(path): Uuid.random(machine.runtime.random) for path in (one, two)}
    machine.log_manager.directory_id = lambda path: ids[path]
    accept = []
    machine.replica_manager.alter_log_dirs.on_assignment = lambda topic, directory, done: accept.append(done)
    assert machine.replica_manager.alter_log_dirs.alter_replica_log_dir(T0, target) is Errors.NONE
    await machine.advance(500)
    future = machine.log_manager.future_log(T0)
    assert future is not None and future.log_end_offset == 10 and accept, "copied; the controller has not accepted yet"
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    await machine.advance(600)
    for done in accept:
        done()
    await machine.advance(1000)
    assert machine.log() is future and future.parent_dir == target
    assert values(future) == [b"source-%d" % n for n in range(20)]
    await machine.close()
