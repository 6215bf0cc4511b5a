"""Waits for a mirror (`--wait`, `--reverse`): until it has all of its source, or reaches a state.

*Drained* means that every partition is MIRRORING (or PAUSED) and ends at the source's last stable
offset. This must hold for every partition that these topics have at the source, and the source's
offset must not move between two looks. (B51: the source's high watermark may lie further, behind
open transactions, which are not mirrored.) A source that is still being written to is therefore
never drained: a graceful failover would lose the next record. Brokers that go away and come back
only cause delay. A state that does not pass by itself (FAILED, or PAUSED and behind) ends the wait
at once.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import DescribeMirrorsOptions, MirrorPartitionDescription
from kmirror.cli.mirrors_clients import SHORT_TIMEOUT_MS
from kmirror.cli.mirrors_source import SourceEnd, source_ends, unseen
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime

T = TypeVar("T")
DEFAULT_TIMEOUT_MS = 300_000
POLL_INTERVAL_MS = 200
MIRRORING, PAUSING, PAUSED, FAILED, STOPPED, STOPPING = "MIRRORING", "PAUSING", "PAUSED", "FAILED", "STOPPED", "STOPPING"
ENDED = (STOPPED, STOPPING)

Progress = Callable[[int, int, str], None]
"""Receives how much is done, the total, and what is being waited for."""


class NotFinishedError(KmirrorError):
    """The time is up; the same command continues where this one ended. Exit code 2."""


class Deadline:
    """The time at which a command stops waiting, counted over all its steps."""

    def __init__(self, runtime: Runtime, timeout_ms: int | None) -> None:
        self._runtime = runtime
        self.timeout_ms = DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms
        self._end_ms = runtime.clock.monotonic_ms() + self.timeout_ms

    async def pause(self, waiting_for: str) -> None:
        """Sleep for one poll interval; raise NotFinishedError when the time is up."""
        if self._runtime.clock.monotonic_ms() >= self._end_ms:
            raise NotFinishedError(f"not finished after {self.timeout_ms} ms: {waiting_for}")
        await self._runtime.sleep_ms(POLL_INTERVAL_MS)


class MirrorWaiter:
    """Waits for some topics of one mirror."""

    def __init__(self, admin: AdminClient, mirror_name: str, topics: Collection[str], deadline: Deadline, progress: Progress) -> None:
        self._admin = admin
        self._mirror_name = mirror_name
        self._topics = set(topics)
        self._deadline = deadline
        self._progress = progress

    async def rows(self) -> list[MirrorPartitionDescription]:
        described = await self._admin.describe_mirrors([self._mirror_name], DescribeMirrorsOptions(timeout_ms=SHORT_TIMEOUT_MS))
        return [row for row in described[self._mirror_name].partitions if row.topic in self._topics]

    async def until_state(self, state: str, *, partitions: int | None = None) -> list[MirrorPartitionDescription]:
        """Wait until all partitions are in `state`, all `partitions` of them if that is given.

        Raises KmirrorError when one is FAILED: from there only STOPPED can be reached (D3-21).
        """
        while True:
            rows, problem = await self._look()
            done = [row for row in rows if row.state == state]
            failed = [row for row in rows if row.state == FAILED]
            if failed and state != STOPPED:
                why = next((row.reason for row in failed if row.reason), "the log of the partition's leader has the reason")
                raise KmirrorError(f"{_names([_name(row) for row in failed])} FAILED: {why}")
            wanted = max(len(rows), partitions or 0)
            self._progress(len(done), wanted, f"{len(done)} of {wanted} partition(s) {state}")
            if rows and len(done) == wanted:
                return rows
            missing = [_standing(row) for row in rows if row.state != state]
            if len(rows) < wanted:
                missing.append(f"{wanted - len(rows)} of {wanted} partition(s) are not reported")
            await self._deadline.pause(problem or _names(missing) or f"no partition of mirror {self._mirror_name} is reported")

    async def until_drained(self, source: AdminClient, *, without: str = "") -> dict[TopicPartition, SourceEnd]:
        """Wait until the mirror has all that the source has decided, and the source is idle.

        Returns the source's ends. `without` says how to go on if the source stays away.
        """
        before: dict[TopicPartition, int] = {}
        initial = 0
        while True:
            seen, problem = await self._look()
            rows = [row for row in seen if row.state not in ENDED]
            ends: dict[TopicPartition, SourceEnd] = {}
            if problem is None:
                ends, problem = await _ends(source, rows)
                problem = f"{problem}. {without}" if problem is not None and without else problem
            behind = {_name(row): _behind(row, ends) for row in rows}
            _refuse_what_does_not_move(rows, behind if problem is None else {})
            lag = sum(behind.values())
            initial = max(initial, lag)
            self._progress(initial - lag, initial, f"{lag} offset(s) behind the source")
            stable = {name: end.last_stable_offset for name, end in ends.items()}
            absent = [f"{name} is not there" for name in unseen(ends, seen)]
            ready = not absent and all(row.state in (MIRRORING, PAUSED) for row in rows)
            if problem is None and ready and lag == 0 and stable == before:
                return ends
            before = stable if problem is None else {}
            late = [f"{name} is {offsets} behind" for name, offsets in behind.items() if offsets]
            late += [f"{_name(row)} is {row.state}" for row in rows if row.state != MIRRORING]
            late += absent
            await self._deadline.pause(problem or _names(late) or "the source is still written to")

    async def _look(self) -> tuple[list[MirrorPartitionDescription], str | None]:
        rows, problem = await answered(self.rows(), passing=Errors.UNKNOWN_MIRROR)  # brokers learn of a new mirror one after the other
        return rows or [], problem


async def answered(question: Awaitable[T], *, passing: Errors | None = None) -> tuple[T | None, str | None]:
    """Returns the answer, or why there is none yet.

    Raises an error that does not pass by itself. Retriable errors pass, and so does `passing`.
    """
    try:
        return await question, None
    except NoBrokerError as error:
        return None, str(error)
    except ApiException as error:
        if not error.error.retriable and error.error is not passing:
            raise
        return None, error.message


async def _ends(source: AdminClient, rows: Iterable[MirrorPartitionDescription]) -> tuple[dict[TopicPartition, SourceEnd], str | None]:
    """Returns the source's ends, or why it does not tell them: it may be coming back."""
    ends, problem = await answered(source_ends(source, rows))
    return ends or {}, None if problem is None else f"the source cannot be asked: {problem}"


def _behind(row: MirrorPartitionDescription, ends: dict[TopicPartition, SourceEnd]) -> int:
    end = ends.get(TopicPartition(row.topic, row.partition))
    return 0 if end is None else max(0, end.last_stable_offset - row.destination_offset)


def _refuse_what_does_not_move(rows: Iterable[MirrorPartitionDescription], behind: Mapping[str, int]) -> None:
    """Raise KmirrorError for partitions that will not catch up by themselves.

    A PAUSED partition that lacks nothing is as good as one that is MIRRORING.
    """
    stuck = [f"{_name(row)} is {row.state}" for row in rows if row.state == FAILED or (row.state == PAUSED and behind.get(_name(row)))]
    if stuck:
        is_paused = all(row.state != FAILED for row in rows)
        hint = "resume it, or fail over" if is_paused else "FAILED ends only by removing the topic: fail over"
        raise KmirrorError(f"{_names(stuck)}: it will not catch up; {hint} without --wait (--reverse: with --force)")


def _standing(row: MirrorPartitionDescription) -> str:
    return f"{_name(row)} is {row.state}{f' ({row.reason})' if row.reason else ''}"


def _name(row: MirrorPartitionDescription) -> str:
    return f"{row.topic}-{row.partition}"


def _names(names: list[str]) -> str:
    """Returns the first three names and the number of the others."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _silent(done: int, total: int, text: str, /) -> None:
    """Shows nothing, because there is no terminal."""


def progress_bar(title: str) -> AbstractContextManager[Progress]:
    """Shows a bar on stderr if that is a terminal, else nothing."""
    if not sys.stderr.isatty():
        return nullcontext(_silent)
    from kmirror.cli.mirrors_progress import bar

    return bar(title)
