"""`kmirror start --config FILE [--override property=value]`: one node until SIGTERM or SIGINT (Kafka's kafka-server-start).

SIGTERM and the first SIGINT shut the node down in good order; a second signal drops it at once. The log goes to stderr,
one line an event, in the form of Kafka's console appender; `[KafkaServer id=N] Kafka Server started` says that it serves.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from kmirror.cli.properties import read_properties
from kmirror.common.errors import ConfigError
from kmirror.node_main import LOG_DATE_FORMAT, LOG_FORMAT, serve
from kmirror.server.kafka_config import KafkaConfig


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("-c", "--config", type=Path, required=True, help="the node's properties file, with Kafka's property names")
    parser.add_argument("--override", action="append", default=[], metavar="PROPERTY=VALUE", help="a property that wins over the file's")
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"], help="the least severe level to log")


def run(command: str, options: argparse.Namespace) -> int:
    """The exit code: 0 after a controlled shutdown, 1 after an error or a forced end."""
    logging.basicConfig(level=options.log_level, format=LOG_FORMAT, datefmt=LOG_DATE_FORMAT, stream=sys.stderr)
    properties = read_properties(options.config)
    for override in options.override:
        name, separator, value = override.partition("=")
        if not separator:
            raise ConfigError(f"--override {override!r} is not of the form property=value")
        properties[name.strip()] = value.strip()
    config = KafkaConfig.from_props(properties)
    config.log_unknown()
    return asyncio.run(serve(config))
