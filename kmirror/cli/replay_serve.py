"""`kmirror replay --serve`: a read-only broker over recorded logs.

Consumers read from it and clusters mirror it, byte for byte.

With `--to`, the cluster there mirrors the recording by KIP-1279. The command creates the mirror,
adds its topics, and waits until they have everything that the recording has decided (transactions
that are open at the end of a log are not mirrored). With `--failover` it then removes the topics
from the mirror, which makes them writable, and ends. Without it they stay in the mirror, and the
broker serves until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.cli.log_diff_inputs import FolderInput
from kmirror.cli.mirrors_wait import STOPPED, Deadline, MirrorWaiter, progress_bar
from kmirror.cli.replay_plan import Plan
from kmirror.cli.replay_progress import counted, say
from kmirror.cli.replay_run import CLIENT_ID
from kmirror.cli.replay_served import ServedFolder
from kmirror.cli.replay_stop import exit_code
from kmirror.cli.tool_client import open_admin
from kmirror.common.errors import KmirrorError
from kmirror.node_main import LOG_DATE_FORMAT, LOG_FORMAT
from kmirror.replica.partition import ReadOnlyReason
from kmirror.runtime import descriptors
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.ending_signals import signals_heard
from kmirror.server.kafka_server import KafkaServer

FOR_EVER_MS: Final = 1 << 40
LISTENER: Final = "PLAINTEXT"
MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class MirrorWish:
    """The cluster that is to mirror the recording; none if `bootstrap_servers` is None."""

    bootstrap_servers: str | None
    mirror: str
    failover: bool
    properties: Mapping[str, str]


def parse_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`; port 0 means any free port."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > MAX_PORT:
        raise KmirrorError(f"--serve takes HOST:PORT, not '{text}'")
    return host, int(port)


def serve(plan: Plan, recorded: FolderInput, address: tuple[str, int], configs: Mapping[str, str], wish: MirrorWish) -> int:
    """Serve the recording; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="kmirror-replay-") as folder:
        served = ServedFolder(Path(folder), *address)
        return asyncio.run(_serve(served, plan, recorded, configs, wish))


async def _serve(served: ServedFolder, plan: Plan, recorded: FolderInput, configs: Mapping[str, str], wish: MirrorWish) -> int:
    logging.basicConfig(level=logging.ERROR, format=LOG_FORMAT, datefmt=LOG_DATE_FORMAT, stream=sys.stderr)
    descriptors.prepare_for_a_server()
    runtime = AsyncioRuntime(files=served.files)
    server = KafkaServer(served.config, runtime)
    try:
        with _signals() as seen:
            await runtime.run_blocking(lambda: served.build(runtime, plan, recorded, configs))
            await server.start()
            forbid_writing(server, plan)
            servers = f"{served.host}:{server.bound_port(LISTENER)}"
            what = f"{counted(len(plan.partitions), 'partition')} of {counted(len(plan.counts), 'topic')}"
            say(f"serving {what} at {servers}, read-only")
            code = await _until_ended(runtime, server, servers, plan, wish, seen)
        await server.stop()
    finally:
        await server.kill()
        runtime.close()
    return code


def forbid_writing(server: KafkaServer, plan: Plan) -> None:
    """Make the broker answer READ_ONLY_TOPIC to whoever produces to a recorded partition.

    The files are opened read-only in any case.
    """
    assert server.broker is not None, "a server without a broker"
    for topic, count in plan.counts.items():
        for name, partition in server.broker.replica_manager.partitions.items():
            if name.topic == topic and name.partition < count:
                partition.set_read_only(ReadOnlyReason.MIRROR_TOPIC)


async def _until_ended(
    runtime: Runtime, server: KafkaServer, servers: str, plan: Plan, wish: MirrorWish, seen: asyncio.Future[signal.Signals]
) -> int:
    """Returns 0 when all is done, 130 or 143 after a signal.

    KmirrorError if the broker or the mirror cannot continue.
    """
    mirroring = None if wish.bootstrap_servers is None else runtime.spawn(_mirror(runtime, servers, plan, wish), name="replay-mirror")
    ended = runtime.create_future()

    def end(_: object) -> None:
        if not ended.done():
            ended.set_result(None)

    def mirrored(task: asyncio.Task[None]) -> None:
        if wish.failover or task.cancelled() or task.exception() is not None:
            end(task)

    seen.add_done_callback(end)
    server.fatal.add_done_callback(end)
    if mirroring is not None:
        mirroring.add_done_callback(mirrored)
    await ended
    if server.fatal.done():
        raise KmirrorError(f"the broker over the recording had to end: {server.fatal.result()}")
    if mirroring is not None and mirroring.done():
        mirroring.result()
    if mirroring is not None and not mirroring.done():
        mirroring.cancel()
        say("interrupted: the topics are in the mirror, and go on when the recording is served at the same address again")
    if seen.done():
        return exit_code(seen.result())
    return 0


async def _mirror(runtime: Runtime, servers: str, plan: Plan, wish: MirrorWish) -> None:
    """Create the mirror at the destination, wait until it has everything, fail over if wanted."""
    assert wish.bootstrap_servers is not None, "a mirror nowhere"
    topics = sorted(plan.counts)
    async with (
        open_admin(runtime, wish.bootstrap_servers, wish.properties, client_id=CLIENT_ID) as admin,
        AdminClient(runtime, parse_bootstrap_servers(servers), client_id=CLIENT_ID) as source,
    ):
        known = [one.mirror_name for one in await admin.list_mirrors()]
        if wish.mirror in known:
            raise KmirrorError(f"mirror {wish.mirror} already exists; give another name with --mirror")
        await admin.create_mirror(wish.mirror, {"bootstrap.servers": servers})
        (await admin.add_topics_to_mirror(wish.mirror, topics)).all()
        say(f"mirror {wish.mirror} of {wish.bootstrap_servers} has {counted(len(topics), 'topic')}")
        with progress_bar("mirroring") as progress:
            waiter = MirrorWaiter(admin, wish.mirror, topics, Deadline(runtime, FOR_EVER_MS), progress)
            ends = await waiter.until_drained(source)
        offsets = sum(end.last_stable_offset for end in ends.values())
        print(f"mirrored {counted(len(ends), 'partition')}, {counted(offsets, 'offset')}, lag 0", flush=True)
        if wish.failover:
            (await admin.remove_topics_from_mirror(wish.mirror, topics)).all()
            with progress_bar("failing over") as progress:
                await MirrorWaiter(admin, wish.mirror, topics, Deadline(runtime, FOR_EVER_MS), progress).until_state(STOPPED)
            print(f"failed over: {counted(len(topics), 'topic')} STOPPED and writable", flush=True)
        else:
            say("the topics go on as a mirror; Ctrl-C ends the broker that they mirror")


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Future[signal.Signals]]:
    """Yields a future that holds the first signal."""
    seen: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()

    def on_signal(number: signal.Signals) -> None:
        if not seen.done():
            seen.set_result(number)

    with signals_heard(on_signal):
        yield seen
