"""The disk of `__cluster_metadata` breaks: a small tmpfs that holds only the controller's
`metadata.log.dir`.

The controller must end, or refuse to start, with one line that names what failed, and must not take
the failure for corruption. The brokers go on mirroring without it. When the disk is mended and the
controller started again, each topic that it ever acknowledged exists under its id, the mirror
exists, and no broker sets a log aside as `-stray`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from kmirror.common.errors import KmirrorError
from tools.campaigns import checks
from tools.campaigns.run import Run
from tools.campaigns.stage import BROKERS, Stage

END_LIMIT_S = 30
CREATED_FIRST = 3
CREATED_AT_MOST = 1000
"""The records of so many topics do not fit into the last pages of a full disk."""
PAGE, SPARE_PAGES = 4096, 12
NO_SPACE, READ_ONLY, NOT_FORMATTED, NO_NODE_ID = "No space left", "Read-only", "No `meta.properties` found", "node ID not found"
NO_SNAPSHOT = "while writing snapshot"
META_PROPERTIES = "meta.properties"


class _Disk(Protocol):
    log_dir: Path

    def fill(self, spare_bytes: int = 0) -> None: ...
    def free(self) -> None: ...
    def read_only(self, *, on: bool) -> None: ...


class MetadataDisk:
    """`cases` are the rounds; `log_dirs`: the brokers'."""

    def __init__(self, run: Run, stage: Stage, disk: _Disk, log_dirs: Sequence[Path]) -> None:
        self._run, self._stage, self._disk, self._log_dirs = run, stage, disk, log_dirs
        self._cluster = stage.destination
        self.cases = [
            self.the_metadata_disk_is_full,
            self.the_metadata_disk_is_full_at_the_start,
            self.the_metadata_disk_is_read_only_at_the_start,
            self.the_metadata_disk_has_an_empty_meta_properties,
            self.the_metadata_disk_is_missing_at_the_start,
        ]

    def the_metadata_disk_is_full(self) -> None:
        """Topics are created until the log takes no more; with some pages to spare a snapshot may
        be what does not fit.
        """
        self._create()
        said = self._log_size()
        self._disk.fill(spare_bytes=PAGE * self._run.chance.randrange(SPARE_PAGES))
        before = self._stage.created.acknowledged
        reason = self._stage.created.create_until_refused(CREATED_AT_MOST)
        self._run.say(f"{self._stage.created.acknowledged - before} topics were created on the full disk; then: {str(reason)[:150]}")
        self._run.promise("the controller ends when its disk is full", self._ends)
        self._run.promise("all that it says names what failed", lambda: self._named(said, NO_SPACE))
        self._run.count("snapshots that did not fit", self._said(said).count(NO_SNAPSHOT))
        self._run.promise("the mirror goes on without the controller", self._stage.goes_on_mirroring)
        self._disk.free()
        self._back()

    def the_metadata_disk_is_full_at_the_start(self) -> None:
        with self._away():
            self._disk.fill()
            self._in_vain(NO_SPACE)
            self._disk.free()

    def the_metadata_disk_is_read_only_at_the_start(self) -> None:
        with self._away():
            self._disk.read_only(on=True)
            self._in_vain(READ_ONLY)
            self._disk.read_only(on=False)

    def the_metadata_disk_has_an_empty_meta_properties(self) -> None:
        """Empties meta.properties, as a power loss may; the directory must not pass for a new
        one.
        """
        with self._away():
            path = self._disk.log_dir / META_PROPERTIES
            content = path.read_bytes()
            path.write_bytes(b"")
            self._in_vain(NO_NODE_ID)
            path.write_bytes(content)

    def the_metadata_disk_is_missing_at_the_start(self) -> None:
        """Empties the directory, as if a mount had not happened."""
        with self._away():
            kept = self._disk.log_dir.with_name("kept")
            self._disk.log_dir.rename(kept)
            self._disk.log_dir.mkdir()
            self._in_vain(NOT_FORMATTED)
            self._disk.log_dir.rmdir()
            kept.rename(self._disk.log_dir)

    # -- inside
    # -----------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        for _ in range(CREATED_FIRST):
            reason = self._stage.created.create()
            if reason is not None:
                self._run.broken(f"a topic cannot be created: {reason}")

    @contextmanager
    def _away(self) -> Iterator[None]:
        """Kills the controller while it creates topics; everything must be as before at the end.

        The block breaks and mends the disk.
        """
        self._create()
        with self._stage.created.meanwhile():
            self._cluster.kill_controller()
        yield
        self._back()

    def _in_vain(self, named: str) -> None:
        """The controller does not start on the broken disk, and changes nothing on it."""
        said, before = self._log_size(), self._contents()
        try:
            self._cluster.start_controller()
        except KmirrorError as error:
            self._run.say(f"the controller refuses to start: {str(error)[:300]}")
            self._run.promise("one line names what failed", lambda: self._one_line(said, named))
        else:
            self._run.broken("the controller starts on a disk that it cannot use")
            self._cluster.kill_controller()
        after = self._contents()
        changed = [name for name, content in before.items() if not after.get(name, b"").startswith(content)]
        if changed:
            self._run.broken(f"a broken disk was taken for corruption: {changed} were cut or written anew")

    def _back(self) -> None:
        self._cluster.start_controller()
        self._stage.nothing_forgotten(self._run.chance.randrange(BROKERS))
        self._run.promise("no log was set aside", lambda: checks.no_strays(self._log_dirs))
        self._run.promise("topics can be created again", self._creates)
        self._run.promise("the mirror goes on", self._stage.goes_on_mirroring)

    def _creates(self) -> None:
        assert checks.until(lambda: self._stage.created.create() is None, END_LIMIT_S), f"none was, for {END_LIMIT_S} s"

    def _ends(self) -> None:
        ended = self._cluster.controller_ends(END_LIMIT_S)
        self._cluster.kill_controller()
        assert ended, f"it was still there {END_LIMIT_S} s later"

    def _log_size(self) -> int:
        return self._cluster.controller_log.stat().st_size

    def _said(self, said: int) -> str:
        """Returns what was logged from byte `said` on."""
        return self._cluster.controller_log.read_bytes()[said:].decode(errors="replace")

    def _named(self, said: int, named: str) -> list[str]:
        """Returns the errors that were logged from byte `said` on.

        Each must name what failed, and there must be no traceback.
        """
        text = self._said(said)
        errors = [line.partition(" ERROR ")[2] for line in text.splitlines() if " ERROR " in line]
        assert "Traceback " not in text, f"a traceback: {text[-1500:]}"
        assert errors and all(named in line for line in errors), f"its log says: {errors or text[-500:]}"
        return errors

    def _one_line(self, said: int, named: str) -> None:
        errors = self._named(said, named)
        assert len(errors) == 1, f"its log says: {errors}"

    def _contents(self) -> dict[str, bytes]:
        """Returns the bytes of the logs and snapshots; what is there must stay as a beginning."""
        found = [*self._disk.log_dir.rglob("*.log"), *self._disk.log_dir.rglob("*.checkpoint")]
        return {path.name: path.read_bytes() for path in found}
