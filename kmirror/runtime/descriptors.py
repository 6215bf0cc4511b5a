"""File descriptors of this process: its limit, and a few spares that are kept back for files.

Files are opened when their bytes are needed and closed again (`storage.lazy_file`,
`storage.abstract_index`), so a flush, a checkpoint or a directory listing needs a free descriptor
where Kafka, which holds its channels open, needs none. When clients' connections have taken all the
others, an open that fails for lack of one (EMFILE, or ENFILE of the whole machine) closes a spare
and tries again. When a file is closed, the spares are refilled first. Files that stay open may use
them up; then an open fails as it would without spares.

Each spare opens /dev/null by itself. Copies of one descriptor would share an entry in the machine's
table of open files, and closing a copy would free nothing there. If another thread takes the
descriptor between the close and the open, the next spare is closed.
"""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from kmirror.common.ports import OUT_OF_DESCRIPTORS

T = TypeVar("T")
_LOGGER: Final = logging.getLogger(__name__)
SPARE_DESCRIPTORS: Final = 64


class SpareDescriptors:
    """The spares; there are none before `keep` is called."""

    def __init__(self) -> None:
        self._wanted = 0
        self._spares: list[int] = []

    @property
    def count(self) -> int:
        return len(self._spares)

    def keep(self, count: int) -> None:
        """Keeps up to `count` spares from now on; 0 closes all of them."""
        self._wanted = count
        while len(self._spares) > count:
            self._give_up()
        self.refill()

    def refill(self) -> None:
        """Opens spares up to the wanted number, as far as descriptors are free."""
        while len(self._spares) < self._wanted:
            try:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return

    def _give_up(self) -> bool:
        try:
            os.close(self._spares.pop())
        except IndexError:
            return False
        return True

    def use_for(self, opening: Callable[[], T]) -> T:
        """Returns the result of `opening`; while no descriptor is free, closes a spare and tries
        again."""
        while True:
            try:
                return opening()
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._give_up():
                    raise

    def use_briefly_for(self, action: Callable[[], T]) -> T:
        """Like `use_for`, for an action that holds no descriptor any more when it returns; refills
        the spares afterwards."""
        try:
            return self.use_for(action)
        finally:
            self.refill()


SPARES: Final = SpareDescriptors()
"""The only instance, because the limit is the process's."""


def prepare_for_a_server() -> None:
    """Raises the limit of open files to the hard limit (`ulimit -Hn`), as a JVM does (MaxFDLimit),
    and opens the spares."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # some systems refuse the hard limit that they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _LOGGER.info("the limit of open files is %d, but should be %d", hard, soft)
    SPARES.keep(SPARE_DESCRIPTORS)
