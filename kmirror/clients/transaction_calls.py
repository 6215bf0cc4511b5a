"""The calls of a producer's transactions: one at a time, each within max.block.ms for its caller.

A call whose caller gave it up, or whose time is up, goes on, and only the same call may be made again:
it then waits for the one that runs. Offsets are different, as in Kafka: any call may follow, and
begins when they are sent. Unless it is an abort, it fails with what they failed with.

What the manager itself needs from the cluster (a new producer id, partitions of a transaction) runs
here too, one piece of work at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from kmirror.clients.producer_batch import IllegalStateError
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.clients.transaction_states import State
from kmirror.clients.transactional_requests import TransactionalRequests
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.runtime.api import Runtime, TaskScope

SEND_OFFSETS: Final = "sendOffsetsToTransaction"
ABORT: Final = "abortTransaction"
_AWAITED: Final = {
    "initTransactions": "InitProducerId",
    SEND_OFFSETS: "AddOffsetsToTxn",
    "commitTransaction": "EndTxn(true)",
    ABORT: "EndTxn(false)",
}
"""The request whose answer a call waits for, as Kafka names it in the error."""


class _Pending(NamedTuple):
    """A call that was begun; `subject` is what it was given. The future's result is its error, or
    None.
    """

    name: str
    subject: object
    done: asyncio.Future[BaseException | None]


class TransactionCalls:
    """Owns the call that is pending, and the work under way. `on_progress` is called when either
    ends.
    """

    def __init__(
        self,
        runtime: Runtime,
        scope: TaskScope,
        manager: TransactionManager | None,
        requests: TransactionalRequests | None,
        *,
        max_block_ms: int,
    ) -> None:
        self.on_progress: Callable[[], None] = lambda: None
        self._runtime = runtime
        self._scope = scope
        self._manager = manager
        self._requests = requests
        self._max_block_ms = max_block_ms
        self._working: asyncio.Future[None] | None = None
        """Completed when the work under way has ended."""
        self._pending: _Pending | None = None

    def ensure_none_pending(self, name: str) -> None:
        pending = self._pending
        if pending is not None and pending.name not in (name, SEND_OFFSETS) and not pending.done.done():
            raise IllegalStateError(
                f"Cannot attempt operation `{name}` because the previous call to `{pending.name}` timed out and must be retried"
            )

    async def call(self, name: str, begin: Callable[[], None], work: Callable[[], Awaitable[None]], *, subject: object = None) -> None:
        """Runs one call of a transaction, or goes on waiting for the one with the same `subject` that
        was given up.
        """
        self.ensure_none_pending(name)
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                pending = self._pending
                if pending is not None and (pending.name, pending.subject) != (name, subject):
                    earlier = await asyncio.shield(pending.done)
                    self._pending = pending = None
                    if earlier is not None and name != ABORT:
                        raise earlier
                if pending is None:
                    begin()
                    pending = self._pending = _Pending(name, subject, self._runtime.create_future())
                    self._scope.spawn(self._run(work, pending.done), name=name)
                failure = await asyncio.shield(pending.done)
        except TimeoutError as error:
            text = f"Timeout expired after {self._max_block_ms}ms while awaiting {_AWAITED[name]}"
            raise ApiException(Errors.REQUEST_TIMED_OUT, text) from error
        self._pending = None
        if failure is not None:
            raise failure

    async def _run(self, work: Callable[[], Awaitable[None]], done: asyncio.Future[BaseException | None]) -> None:
        failure: BaseException | None = IllegalStateError("Producer is closed forcefully.")
        try:
            await work()
            failure = None
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            failure = error
        finally:
            if not done.done():
                done.set_result(failure)
            self.on_progress()

    async def wait_pending(self) -> None:
        """Waits until the pending call has ended; TimeoutError after max.block.ms."""
        if self._pending is not None and not self._pending.done.done():
            async with asyncio.timeout(self._max_block_ms / 1000):
                await asyncio.shield(self._pending.done)

    def fail_pending(self, error: BaseException) -> None:
        """The producer is closed: ends the wait for a call that runs no longer."""
        if self._pending is not None and not self._pending.done.done():
            self._pending.done.set_result(error)

    async def until_idle(self) -> None:
        """Waits for the work under way. A transaction must not end while a partition is being added to
        it: the coordinator would take that for the next one.
        """
        while self._working is not None:
            await asyncio.shield(self._working)

    def start_work(self) -> None:
        """Starts what the manager needs from the cluster; one piece of work at a time."""
        manager, requests = self._manager, self._requests
        if manager is None or requests is None or self._working is not None:
            return
        work: Callable[[], Awaitable[None]]
        if manager.needs_new_id():
            manager.transition_to(State.INITIALIZING)
            work = requests.init_producer_id
        elif manager.new_partitions and not manager.wants_no_more and manager.producer.is_valid:
            work = requests.add_partitions
        else:
            return
        self._working = done = self._runtime.create_future()
        self._scope.spawn(self._work(work, done), name="transactions")

    async def _work(self, work: Callable[[], Awaitable[None]], done: asyncio.Future[None]) -> None:
        try:
            await work()
        except KmirrorError:
            pass  # the manager knows, and fails the batches with it
        finally:
            self._working = None
            done.set_result(None)
            self.on_progress()
