"""File descriptors of this process: how many it may have, and a few kept back for files.

Files are opened when their bytes are wanted and closed again (`storage.lazy_file`, `storage.abstract_index`), so a flush, a checkpoint or
a look at a folder needs a free descriptor where Kafka, which holds its channels open, needs none. When clients' connections
have taken all the others, an open that fails for want of one (EMFILE, or ENFILE of the whole machine) gives up a spare and tries again.
A file that is closed fills the spares up first. Files that stay open may use them up; then an open fails as without.

A spare is an open of its own of /dev/null and no copy of one descriptor, which would free nothing in the table of the machine.
Another thread may take the descriptor between the close and the open: then the next spare goes.
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
    """None are kept before `keep`."""

    def __init__(self) -> None:
        self._wanted = 0
        self._spares: list[int] = []

    @property
    def count(self) -> int:
        return len(self._spares)

    def keep(self, count: int) -> None:
        """Have up to `count` spares from now on; 0 gives all of them free."""
        self._wanted = count
        while len(self._spares) > count:
            self._give_up()
        self.refill()

    def refill(self) -> None:
        """As far as descriptors are free."""
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
        """What `opening` gives; tried again with a spare less while no descriptor is free."""
        while True:
            try:
                return opening()
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._give_up():
                    raise

    def use_briefly_for(self, action: Callable[[], T]) -> T:
        """As `use_for`, of what holds no descriptor any more when it returns."""
        try:
            return self.use_for(action)
        finally:
            self.refill()


SPARES: Final = SpareDescriptors()
"""The one store: the limit is the process's."""


def prepare_for_a_server() -> None:
    """As many descriptors as the machine allows, as a JVM takes them (its MaxFDLimit), and the spares. `ulimit -Hn` is what bounds a node."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # a system may refuse what it calls its limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _LOGGER.info("the limit of open files is %d instead of %d", hard, soft)
    SPARES.keep(SPARE_DESCRIPTORS)
