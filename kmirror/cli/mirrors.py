"""`kafka-mirrors`: create cluster mirrors, add topics to them, fail over and back (KIP-1279, command line).

The KIP's options, messages and tables; beyond them `--json` on `--list`, `--describe` and dry runs, and `--dry-run` on
`--remove` and `--add`, which prints exactly which records the truncation of a failover or failback would drop and changes
nothing. Exit code 0, or 1 with one line on stderr. What needs the network is loaded only when an action runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ACTIONS = ("create", "alter", "add", "remove", "delete", "pause", "resume", "list", "describe")
TOPIC_ACTIONS = {
    "add": "adding topic(s) to a mirror",
    "remove": "removing topic(s) from a mirror",
    "pause": "pausing mirror topic(s)",
    "resume": "resuming mirror topic(s)",
}
CONFIG_ACTIONS = {"create": "creating a mirror", "alter": "altering a mirror"}

HELP = """\
This tool helps to create cluster mirrors and add topics to them.
Option                                  Description
------                                  -----------
--add                                   Add topic(s) to an existing cluster
                                          mirror (supports regex).
--alter                                 Alter the configuration of an existing
                                          cluster mirror.
--bootstrap-server <String: server to   REQUIRED: The destination Kafka server
  connect to>                             to connect to.
--command-config <String: command       Property file containing configs to be
  config property file>                   passed to Admin Client.
--create                                Create a new cluster mirror from a
                                          source cluster.
--delete                                Delete a cluster mirror.
--describe                              Describe a cluster mirror including
                                          partition lag and state.
--dry-run                               With --remove or --add: print which
                                          records truncation would drop, and
                                          change nothing.
--help                                  Print usage information.
--json                                  Output in JSON format (with --list,
                                          --describe or --dry-run).
--list                                  List all cluster mirrors.
--mirror <String: mirror>               The name of the cluster mirror.
--mirror-config <String: mirror config  Property file containing source
  property file>                          cluster configs for mirroring.
--pause                                 Pause mirroring for topic(s) matching
                                          the pattern (supports regex).
--remove                                Remove topic(s) from an existing
                                          cluster mirror (supports regex).
--replication-factor <Short:            The replication factor to use for the
  replication-factor>                     mirror topic. If not specified, uses
                                          the destination cluster's default.
--resume                                Resume mirroring for previously paused
                                          topic(s) matching the pattern
                                          (supports regex).
--topic <String: topic>                 Topic name or regex pattern to match
                                          topics (e.g., 'my-topic' or 'test-.
                                          *').
--version                               Display Kafka version."""


class UsageError(Exception):
    """Wrong arguments; the text says which."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def build_parser() -> argparse.ArgumentParser:
    """Every option; help is the KIP's text, not argparse's."""
    parser = _Parser(prog="kafka-mirrors", add_help=False, allow_abbrev=False)
    for action in (*ACTIONS, "dry-run", "help", "json", "version"):
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--bootstrap-server")
    parser.add_argument("--command-config", type=Path)
    parser.add_argument("--mirror")
    parser.add_argument("--mirror-config", type=Path)
    parser.add_argument("--replication-factor", type=int)
    parser.add_argument("--topic")
    return parser


def check_options(options: argparse.Namespace) -> str:
    """The one action that is asked for; UsageError with Kafka's messages otherwise."""
    chosen = [action for action in ACTIONS if getattr(options, action)]
    if len(chosen) != 1:
        raise UsageError(
            "Command must include exactly one action: --create, --alter, --add, --remove, --delete, --pause, --resume, --list, or --describe"
        )
    action = chosen[0]
    if not options.bootstrap_server:
        raise UsageError("--bootstrap-server must be specified")
    if action not in ("list", "describe") and not options.mirror:
        raise UsageError("--mirror must be specified")
    if action in CONFIG_ACTIONS and options.mirror_config is None:
        raise UsageError(f"--mirror-config must be specified when {CONFIG_ACTIONS[action]}")
    if action in TOPIC_ACTIONS and not options.topic:
        raise UsageError(f"--topic must be specified when {TOPIC_ACTIONS[action]}")
    if options.dry_run and action not in ("add", "remove"):
        raise UsageError("--dry-run can be used with --add and --remove only")
    if options.json and not (options.dry_run or action in ("list", "describe")):
        raise UsageError("--json can be used with --list, --describe and --dry-run only")
    if options.replication_factor is not None and not (action == "add" and 1 <= options.replication_factor <= 32_767):
        raise UsageError("--replication-factor takes a number from 1 to 32767 and can be used with --add only")
    return action


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or "--help" in given:
        print(HELP)
        return 0 if given else 1
    try:
        options = build_parser().parse_args(given)
        if options.version:
            from kmirror import __version__

            print(__version__)
            return 0
        action = check_options(options)
    except UsageError as error:
        print(f"{error}\n\n{HELP}", file=sys.stderr)
        return 1
    from kmirror.cli.mirrors_actions import run_action

    return run_action(action, options)


if __name__ == "__main__":
    sys.exit(main())
