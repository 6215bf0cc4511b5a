"""What an inquiry may ask, and what it ends with (`log_verifier`).

Questions are data, so that whoever answers may ask those of many partitions in one request, and so
that nothing in an inquiry waits. What kept an answer away is thrown into the inquiry.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from enum import Enum
from typing import Any, NamedTuple, Protocol

from kmirror.storage.batch_header import BatchHeader


class ComparedLog(Protocol):
    """What a comparison needs of a log: a `UnifiedLog`, or what a client has fetched of one."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    def batch_before(self, offset: int) -> BatchHeader | None: ...

    def batch_containing(self, offset: int) -> BatchHeader | None: ...

    def batch_headers(self, start_offset: int = 0) -> Iterator[BatchHeader]: ...


class EarliestOffset(NamedTuple):
    """The source's log start offset (int). `local`: of what it has not moved to remote storage."""

    local: bool = False


class BatchAt(NamedTuple):
    """The batch at `offset` (FetchedPartition), decided or not; of `size` bytes as far as we know."""

    offset: int
    size: int


class EndOfEpoch(NamedTuple):
    """The largest epoch up to this one that the source has, and where it ends (EpochEnd).

    None: the leader's own epoch.
    """

    leader_epoch: int | None


class OnWorker(NamedTuple):
    """Not for the source: a scan of our own log, which is long for a large one and belongs on a
    worker. Answered with what it returns.
    """

    work: Callable[[], object]


class Action(Enum):
    """What to do with our log."""

    KEEP = "keep"
    CUT = "cut"
    START_OVER = "start over"
    WAIT = "wait"


class Loss(Enum):
    """How far a verdict is to be trusted (`truncation_guard`)."""

    NONE = "what goes is gone at the source by retention, or was nothing"
    COUNTED = "some of the log is proven to be the source's"
    EVERYTHING = "nothing of the log is proven to be the source's"


class Verdict(NamedTuple):
    """CUT to `offset`; START_OVER at it, with nothing; WAIT: nothing can be said yet.

    `ignores_epochs`: the next fetch does not tell the epoch of our last batch, which the source's
    cleaner has hidden from the source.
    """

    action: Action
    offset: int = -1
    reason: str = ""
    loss: Loss = Loss.NONE
    ignores_epochs: bool = False


Question = EarliestOffset | BatchAt | EndOfEpoch | OnWorker
Inquiry = Generator[Question, Any, Verdict]
KEEP = Verdict(Action.KEEP)
