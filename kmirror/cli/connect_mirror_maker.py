"""`connect-mirror-maker`: MirrorMaker 2 from a properties file (Kafka's `MirrorMaker`)."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from kmirror.cli.properties import read_properties
from kmirror.cli.user_errors import exit_code
from kmirror.mirrormaker.dedicated_rest import DedicatedRest
from kmirror.mirrormaker.driver import MirrorMaker
from kmirror.network.config_providers import ConfigProviders
from kmirror.runtime import collector
from kmirror.runtime.asyncio_runtime import AsyncioRuntime, run
from kmirror.runtime.os_files import OsFileSystem
from kmirror.server.node_http import HTTP_LISTENER_CONFIG, NodeHttp

LOG_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
LOG_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
STARTUP_ERROR = 2
"""As Apache's program ends for a file that it cannot use."""
_log = logging.getLogger(__name__)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="connect-mirror-maker",
        description="Runs MirrorMaker 2 (KIP-382): copies topics, group offsets, configs and access rules between clusters.",
        epilog=(
            "A process runs all flows of the file, or those to the targets of --clusters; processes with the same file share the work of each "
            "flow. Records are copied at least once, or exactly once with exactly.once.source.support=enabled. Not built: transforms; a file that "
            f"asks for them is refused. Metrics and health are served over HTTP where {HTTP_LISTENER_CONFIG}=host:port says; processes of Apache "
            "Kafka that share a flow need dedicated.mode.enable.internal.rest=true and listeners. SIGTERM or Ctrl-C end it once what is on its "
            "way is written and its offsets are stored; a second signal ends it at once."
        ),
    )
    made.add_argument("config", metavar="mm2.properties", type=Path, help="MM2 configuration file.")
    made.add_argument("--clusters", nargs="+", metavar="CLUSTER", help="Target cluster to use for this node.")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    return exit_code(lambda: _run(options.config, options.clusters), failed="connect-mirror-maker: ", failure_code=STARTUP_ERROR)


def _run(path: Path, clusters: list[str] | None) -> int:
    props = read_properties(path)
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, datefmt=LOG_DATE_FORMAT, stream=sys.stdout)
    return run(lambda runtime: serve(runtime, props, clusters))


async def serve(runtime: AsyncioRuntime, props: Mapping[str, str], clusters: list[str] | None) -> int:
    """Runs until a signal; returns 0 after an orderly end, 1 after a second signal."""
    providers = ConfigProviders.of_a_tool(props, OsFileSystem(), os.environ)
    maker = MirrorMaker(runtime, props, targets=clusters, transform=providers.resolve)
    http = None
    if props.get(HTTP_LISTENER_CONFIG):
        http = NodeHttp(runtime, props[HTTP_LISTENER_CONFIG], maker.metrics, maker.reasons)
        await http.start()
        _log.info("Metrics and health are served on port %d", http.port)
    rest = None
    if maker.config.enable_internal_rest:
        rest = DedicatedRest(runtime, providers.resolve(props))
        await rest.start(maker)
    maker.start()
    _log.info("Kafka MirrorMaker started with %s", ", ".join(str(flow.flow) for flow in maker.flows))

    async def stop() -> None:
        if rest is not None:
            await rest.stop()
        await maker.stop()

    try:
        return await until_signalled(runtime, stop, "Kafka MirrorMaker")
    finally:
        if http is not None:
            http.stop()


async def until_signalled(runtime: AsyncioRuntime, stop: Callable[[], Coroutine[Any, Any, None]], name: str) -> int:
    """Waits for SIGTERM or SIGINT and stops; returns 0, or 1 if a second signal ends it at once."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    collector.collect_rarely()
    collector.leave_alone_what_is_there()
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


if __name__ == "__main__":
    sys.exit(main())
