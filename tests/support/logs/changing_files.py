"""A folder that changes between any two calls of who reads it.

A broker's storage works in a thread of its own. Each of its calls that changes a name (rename,
remove, create, write a whole file) waits for its turn, and a reader's every call gives it some.
So a reader meets each state between two steps of a roll, a cleaning or a deletion, and a seed plays
the same meeting again. Not for speed: each step is a switch of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kmirror.common.ports import Buffer, File
from kmirror.runtime.os_files import OsFile, OsFileSystem


class Turns:
    """The broker waits in `take`; `give` lets it do one step and returns when it waits again."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self.ended = False

    def take(self) -> None:
        if not self.ended:
            self._waits.release()
            self._go.acquire()

    def give(self) -> None:
        self._go.release()
        self._waits.acquire()


class SteppedFiles(OsFileSystem):
    """The broker's side."""

    def __init__(self) -> None:
        self.turns: Turns | None = None

    def _take(self) -> None:
        if self.turns is not None:
            self.turns.take()

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> OsFile:
        if create:
            self._take()
        return super().open(path, create=create, exclusive=exclusive, write=write)

    def rename(self, source: str, destination: str) -> None:
        self._take()
        super().rename(source, destination)

    def remove(self, path: str) -> None:
        self._take()
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        for name in self.list_dir(path):
            self.remove(f"{path}/{name}")
        self._take()
        super().remove_tree(path)

    def write_bytes(self, path: str, data: Buffer) -> None:
        self._take()
        super().write_bytes(path, data)


class WatchedFiles(OsFileSystem):
    """The reader's side: `before` is called before each call, with its name and path."""

    def __init__(self, before: Callable[[str, str], None]) -> None:
        self._before = before

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> OsFile:
        assert not (create or exclusive or write), f"{path} is opened for writing"
        self._before("open", path)
        return super().open(path, write=False)

    def exists(self, path: str) -> bool:
        self._before("exists", path)
        return super().exists(path)

    def is_dir(self, path: str) -> bool:
        self._before("is_dir", path)
        return super().is_dir(path)

    def list_dir(self, path: str) -> list[str]:
        self._before("list_dir", path)
        return super().list_dir(path)

    def size(self, path: str) -> int:
        self._before("size", path)
        return super().size(path)

    def mtime_ms(self, path: str) -> int:
        self._before("mtime_ms", path)
        return super().mtime_ms(path)

    def read_bytes(self, path: str) -> bytes:
        self._before("read_bytes", path)
        return super().read_bytes(path)

    def _refuse(self, path: str) -> None:
        raise AssertionError(f"a reader changes {path}")

    def rename(self, source: str, destination: str) -> None:
        self._refuse(source)

    def remove(self, path: str) -> None:
        self._refuse(path)

    def write_bytes(self, path: str, data: Buffer) -> None:
        self._refuse(path)

    def lock(self, path: str) -> File:
        raise AssertionError(f"a reader locks {path}")


class Broker:
    """Does `work` again and again while `with` lasts, one step for each `turns.give`."""

    def __init__(self, files: SteppedFiles, work: Callable[[], None]) -> None:
        self.turns = files.turns = Turns()
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)

    def _run(self) -> None:
        try:
            while not self.turns.ended:
                self.turns.take()
                if not self.turns.ended:
                    self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by `__exit__`
            self._error = error
            self.turns.ended = True
        finally:
            self.turns._waits.release()

    def __enter__(self) -> Turns:
        self._thread.start()
        self.turns._waits.acquire()
        return self.turns

    def __exit__(self, *_: object) -> None:
        self.turns.ended = True
        self.turns._go.release()
        self._thread.join()
        if self._error is not None:
            raise self._error
