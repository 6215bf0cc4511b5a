"""`connect-standalone`: one worker of Connect with MirrorMaker's connectors (Kafka's `ConnectStandalone`)."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kmirror.cli.connect_program import Serve, metrics_served, run_program, until_signalled
from kmirror.cli.properties import worker_references
from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.connector_files import parse_connector_file
from kmirror.mirrormaker.rest.entities import CreateRequest
from kmirror.mirrormaker.standalone_worker import StandaloneWorker
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.server.node_http import HTTP_LISTENER_CONFIG

CONNECTOR_ERROR = 3
"""As Apache's program ends for a connector of its command line that cannot be made."""
_log = logging.getLogger(__name__)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="connect-standalone",
        description="Runs MirrorMaker 2's connectors (KIP-382) in one worker of Connect, with Connect's REST interface.",
        epilog=(
            "The connectors are MirrorSourceConnector, MirrorCheckpointConnector and MirrorHeartbeatConnector; records go to the "
            "bootstrap.servers of the worker. Source offsets are in the file offset.storage.file.filename, as Apache Kafka's program has it. "
            "What the REST interface at `listeners` (http://:8083) changes is gone when the process ends. Metrics and health are served over "
            f"HTTP where {HTTP_LISTENER_CONFIG}=host:port says. SIGTERM or Ctrl-C end it once what is on its way is written and its offsets "
            "are stored; a second signal ends it at once."
        ),
    )
    made.add_argument("worker", metavar="worker.properties", type=Path, help="Configuration file of the worker.")
    made.add_argument("connectors", metavar="connector.properties", type=Path, nargs="*", help="Connectors: properties or JSON.")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    def prepare() -> tuple[Path, Serve]:
        options = parser().parse_args(arguments)
        return options.worker, lambda runtime, props: serve(runtime, props, options.connectors)

    return run_program("connect-standalone", prepare)


async def serve(runtime: AsyncioRuntime, props: Mapping[str, str], connectors: Sequence[Path]) -> int:
    """Runs until a signal; returns 0 after an orderly end, 1 after a second signal, 3 if a connector
    cannot be made.
    """
    worker = StandaloneWorker(runtime, props, worker_references(props))
    async with metrics_served(runtime, props, worker.metrics, worker.health):
        await worker.start()
        if not await _create(worker, connectors):
            await worker.stop()
            return CONNECTOR_ERROR
        worker.herder.mark_ready()
        _log.info("Kafka Connect started at %s", worker.url)
        return await until_signalled(runtime, worker.stop, "Kafka Connect")


async def _create(worker: StandaloneWorker, connectors: Sequence[Path]) -> bool:
    for path in connectors:
        try:
            wanted = _read(path)
            await worker.create(
                wanted.name, {name: value for name, value in wanted.config.items() if value is not None}, wanted.initial_state
            )
        except KmirrorError as error:
            _log.error("Failed to create connector for %s: %s", path, error)
            return False
        _log.info("Created connector %s", wanted.name)
    return True


def _read(path: Path) -> CreateRequest:
    try:
        return parse_connector_file(str(path), path.read_bytes())
    except OSError as error:
        raise KmirrorError(f"cannot read {path}: {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main())
