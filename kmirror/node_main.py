"""One node as a process: the program behind `kmirror start`, and behind every node of
`EmbeddedCluster(processes=True)`.

`serve` runs a node until SIGTERM or SIGINT shut it down in good order; a second signal drops it at
once.

As a module (`python -m kmirror.node_main CONFIG`) it is the child of a cluster and speaks with its
parent over its standard streams. It loads its code, waits for a line on stdin, serves, and reports
this with one line of JSON on stdout: the bound port of each listener. The line on stdin means that
the properties file is complete, so a parent can spawn its children before it knows their settings.
The log goes to stderr, which the parent points at a file.

A child never outlives its parent. The parent holds the other end of stdin and never closes it while
the child is to run. When the kernel closes it (however the parent died), a thread of the child
reads the end of the file and kills the process, even if its loop is stuck. A copy of that end in
yet another process, for example after a `fork` without `exec`, keeps the child alive.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.network.config_providers import resolve_own
from kmirror.runtime import collector, descriptors
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.ending_signals import signals_heard
from kmirror.runtime.os_files import OsFileSystem, VolatileOsFileSystem
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.kafka_server import KafkaServer
from kmirror.storage.java_properties import decode_properties

LOG_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
LOG_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
_log = logging.getLogger(__name__)


async def serve(config: KafkaConfig, *, files: FileSystem | None = None, on_started: Callable[[KafkaServer], None] | None = None) -> int:
    """Runs the node until a signal ends it.

    Returns the exit code: 0 after a controlled shutdown, 1 after a forced end.
    """
    collector.collect_rarely()
    descriptors.prepare_for_a_server()
    runtime = AsyncioRuntime(files=files)
    stopping = asyncio.Event()
    forced = asyncio.Event()

    def on_signal(_: signal.Signals) -> None:
        if stopping.is_set():
            forced.set()
        stopping.set()

    server = KafkaServer(config, runtime)
    server.fatal.add_done_callback(lambda _: stopping.set())
    try:
        with signals_heard(on_signal):
            await server.start()
            collector.leave_alone_what_is_there()
            if on_started is not None:
                on_started(server)
            await stopping.wait()
            if server.fatal.done():
                return 1
            _log.info("[KafkaServer id=%d] shutting down", config.node_id)
            code = await _stop(server, forced)
            return 1 if server.fatal.done() else code
    finally:
        runtime.close()


async def _stop(server: KafkaServer, forced: asyncio.Event) -> int:
    shutdown = asyncio.ensure_future(server.stop())
    force = asyncio.ensure_future(forced.wait())
    force.add_done_callback(lambda _: shutdown.cancel())
    try:
        await shutdown
    except asyncio.CancelledError:
        await server.kill()
        return 1
    finally:
        force.cancel()
    return 0


def _die_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def _report_ports(server: KafkaServer, config: KafkaConfig) -> None:
    ports = {listener.name: server.bound_port(listener.name) for listener in (config.broker_listeners if config.is_broker else [])}
    print(json.dumps(ports), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="kmirror.node_main", description="run a node of an EmbeddedCluster; the cluster's process starts it"
    )
    parser.add_argument("config", type=Path, help="the node's properties file")
    parser.add_argument("--volatile", action="store_true", help="do not use fsync, because the data is deleted at the end")
    options = parser.parse_args()
    if not os.read(sys.stdin.fileno(), 1):
        return 1
    threading.Thread(target=_die_with_parent, name="parent-watch", daemon=True).start()
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, datefmt=LOG_DATE_FORMAT, stream=sys.stderr)
    try:
        properties = decode_properties(str(options.config), options.config.read_bytes())
        resolved = resolve_own(properties, OsFileSystem(), os.environ)
        config = KafkaConfig.from_props(resolved)
        config.log_unused()
        files = VolatileOsFileSystem() if options.volatile else OsFileSystem()
        with resolved.telling_as_written():
            return asyncio.run(serve(config, files=files, on_started=lambda server: _report_ports(server, config)))
    except (KmirrorError, OSError) as error:
        _log.error("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
