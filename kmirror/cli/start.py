"""`kmirror start --config FILE [--override property=value]`: runs one node (kafka-server-start).

SIGTERM and the first SIGINT shut the node down cleanly; a second signal drops it at once, unless it
is a copy of the first (`runtime.ending_signals`). The log goes to stderr, one line per event, in the
form of Kafka's console appender. The line
`[KafkaServer id=N] Kafka Server started` says that it serves. The BROKER_LOGGER config resource
changes the levels of single loggers at run time; `kafka.request.logger` is the request log.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path

from kmirror.cli.properties import read_properties
from kmirror.common.errors import ConfigError
from kmirror.network.config_providers import resolve_own
from kmirror.node_main import LOG_DATE_FORMAT, LOG_FORMAT, serve
from kmirror.runtime.os_files import OsFileSystem
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.request_log import REQUEST_LOGGER


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("-c", "--config", type=Path, required=True, help="the node's properties file, with Kafka's property names")
    parser.add_argument("--override", action="append", default=[], metavar="PROPERTY=VALUE", help="a property that overrides the file's")
    parser.add_argument(
        "--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"], help="the lowest level that is logged"
    )
    parser.add_argument("--request-log", type=Path, metavar="FILE", help="append one line of JSON for every request to this file")


def run(command: str, options: argparse.Namespace) -> int:
    """Returns 0 after a controlled shutdown, 1 after an error or a forced end."""
    logging.basicConfig(level=options.log_level, format=LOG_FORMAT, datefmt=LOG_DATE_FORMAT, stream=sys.stderr)
    properties = read_properties(options.config)
    for override in options.override:
        name, separator, value = override.partition("=")
        if not separator:
            raise ConfigError(f"--override {override!r} is not of the form property=value")
        properties[name.strip()] = value.strip()
    resolved = resolve_own(properties, OsFileSystem(), os.environ)
    config = KafkaConfig.from_props(resolved)
    config.log_unused()
    if options.request_log is not None:
        log_requests_to(options.request_log)
    with resolved.telling_as_written():
        return asyncio.run(serve(config))


def log_requests_to(path: Path) -> None:
    """Write the request log to this file only; OSError if it cannot be opened."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter(LOG_FORMAT, LOG_DATE_FORMAT))
    REQUEST_LOGGER.addHandler(handler)
    REQUEST_LOGGER.setLevel(logging.DEBUG)
    REQUEST_LOGGER.propagate = False
