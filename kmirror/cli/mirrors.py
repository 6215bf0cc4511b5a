"""`kafka-mirrors`: create cluster mirrors, add topics to them, fail over and back (KIP-1279).

The options, messages and tables are the KIP's. Beyond them: `--json` on every action; `--dry-run`
for irreversible actions, which prints exactly which records would be dropped and changes nothing;
`--wait`, `--reverse`, `--verify`, `--watch`, `--from-mm2`, `--verbose`. Modules for the network are
loaded only when an action runs.

Exit codes: 0 done; 1 refused, failed, or (`--verify`) different; 2 not finished: the time of
`--wait` or `--reverse` is up (the same command continues where this one ended), or `--verify` could
not read everything. The reason is one line on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from kmirror.cli.tool_options import KAFKA_VERSION
from kmirror.cli.user_errors import exit_code

KIP_ACTIONS = ("create", "alter", "add", "remove", "delete", "pause", "resume", "list", "describe")
ACTIONS = (*KIP_ACTIONS, "reverse", "verify", "watch", "from-mm2")
TOPIC_ACTIONS = {
    "add": "adding topic(s) to a mirror",
    "remove": "removing topic(s) from a mirror",
    "pause": "pausing mirror topic(s)",
    "resume": "resuming mirror topic(s)",
}
CONFIG_ACTIONS = {"create": "creating a mirror", "alter": "altering a mirror"}
WITHOUT_MIRROR = ("list", "describe", "verify", "watch", "from-mm2")
ONLY_WITH = {
    "accept_truncation": ("add",),
    "dry_run": ("add", "remove", "delete", "alter", "reverse"),
    "wait": ("add", "remove", "pause", "resume"),
    "verbose": ("describe", "watch"),
    "interval": ("watch",),
    "force": ("add", "reverse"),
    "reverse_config": ("reverse",),
    "from": ("verify",),
    "sample": ("verify",),
    "output": ("from-mm2",),
    "topic": ("add", "remove", "pause", "resume", "describe", "reverse", "verify", "watch"),
}
"""Options that only some actions take; `--delete --topic t` would look as if it deleted only t."""
NUMBERS = {"timeout": (0, 1 << 62), "interval": (1, 1 << 31), "sample": (1, 1 << 31), "from": (-(1 << 62), 1 << 62)}

HELP = """\
This tool helps to create cluster mirrors and add topics to them.
Option                                  Description
------                                  -----------
--accept-truncation                     With --add: have what the source has,
                                          also where it lost records that are
                                          still here (see --dry-run). Waits
                                          until the topics are MIRRORING.
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
--dry-run                               With --remove, --add, --delete, --alter
                                          or --reverse: print which records
                                          would be dropped, and change nothing.
--force                                 With --reverse: do not wait for the
                                          source, and let the old source drop
                                          what was not mirrored. With --add:
                                          also when clusters behind the source
                                          cannot be asked for a ring, and when
                                          the source has another topic of the
                                          name.
--from <Long: offset>                   With --verify: the offset to begin at; a
                                          negative one counts from the end.
--from-mm2 <String: mm2.properties>     Print the mirrors that do what a
                                          MirrorMaker 2 configuration does, and
                                          what has no counterpart. Needs no
                                          server.
--help                                  Print usage information.
--interval <Long: ms>                   With --watch: time between two looks
                                          (default: 1000).
--json                                  Output in JSON format.
--list                                  List all cluster mirrors.
--mirror <String: mirror>               The name of the cluster mirror.
--mirror-config <String: mirror config  Property file containing source
  property file>                          cluster configs for mirroring.
--output <String: folder>               With --from-mm2: write the files to this
                                          folder.
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
--reverse                               Fail over and mirror the other way
                                          round: from A to B becomes from B to
                                          A. Stopped in between, the same
                                          command goes on.
--reverse-config <String: mirror        With --reverse: source cluster configs
  config property file>                   for the mirror at the old source: the
                                          bootstrap.servers that it can reach
                                          this cluster by, and security settings
                                          (default: --bootstrap-server as it
                                          stands; the brokers' advertised
                                          listeners where that is loopback and
                                          they are not).
--sample <Integer: n>                   With --verify: look at n places of each
                                          partition only, evenly spread.
--timeout <Long: ms>                    How long --wait and --reverse wait in
                                          all (default: 300000).
--topic <String: topic>                 Topic name or regex pattern to match
                                          topics (e.g., 'my-topic' or 'test-.
                                          *').
--verbose                               With --describe or --watch: also ask the
                                          source, for its last stable offset and
                                          the lag in time.
--verify                                Compare mirrored logs with their source,
                                          batch by batch, while both run.
--version                               Display Kafka version.
--wait                                  With --remove: graceful, first wait until
                                          all that the source has decided is
                                          mirrored; with all: wait until the
                                          partitions are in their new state.
--watch                                 Show states and lags again and again,
                                          until Ctrl-C.

Exit codes: 0 done; 1 refused, failed or (--verify) different; 2 not finished in
time, then the same command goes on, or (--verify) not all could be read."""


class UsageError(Exception):
    """The arguments are wrong; the text says which."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class _Once(argparse.Action):
    """Refuses a repeated option: `--topic a --topic b` would silently act on b only."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"Found multiple arguments for option {self.dest.replace('_', '-')}, but you asked for only one")
        setattr(namespace, self.dest, values)


def build_parser() -> argparse.ArgumentParser:
    """Returns a parser with every option; the help is the KIP's text, not argparse's."""
    parser = _Parser(prog="kafka-mirrors", add_help=False, allow_abbrev=False)
    for flag in (
        *KIP_ACTIONS,
        "reverse",
        "verify",
        "watch",
        "accept-truncation",
        "dry-run",
        "force",
        "help",
        "json",
        "verbose",
        "version",
        "wait",
    ):
        parser.add_argument(f"--{flag}", action="store_true")
    for text in ("bootstrap-server", "mirror", "topic"):
        parser.add_argument(f"--{text}", action=_Once)
    for path in ("command-config", "from-mm2", "mirror-config", "output", "reverse-config"):
        parser.add_argument(f"--{path}", type=Path, action=_Once)
    for number in ("from", "interval", "replication-factor", "sample", "timeout"):
        parser.add_argument(f"--{number}", type=int, action=_Once)
    return parser


def check_options(options: argparse.Namespace) -> str:
    """Returns the one action that was asked for; UsageError with Kafka's messages otherwise."""
    chosen = [action for action in ACTIONS if getattr(options, _dest(action))]
    if len(chosen) != 1:
        raise UsageError(
            "Command must include exactly one action: --create, --alter, --add, --remove, --delete, --pause, --resume, --list, --describe, "
            "--reverse, --verify, --watch, or --from-mm2"
        )
    action = chosen[0]
    if not options.bootstrap_server and action != "from-mm2":
        raise UsageError("--bootstrap-server must be specified")
    if action not in WITHOUT_MIRROR and not options.mirror:
        raise UsageError("--mirror must be specified")
    if action in CONFIG_ACTIONS and options.mirror_config is None:
        raise UsageError(f"--mirror-config must be specified when {CONFIG_ACTIONS[action]}")
    if action in TOPIC_ACTIONS and not options.topic:
        raise UsageError(f"--topic must be specified when {TOPIC_ACTIONS[action]}")
    _check_extras(options, action)
    return action


def _check_extras(options: argparse.Namespace, action: str) -> None:
    for name, actions in ONLY_WITH.items():
        if getattr(options, name) not in (None, False) and action not in actions:
            *others, last = [f"--{other}" for other in actions]
            raise UsageError(f"--{name.replace('_', '-')} can be used with {', '.join(others)}{' and ' if others else ''}{last} only")
    if options.topic == "":
        raise UsageError("--topic must not be empty")  # an unset shell variable; it would mean all topics
    if options.timeout is not None and not (options.wait or options.accept_truncation or action == "reverse"):
        raise UsageError("--timeout can be used with --wait, --accept-truncation and --reverse only")
    if options.wait and options.dry_run:
        raise UsageError("--wait can not be used with --dry-run")
    for name, (lowest, highest) in NUMBERS.items():
        value = getattr(options, name)
        if value is not None and not lowest <= value <= highest:
            raise UsageError(f"--{name} takes a number from {lowest} on")
    if options.replication_factor is not None and not (action in ("add", "reverse") and 1 <= options.replication_factor <= 32_767):
        raise UsageError("--replication-factor takes a number from 1 to 32767 and can be used with --add and --reverse only")


def _dest(action: str) -> str:
    return action.replace("-", "_")


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return exit_code(lambda: _run(given), failed="kafka-mirrors: ")


def _run(given: list[str]) -> int:
    if not given or "--help" in given:
        print(HELP)
        return 0 if given else 1
    try:
        options = build_parser().parse_args(given)
        if options.version:
            print(KAFKA_VERSION)
            return 0
        action = check_options(options)
    except UsageError as error:
        print(f"{error}\n\n{HELP}", file=sys.stderr)
        return 1
    if action == "from-mm2":
        from kmirror.cli.mirrors_from_mm2 import run_from_mm2

        return run_from_mm2(options)
    if action == "verify":
        from kmirror.cli.mirrors_verify import run_verify

        return run_verify(options)
    from kmirror.cli.mirrors_actions import run_action

    return run_action(action, options)


if __name__ == "__main__":
    sys.exit(main())
