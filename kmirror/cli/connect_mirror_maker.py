"""`connect-mirror-maker`: MirrorMaker 2 from a properties file (Kafka's `MirrorMaker`)."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from kmirror.cli.connect_program import Serve, metrics_served, run_program, until_signalled
from kmirror.mirrormaker.dedicated_rest import DedicatedRest
from kmirror.mirrormaker.driver import MirrorMaker
from kmirror.network.config_providers import ConfigProviders
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.os_files import OsFileSystem
from kmirror.server.node_http import HTTP_LISTENER_CONFIG

USAGE_ERROR: Final = 255
"""As Apache's program ends for a command line that it cannot use."""
_log = logging.getLogger(__name__)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE_ERROR, f"{self.prog}: error: {message}\n")


def parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="connect-mirror-maker",
        description="Runs MirrorMaker 2 (KIP-382): copies topics, group offsets, configs and access rules between clusters.",
        epilog=(
            "A process runs all flows of the file, or those to the targets of --clusters; processes with the same file share the work of each "
            "flow. Records are copied at least once, or exactly once with exactly.once.source.support=enabled. Kafka's transforms and predicates "
            f"work on them one by one. Metrics and health are served over HTTP where {HTTP_LISTENER_CONFIG}=host:port says; processes of Apache "
            "Kafka that share a flow need dedicated.mode.enable.internal.rest=true and listeners. SIGTERM or Ctrl-C end it once what is on its "
            "way is written and its offsets are stored; a second signal ends it at once."
        ),
    )
    made.add_argument("config", metavar="mm2.properties", type=Path, help="MM2 configuration file.")
    made.add_argument("--clusters", nargs="+", metavar="CLUSTER", help="Target cluster to use for this node.")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    def prepare() -> tuple[Path, Serve]:
        options = parser().parse_args(arguments)
        return options.config, lambda runtime, props: serve(runtime, props, options.clusters)

    return run_program("connect-mirror-maker", prepare)


async def serve(runtime: AsyncioRuntime, props: Mapping[str, str], clusters: list[str] | None) -> int:
    """Runs until a signal; returns 0 after an orderly end, 1 after a second signal."""
    providers = ConfigProviders.of_a_tool(props, OsFileSystem(), os.environ)
    maker = MirrorMaker(runtime, props, targets=clusters, transform=providers.resolve)
    async with metrics_served(runtime, props, maker.metrics, maker.health):
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

        return await until_signalled(runtime, stop, "Kafka MirrorMaker")


if __name__ == "__main__":
    sys.exit(main())
