"""The active controller of a one-voter quorum (Kafka's `QuorumController`).

A request becomes a write event: a manager, a pure function of (image, soft state, request), returns a
`ControllerResult`; its records are appended to the metadata log as one batch and replayed at once, so that the next
event sees them; the response waits until the log is flushed up to its last record. With one voter, flushed means
committed. A failed flush fails the controller for good: nothing that was not acknowledged is guessed at.

`image` is the state with every appended record; `committed_offset` says how much of it is durable. The managers hold no
state of their own besides heartbeats: what the records say lies in the image alone, made by `MetadataDelta.replay`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.controller_result import ControllerResult
from kmirror.metadata.image import MetadataImage
from kmirror.runtime.api import Runtime

T = TypeVar("T")


class QuorumController:
    """Create with `QuorumController(config, runtime)`, then `await start()`; `await stop()` closes the log cleanly."""

    image: MetadataImage

    def __init__(self, config: ControllerConfig, runtime: Runtime) -> None: ...

    async def start(self) -> None:
        """Open the log, load snapshot and records, begin a new epoch, write the bootstrap records on the first start."""
        ...

    async def stop(self) -> None: ...

    @property
    def epoch(self) -> int:
        """The leader epoch of the metadata log."""
        ...

    @property
    def high_watermark(self) -> int: ...

    async def write(self, name: str, decide: Callable[[], ControllerResult[T]]) -> T:
        """Run one write event; the response once its records are durable."""
        ...
