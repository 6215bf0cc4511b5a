"""Disks that fill, turn read-only, come back empty or not at all: small tmpfs under two of the
destination's three brokers and its controller.

Broker 2 has its only log directory on such a disk, broker 3 the second of its two, and the
controller its metadata log (`metadata_disk`). A round breaks one disk, lets the mirror go on for a
while, mends the disk and starts the broker again. Meanwhile the other brokers go on mirroring, a
broker that cannot use its disk takes the directory offline or refuses to start, and no log is
emptied because of it. The campaign needs root, because it mounts disks.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kmirror.common.errors import KmirrorError
from kmirror.embedded_options import CONTROLLER_INDEX
from tools.campaigns import ROOT, checks
from tools.campaigns.metadata_disk import MetadataDisk
from tools.campaigns.run import CannotRunError, Run
from tools.campaigns.stage import Stage, mirrored_from_apache

SIZE_MB = 192
GOES_ON_S = 8.0
START_LIMIT_S = 60
SMALL_INDEXES = {"log.index.size.max.bytes": "1048576", "offsets.topic.num.partitions": "3"}
OFTEN_A_SNAPSHOT = {"metadata.log.max.record.bytes.between.snapshots": "4096"}
"""Each is larger than what is appended until the next, so that a disk with little room refuses a
snapshot first.
"""


class Disk:
    """A tmpfs, `path`, with one log directory in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log_dir = path / "data"
        path.mkdir(parents=True)
        self.mount()

    def mount(self) -> None:
        _mount("-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=0755", "tmpfs", str(self.path))

    def fill(self, spare_bytes: int = 0) -> None:
        """Fills the disk until no more than `spare_bytes` are free."""
        status = os.statvfs(self.path)
        with contextlib.suppress(OSError), (self.path / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize))
        with contextlib.suppress(OSError), (self.path / "filler").open("ab") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        filler = self.path / "filler"
        os.truncate(filler, filler.stat().st_size - spare_bytes)

    def free(self) -> None:
        (self.path / "filler").unlink(missing_ok=True)

    def read_only(self, *, on: bool) -> None:
        _mount("-o", f"remount,{'ro' if on else 'rw'}", str(self.path))

    def empty(self) -> None:
        shutil.rmtree(self.log_dir)
        self.log_dir.mkdir()

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True)

    def log_bytes(self) -> int:
        """Returns the size of the logs of the campaign's topics."""
        return sum(path.stat().st_size for path in self.log_dir.glob("c-*/*.log"))


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise CannotRunError(f"mount {' '.join(arguments)}: {done.stderr.strip()}")


@contextmanager
def disks(folder: Path, *names: str) -> Iterator[list[Disk]]:
    if os.geteuid() != 0:
        raise CannotRunError("it needs root: it mounts a small tmpfs for each case")
    made: list[Disk] = []
    try:
        for name in names:
            made.append(Disk(folder / name))
        yield made
    finally:
        for disk in made:
            disk.unmount()


def campaign(run: Run) -> None:
    with disks(run.folder, "disk-of-2", "second-disk-of-3", "metadata-disk") as (only, second, metadata):
        first_of_3 = run.folder / "destination" / "node-3" / "data"
        node_config = {
            1: {"log.dirs": str(only.log_dir)},
            2: {"log.dirs": f"{first_of_3},{second.log_dir}"},
            CONTROLLER_INDEX: {"metadata.log.dir": str(metadata.log_dir)},
        }
        with mirrored_from_apache(run, config=SMALL_INDEXES | OFTEN_A_SNAPSHOT, node_config=node_config) as stage:
            log_dirs = [stage.destination.log_dir(0), only.log_dir, first_of_3, second.log_dir]
            cases = [*_Play(run, stage, only, second).cases, *MetadataDisk(run, stage, metadata, log_dirs).cases]
            _rounds(run, stage, [case for case in cases if run.options.case in _title(case)])
            stage.finish(log_dirs=[stage.destination.log_dir(0), only.log_dir])
            run.promise("broker 3 is equal, too", lambda: _equal_over_two(stage, first_of_3, second.log_dir))


def _rounds(run: Run, stage: Stage, cases: list[Callable[[], None]]) -> None:
    if not cases:
        raise CannotRunError(f"no case has {run.options.case!r} in its name")
    for number in range(run.rounds):
        case = cases[number % len(cases)]
        run.say(f"round {number + 1}: {_title(case)}")
        run.count("disks broken")
        case()
        everybody = lambda: checks.everybody_in_sync(stage.destination.bootstrap_servers)  # noqa: E731
        run.promise("everybody is back in the ISR once the disk is mended", everybody)


def _title(case: Callable[[], None]) -> str:
    return case.__name__.replace("_", " ")


def _equal_over_two(stage: Stage, *log_dirs: Path) -> None:
    """Compares when each partition of broker 3 may be in either of its directories."""
    for log_dir in log_dirs:
        checks.replicas_equal([stage.destination.log_dir(0), log_dir], only_common=True)


class _Play:
    def __init__(self, run: Run, stage: Stage, only: Disk, second: Disk) -> None:
        self._run, self._stage, self._only, self._second = run, stage, only, second
        self.cases = [
            self.the_only_disk_is_full,
            self.one_of_two_disks_is_full,
            self.the_disk_is_full_at_the_start,
            self.the_disk_is_read_only_at_the_start,
            self.the_disk_came_back_empty,
            self.the_disk_is_taken_away,
            self.one_of_two_disks_came_back_unformatted,
        ]

    def the_only_disk_is_full(self) -> None:
        self._only.fill()
        self._goes_on()
        self._only.free()
        self._restart(1)

    def one_of_two_disks_is_full(self) -> None:
        self._second.fill()
        self._goes_on()
        self._second.free()
        self._restart(2)

    def the_disk_is_full_at_the_start(self) -> None:
        self._stage.destination.kill_node(1)
        self._only.fill()
        self._not_emptied(self._start_in_vain)
        self._only.free()
        self._restart(1)

    def the_disk_is_read_only_at_the_start(self) -> None:
        self._stage.destination.kill_node(1)
        self._only.read_only(on=True)
        self._not_emptied(self._start_in_vain)
        self._only.read_only(on=False)
        self._restart(1)

    def the_disk_came_back_empty(self) -> None:
        """Replaced, and formatted: everything is replicated again."""
        self._stage.destination.kill_node(1)
        self._only.empty()
        self._restart(1)

    def the_disk_is_taken_away(self) -> None:
        """Takes the disk away while the broker writes to it; what comes back is another disk."""
        self._only.unmount()
        self._goes_on()
        self._stage.destination.kill_node(1)
        self._only.mount()
        self._restart(1)

    def one_of_two_disks_came_back_unformatted(self) -> None:
        """Does not use a directory without meta.properties: the mount may be missing."""
        self._stage.destination.kill_node(2)
        self._second.empty()
        properties = self._stage.destination.nodes[2].folder / "server.properties"
        self._run.promise("a directory without meta.properties is refused", lambda: _refuses_to_start(properties))
        arguments = ["format", "--cluster-id", self._stage.destination.cluster_id, "--config", str(properties), "--ignore-formatted"]
        done = _kmirror(*arguments, "--feature", "mirror.version=1")
        assert done.returncode == 0, done.stdout + done.stderr
        self._restart(2)

    def _goes_on(self) -> None:
        """The brokers with intact disks go on mirroring."""
        time.sleep(GOES_ON_S)
        self._run.promise("the mirror goes on without the disk", self._stage.goes_on_mirroring)

    def _start_in_vain(self) -> None:
        """The broker refuses to start, or serves with the directory offline; both are right."""
        try:
            self._stage.destination.start_node(1)
        except KmirrorError as error:
            self._run.say(f"broker 2 refuses to start: {str(error)[:200]}")

    def _not_emptied(self, start: Callable[[], None]) -> None:
        before = self._only.log_bytes()
        start()
        self._stage.destination.kill_node(1)
        after = self._only.log_bytes()
        if after < before // 2:
            self._run.broken(f"a broken disk was taken for corruption: {before} bytes of logs became {after}")

    def _restart(self, node: int) -> None:
        self._stage.destination.kill_node(node)
        self._stage.destination.start_node(node)


def _kmirror(*arguments: str, timeout_s: float = START_LIMIT_S) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kmirror.cli.kmirror", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT)


def _refuses_to_start(properties: Path) -> None:
    try:
        done = _kmirror("start", "--config", str(properties))
    except subprocess.TimeoutExpired:
        raise AssertionError("the broker serves with a directory that was never formatted") from None
    assert done.returncode != 0 and "meta.properties" in done.stderr, f"exit code {done.returncode}: {done.stderr[-500:]}"
