"""`kmirror`: commands to run a node, to check and replay its logs, to demonstrate and to simulate.

    kmirror random-uuid                               a new cluster id
    kmirror format --cluster-id ID --config FILE      make the log dirs of a node
    kmirror start --config FILE                       run a node until SIGTERM or SIGINT
    kmirror verify-logs LOGS                          check what brokers wrote beside the segments
    kmirror replay LOGS --to SERVERS                  produce recorded logs to a cluster again
    kmirror spark-package                             an archive for Spark workers that do not have kmirror
    kmirror metrics --url URL | --bootstrap-server S  the metrics of running nodes
    kmirror translate-offsets --records N --offset O  where MirrorMaker 2 would let a group go on
    kmirror demo                                      two clusters, a mirror, failover and failback, and the proof
    kmirror sim --seed N | --seeds A..B               disasters in the deterministic simulator

Only the chosen command's module is loaded. Errors are one line on stderr and exit code 1 (2 for
wrong arguments).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from kmirror import __version__
from kmirror.cli.user_errors import exit_code

COMMANDS = {
    "random-uuid": ("kmirror.cli.storage", "print a new random cluster id"),
    "format": ("kmirror.cli.storage", "format the log directories of a node"),
    "start": ("kmirror.cli.start", "run one node (broker, controller or both) from a properties file"),
    "verify-logs": ("kmirror.cli.verify_logs", "check that snapshots, indexes, leader epochs and checkpoints agree with the segments"),
    "replay": ("kmirror.cli.replay", "produce recorded logs to a cluster, at their original speed or at another"),
    "spark-package": ("kmirror.cli.spark_package", "write an archive for Spark workers on which kmirror is not installed"),
    "metrics": ("kmirror.cli.metrics", "print the metrics of running nodes"),
    "translate-offsets": ("kmirror.cli.translate_offsets", "where MirrorMaker 2 would let a group go on, and what it would read again"),
    "demo": ("kmirror.cli.demo", "mirror, fail over and fail back two clusters, and prove that the logs are equal"),
    "sim": ("kmirror.cli.sim", "replay a disaster in the deterministic simulator"),
}


def usage() -> str:
    width = max(len(name) for name in COMMANDS) + 2
    lines = [f"  {name:<{width}}{text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: kmirror [--version] COMMAND [options]",
            "",
            "commands:",
            *lines,
            "",
            "kmirror COMMAND --help shows the options of a command.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return exit_code(lambda: _run(given), failed=f"kmirror {given[0]}: " if given else "")


def _run(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        print(usage())
        return 0 if given else 2
    if given[0] == "--version":
        print(f"kmirror {__version__}")
        return 0
    command = given[0]
    if command not in COMMANDS:
        print(f"kmirror: there is no command {command!r}; the commands are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    module = importlib.import_module(COMMANDS[command][0])
    parser = argparse.ArgumentParser(prog=f"kmirror {command}", description=COMMANDS[command][1])
    module.add_arguments(parser, command)
    options = parser.parse_args(given[1:])
    options.given = given
    code: int = module.run(command, options)
    return code


if __name__ == "__main__":
    sys.exit(main())
