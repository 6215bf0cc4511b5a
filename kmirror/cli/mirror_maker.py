"""`kafka-mirror-maker`: the legacy MirrorMaker (KIP-3), with the options of Kafka 3.9, the last
release that has it.

It runs until SIGTERM, SIGINT or SIGHUP, which end it cleanly: flush, commit, leave the group, close.
A second signal ends it at once; what was not committed is mirrored again at the next start. A SIGHUP
that is ignored (nohup) stays ignored, as by Java.

Exit codes, as in Kafka: 143 after SIGTERM, 130 after SIGINT, 129 after SIGHUP, 255 when a stream failed or a failed
send aborted, 1 when it could not start (or was ended by a second signal), 0 for --version. The log
goes to stderr, one line per event.

`--abort.on.send.fail`, `--abortOnSendFail` and `--consumer.rebalance.listener.args` are the
spellings of KIP-3's text. `--http.listener` is kmirror's own.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kmirror.cli.tool_options import CommandError, ToolParser, UsageError, require, run_tool
from kmirror.common.errors import KmirrorError

if TYPE_CHECKING:
    from kmirror.mirrormaker.cluster_watch import ClusterWatch
    from kmirror.mirrormaker.legacy.mirror_maker import MirrorMaker
    from kmirror.mirrormaker.legacy.settings import MirrorMakerSettings
    from kmirror.runtime.api import Runtime

DESCRIPTION: Final = "This tool helps to continuously copy data between two Kafka clusters."
VERSION: Final = "3.9.1"
ABNORMAL: Final = 255
LOG_FORMAT: Final = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
LOG_DATE_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
ABORT_OPTIONS: Final = ("abort.on.send.failure", "abort.on.send.fail", "abortOnSendFail")
LISTENER_ARGS: Final = ("rebalance.listener.args", "consumer.rebalance.listener.args")
STRATEGY_WARNING: Final = (
    "WARNING: The default partition assignment strategy of the mirror maker will change from 'range' to 'roundrobin' in an upcoming release "
    "(so that better load balancing can be achieved). If you prefer to make this switch in advance of that release add the following to the "
    "corresponding config: 'partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor'"
)


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-mirror-maker", DESCRIPTION)
    value = parser.value
    value("consumer.config", "config file", "REQUIRED: properties of the consumers, which read the source cluster.")
    value("producer.config", "config file", "REQUIRED: properties of the producer, which writes to the target cluster.")
    value("include", "Java regex (String)", 'REQUIRED: the topics to mirror; a comma means "or".')
    value("whitelist", "Java regex (String)", "Deprecated: --include, which wins over it.")
    value("num.streams", "Number of threads", "How many consumers read side by side.", kind="Integer", default=1)
    value("offset.commit.interval.ms", "ms", "How often the producer is flushed and offsets are committed.", kind="Integer", default=60_000)
    value("consumer.rebalance.listener", "module:attribute", "A rebalance listener of yours, called after the tool's own.")
    value("rebalance.listener.args", "text", "What the listener is made with.")
    value("consumer.rebalance.listener.args", "text", "KIP-3's name of --rebalance.listener.args.")
    value("message.handler", "module:attribute", "A handler of yours, which turns each record into those to produce.")
    value("message.handler.args", "text", "What the handler is made with.")
    value(
        "abort.on.send.failure", "true or false", "Whether a failed send stops the tool; otherwise the record is skipped.", default="true"
    )
    parser.optional_value("abort.on.send.fail", "true or false", "KIP-3's name of --abort.on.send.failure; true without a value.")
    parser.optional_value("abortOnSendFail", "true or false", "Another of KIP-3's names of --abort.on.send.failure.")
    parser.flag("new.consumer", "Deprecated; it changes nothing.")
    value("http.listener", "host:port", "Serve /metrics and /health there.")
    return parser


def check(options: argparse.Namespace) -> None:
    require(options, "consumer.config", "producer.config")
    for names in (ABORT_OPTIONS, LISTENER_ARGS):
        given = [name for name in names if name in options.given]
        if len(given) > 1:
            raise UsageError(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')


def is_true(text: str) -> bool:
    """As Scala's toBoolean."""
    if text.lower() not in ("true", "false"):
        raise KmirrorError(f'For input string: "{text}"')
    return text.lower() == "true"


def settings_of(options: argparse.Namespace) -> MirrorMakerSettings:
    """Reads files and loads plugins, in Kafka's order; KmirrorError for the first fault."""
    from kmirror.cli.properties import read_properties
    from kmirror.mirrormaker.legacy.message_handler import DefaultMirrorMakerMessageHandler
    from kmirror.mirrormaker.legacy.plugins import load_message_handler, load_rebalance_listener
    from kmirror.mirrormaker.legacy.settings import MirrorMakerSettings

    consumer_properties = read_properties(Path(options.consumer_config))
    include = options.whitelist if options.include is None else options.include
    if include is None:
        raise KmirrorError("include list must be specified")
    if "partition.assignment.strategy" not in consumer_properties:
        print(STRATEGY_WARNING, file=sys.stderr)
    aborts = next((getattr(options, name.replace(".", "_")) for name in ABORT_OPTIONS if name in options.given), "true")
    if options.num_streams < 1:
        raise KmirrorError("--num.streams must be at least 1")
    listener, handler = options.consumer_rebalance_listener, options.message_handler
    listener_args = options.rebalance_listener_args
    if listener_args is None:
        listener_args = options.consumer_rebalance_listener_args
    return MirrorMakerSettings(
        consumer_properties=consumer_properties,
        producer_properties=read_properties(Path(options.producer_config)),
        include=_pattern(include),
        num_streams=options.num_streams,
        offset_commit_interval_ms=options.offset_commit_interval_ms,
        abort_on_send_failure=is_true(aborts or "true"),
        message_handler=load_message_handler(handler, options.message_handler_args) if handler else DefaultMirrorMakerMessageHandler(),
        rebalance_listener=load_rebalance_listener(listener, listener_args) if listener else None,
    )


def _pattern(include: str) -> re.Pattern[str]:
    """A wrong expression ends Kafka's streams, so it has their exit code."""
    from kmirror.mirrormaker.legacy.settings import include_pattern

    try:
        return include_pattern(include)
    except KmirrorError as error:
        raise CommandError(str(error), code=ABNORMAL) from error


def run(options: argparse.Namespace) -> int:
    from kmirror.clients.consumer.consumer_config import ConsumerConfig
    from kmirror.clients.producer_config import ProducerConfig
    from kmirror.mirrormaker.cluster_watch import ClusterWatch
    from kmirror.mirrormaker.legacy.mirror_maker import MirrorMaker
    from kmirror.mirrormaker.legacy.settings import tell_unknown
    from kmirror.runtime.asyncio_runtime import run as run_loop

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, datefmt=LOG_DATE_FORMAT, stream=sys.stderr)
    settings = settings_of(options)

    async def main(runtime: Runtime) -> int:
        mirror_maker = MirrorMaker(runtime, settings)
        consumer_config = ConsumerConfig(mirror_maker.consumer_properties, runtime)
        producer_config = ProducerConfig(mirror_maker.producer_properties, runtime)
        tell_unknown("consumer", consumer_config)
        tell_unknown("producer", producer_config)
        watches = [ClusterWatch(runtime, "source", consumer_config), ClusterWatch(runtime, "target", producer_config)]
        http = await _serve_metrics(runtime, options.http_listener, mirror_maker, watches)
        for watch in watches:
            watch.start()
        try:
            return await _run_until_a_signal(mirror_maker)
        finally:
            for watch in watches:
                await watch.stop()
            if http is not None:
                http.stop()

    return run_loop(main)


async def _run_until_a_signal(mirror_maker: MirrorMaker) -> int:
    import asyncio
    import signal

    from kmirror.runtime.ending_signals import ENDING, signals_heard

    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []
    forcing: list[asyncio.Task[None]] = []

    def on_signal(number: signal.Signals) -> None:
        received.append(number)
        if len(received) == 1:
            mirror_maker.shut_down()
        elif not forcing:
            forcing.append(loop.create_task(mirror_maker.force_end()))

    numbers = [*ENDING]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    with signals_heard(on_signal, numbers):
        is_clean = await mirror_maker.run()
        for task in forcing:
            await task
    if forcing:
        return 1
    return 128 + received[0] if is_clean and received else ABNORMAL


async def _serve_metrics(runtime: Runtime, listener: str | None, mirror_maker: MirrorMaker, watches: Sequence[ClusterWatch]) -> Any:
    if listener is None:
        return None
    from kmirror.common.health import Health, joined
    from kmirror.server.node_http import NodeHttp

    def health() -> Health:
        return joined([mirror_maker.health(), *(watch.health() for watch in watches)])

    http = NodeHttp(runtime, listener, mirror_maker.metrics, health)
    await http.start()
    logging.getLogger(__name__).info("Metrics are served on port %d", http.port)
    return http


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run, failed="Exception when starting mirror maker. ", version=VERSION)


if __name__ == "__main__":
    sys.exit(main())
