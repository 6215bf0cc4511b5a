"""What an inquiry may ask, and what it ends with (`log_verifier`).

Questions are data, so that the questions of many partitions can go into one request, and so that
nothing in an inquiry waits. An error that prevented an answer is thrown into the inquiry.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from enum import Enum
from typing import Any, NamedTuple, Protocol

from kmirror.storage.batch_header import BatchHeader


class ComparedLog(Protocol):
    """What a comparison needs of a log: a `UnifiedLog`, or what a client has fetched from one."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    def batch_before(self, offset: int) -> BatchHeader | None: ...

    def batch_containing(self, offset: int) -> BatchHeader | None: ...

    def batch_headers(self, start_offset: int = 0) -> Iterator[BatchHeader]: ...


class EarliestOffset(NamedTuple):
    """The source's log start offset (int). `local`: the start of what is not only in remote
    storage.
    """

    local: bool = False


class BatchAt(NamedTuple):
    """The batch at `offset` (FetchedPartition), decided or not; expected to have `size` bytes."""

    offset: int
    size: int


class EndOfEpoch(NamedTuple):
    """The largest epoch up to this one that the source has, and where it ends (EpochEnd).

    None: the leader's own epoch.
    """

    leader_epoch: int | None


class OnWorker(NamedTuple):
    """Not a question to the source: a scan of our own log, which may take long and so runs on a
    worker. The answer is what `work` returns.
    """

    work: Callable[[], object]


class LogAction(Enum):
    """What to do with our log."""

    KEEP = "keep"
    CUT = "cut"
    START_OVER = "start over"
    WAIT = "wait"


class Loss(Enum):
    """How well a verdict's loss is proven to be right (`truncation_guard`)."""

    NONE = "what goes is gone at the source by retention, or was nothing"
    COUNTED = "some of the log is proven to be the source's"
    EVERYTHING = "nothing of the log is proven to be the source's"


class Verdict(NamedTuple):
    """CUT to `offset`; START_OVER with an empty log at `offset`; WAIT: nothing can be decided yet.
    `ignores_epochs`: the next fetch does not carry the epoch of our last batch, because the
    source's cleaner has removed that epoch there.
    """

    action: LogAction
    offset: int = -1
    reason: str = ""
    loss: Loss = Loss.NONE
    ignores_epochs: bool = False


Question = EarliestOffset | BatchAt | EndOfEpoch | OnWorker
Inquiry = Generator[Question, Any, Verdict]
KEEP = Verdict(LogAction.KEEP)
