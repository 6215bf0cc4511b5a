"""Common options of tools with commands (`kafka-features describe`, `kafka-cluster cluster-id`).

Kafka's own tools use a port of argparse, so argparse alone gives their behaviour: usage on stderr
and exit code 1 for wrong options (not 2), `--help` on stdout and exit code 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from kmirror.cli.tool_options import CommandError
from kmirror.cli.user_errors import exit_code


class CommandParser(argparse.ArgumentParser):
    """argparse with Kafka's exit code for a wrong command line."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog.split()[0]}: error: {message}", file=sys.stderr)
        raise SystemExit(1)


def connection(parser: argparse.ArgumentParser, *, short: bool = False, required: bool = True) -> None:
    """Add `--bootstrap-server`, `--bootstrap-controller` and `--command-config`."""
    group = parser.add_mutually_exclusive_group(required=required)
    server = ["--bootstrap-server", "-b"] if short else ["--bootstrap-server"]
    controller = ["--bootstrap-controller", "-C"] if short else ["--bootstrap-controller"]
    config = ["--command-config", "-c"] if short else ["--command-config"]
    group.add_argument(*server, metavar="BOOTSTRAP_SERVER", help="the brokers to connect to, as host:port,host:port")
    group.add_argument(*controller, metavar="BOOTSTRAP_CONTROLLER", help="the controllers to connect to, instead of brokers")
    parser.add_argument(*config, metavar="COMMAND_CONFIG", help="a file with settings of the admin client, e.g. security.protocol")


def run_command_tool(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, run: Callable[[argparse.Namespace], int], *, failed: str = ""
) -> int:
    """Parse and run; returns the exit code."""

    def run_parsed() -> int:
        try:
            return run(parser.parse_args(sys.argv[1:] if arguments is None else list(arguments)))
        except SystemExit as end:
            return int(end.code or 0)
        except CommandError as error:
            print(error, file=sys.stdout if error.on_stdout else sys.stderr)
            return error.code

    return exit_code(run_parsed, failed=failed)
