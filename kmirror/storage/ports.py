"""What storage needs from its owner beyond files and clock: a scheduler for deferred work, and a
place to report a broken disk.

`LogManager` (or a test) builds one `LogPorts` and hands it to everything under it. The scheduler
runs what Kafka gives to background threads: flushing after a roll, removing `.deleted` files. Such
work may use the disk for longer than 5 ms; the scheduler decides whether it runs on the loop or on
a worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from kmirror.common.errors import ApiException
from kmirror.common.ports import Clock, FileSystem, Random

_LOGGER: Final = logging.getLogger(__name__)


class LogScheduler(Protocol):
    """Kafka's `Scheduler`, as far as logs use it."""

    def schedule_once(self, name: str, fn: Callable[[], None], delay_ms: int) -> object:
        """Runs `fn` once, `delay_ms` from now (0: as soon as possible, but not inside this
        call).
        """
        ...


class LogDirFailureChannel(Protocol):
    """The place to report an I/O error on a log directory; the owner takes the directory
    offline.
    """

    def maybe_add_offline_log_dir(self, log_dir: str, message: str, error: OSError) -> None: ...

    def has_offline_log_dir(self, log_dir: str) -> bool: ...


class LogDirFailures:
    """A `LogDirFailureChannel`; owns the list of offline directories, in the order in which they
    failed.
    """

    def __init__(self, on_failure: Callable[[str, str, OSError], None] | None = None) -> None:
        self.offline_log_dirs: list[str] = []
        self._on_failure = on_failure

    def maybe_add_offline_log_dir(self, log_dir: str, message: str, error: OSError) -> None:
        if log_dir in self.offline_log_dirs:
            return
        self.offline_log_dirs.append(log_dir)
        if self._on_failure is not None:
            self._on_failure(log_dir, message, error)

    def has_offline_log_dir(self, log_dir: str) -> bool:
        return log_dir in self.offline_log_dirs


@dataclass(frozen=True, slots=True)
class LogPorts:
    """The outside world of one log: files, time, randomness, deferred work, and the report of a
    broken disk.

    `on_flush` is called with the nanoseconds that a flush took, on the thread that flushed.
    """

    files: FileSystem
    clock: Clock
    random: Random
    scheduler: LogScheduler
    log_dir_failures: LogDirFailureChannel
    on_flush: Callable[[int], None] | None = None


class GuardedScheduler:
    """Guards a log's deferred work (epochs, topic id, flush, removals): if the disk fails, the
    log's directory goes offline, as it does in an append. Nobody waits for deferred work, so its
    errors would be lost otherwise.
    """

    def __init__(self, ports: LogPorts, log_dir: str, what: str) -> None:
        self._ports = ports
        self._log_dir = log_dir
        self._what = what

    def schedule_once(self, name: str, fn: Callable[[], None], delay_ms: int) -> object:
        """As `LogScheduler.schedule_once`."""

        def guarded() -> None:
            try:
                fn()
            except OSError as error:
                message = f"Error during {name} of {self._what} in dir {self._log_dir}"
                self._ports.log_dir_failures.maybe_add_offline_log_dir(self._log_dir, message, error)
            except ApiException as error:
                _LOGGER.error("%s: %s failed: %s", self._what, name, error.message)

        return self._ports.scheduler.schedule_once(name, guarded, delay_ms)


def guarded_ports(ports: LogPorts, log_dir: str, what: str) -> LogPorts:
    """The ports of one log, with its deferred work guarded."""
    return replace(ports, scheduler=GuardedScheduler(ports, log_dir, what))
