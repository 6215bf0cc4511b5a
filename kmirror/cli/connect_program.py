"""What `connect-mirror-maker`, `connect-distributed` and `connect-standalone` have in common: one
properties file, a log on stdout, metrics over HTTP, and an end by signals.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from kmirror.cli.properties import read_properties
from kmirror.cli.user_errors import exit_code
from kmirror.common.health import Health
from kmirror.common.metrics import MetricsRegistry
from kmirror.runtime import collector
from kmirror.runtime.asyncio_runtime import AsyncioRuntime, run
from kmirror.runtime.ending_signals import signals_heard
from kmirror.server.node_http import HTTP_LISTENER_CONFIG, NodeHttp

LOG_FORMAT: Final = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
LOG_DATE_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
STARTUP_ERROR: Final = 2
"""As Apache's programs end for a file that they cannot use."""
_log = logging.getLogger(__name__)

Serve = Callable[[AsyncioRuntime, Mapping[str, str]], Coroutine[Any, Any, int]]
"""Gets the file's properties, returns the exit code."""


def run_program(name: str, prepare: Callable[[], tuple[Path, Serve]]) -> int:
    """Returns the exit code. `prepare` reads the command line."""

    def main() -> int:
        path, serve = prepare()
        props = read_properties(path)
        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, datefmt=LOG_DATE_FORMAT, stream=sys.stdout)
        return run(lambda runtime: serve(runtime, props))

    return exit_code(main, failed=f"{name}: ", failure_code=STARTUP_ERROR)


@asynccontextmanager
async def metrics_served(
    runtime: AsyncioRuntime, props: Mapping[str, str], metrics: MetricsRegistry, health: Callable[[], Health]
) -> AsyncIterator[None]:
    """Serves metrics and health where `kmirror.http.listener` says, if it does; `health` is the
    program's.
    """
    if not props.get(HTTP_LISTENER_CONFIG):
        yield
        return
    http = NodeHttp(runtime, props[HTTP_LISTENER_CONFIG], metrics, health)
    await http.start()
    _log.info("Metrics and health are served on port %d", http.port)
    try:
        yield
    finally:
        http.stop()


async def until_signalled(runtime: AsyncioRuntime, stop: Callable[[], Coroutine[Any, Any, None]], name: str) -> int:
    """Waits for SIGTERM or SIGINT and stops; returns 0, or 1 if a second signal ends it at once."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    collector.collect_rarely()
    collector.leave_alone_what_is_there()
    with signals_heard(signals.put_nowait):
        await signals.get()
        _log.info("%s stopping", name)
        stopping = runtime.spawn(stop(), name="stop")
        forced = runtime.spawn(signals.get(), name="second-signal")
        forced.add_done_callback(lambda task: None if task.cancelled() else stopping.cancel())
        try:
            await stopping
        except asyncio.CancelledError:
            _log.warning("%s ends at once; what is not stored will be copied again", name)
            return 1
        finally:
            forced.cancel()
    _log.info("%s stopped.", name)
    return 0
