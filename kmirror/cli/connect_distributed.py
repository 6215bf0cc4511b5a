"""`connect-distributed`: a worker of a Connect cluster that runs MirrorMaker's connectors (Kafka's
`ConnectDistributed`).
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kmirror.cli.connect_program import metrics_served, run_program, until_signalled
from kmirror.cli.properties import worker_references
from kmirror.mirrormaker.connect_worker import ConnectWorker
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.server.node_http import HTTP_LISTENER_CONFIG

_log = logging.getLogger(__name__)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="connect-distributed",
        description="Runs MirrorMaker 2's connectors in a Kafka Connect cluster: MirrorSourceConnector, MirrorCheckpointConnector, "
        "MirrorHeartbeatConnector, MirrorSinkConnector.",
        epilog=(
            "Connectors are made, changed and watched over Connect's REST interface (listeners, default http://:8083). Workers with the same "
            "group.id and storage topics share the work; connectors run with ByteArrayConverter, their own or the worker's. Transforms and "
            f"predicates are Kafka's own; other connectors and sinks are not built. Metrics are served where {HTTP_LISTENER_CONFIG}=host:port says. SIGTERM or Ctrl-C end it once what "
            "is on its way is written and its offsets are stored; a second signal ends it at once."
        ),
    )
    made.add_argument("config", metavar="worker.properties", type=Path, help="The worker's configuration file.")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    return run_program("connect-distributed", lambda: (parser().parse_args(arguments).config, serve))


async def serve(runtime: AsyncioRuntime, props: Mapping[str, str]) -> int:
    """Runs until a signal; returns 0 after an orderly end, 1 after a second signal."""
    worker = ConnectWorker(runtime, props, transform=worker_references(props))
    async with metrics_served(runtime, props, worker.metrics, worker.health):
        await worker.start()
        _log.info("Kafka Connect worker started at %s", worker.advertised_url)
        return await until_signalled(runtime, worker.stop, "Kafka Connect")


if __name__ == "__main__":
    sys.exit(main())
