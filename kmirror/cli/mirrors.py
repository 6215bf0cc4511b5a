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

import sys
from collections.abc import Sequence

from kmirror.cli.mirrors_parser import MirrorsParser
from kmirror.cli.tool_options import KAFKA_VERSION, UsageError
from kmirror.cli.user_errors import exit_code

DESCRIPTION = "This tool helps to create cluster mirrors and add topics to them."
EXIT_CODES = """\
Exit codes: 0 done; 1 refused, failed or (--verify) different; 2 not finished in
time (the same command goes on), or (--verify) some logs could not be read."""


def build_parser() -> MirrorsParser:
    """Returns a parser with every option: its help, and with which actions and options it goes."""
    parser = MirrorsParser(DESCRIPTION, EXIT_CODES)
    parser.action("create", "Create a new cluster mirror from a\nsource cluster.", config_when="creating a mirror")
    parser.action("alter", "Alter the configuration of an existing\ncluster mirror.", config_when="altering a mirror")
    parser.action("add", "Add topic(s) to an existing cluster\nmirror (supports regex).", topic_when="adding topic(s) to a mirror")
    parser.action(
        "remove", "Remove topic(s) from an existing\ncluster mirror (supports regex).", topic_when="removing topic(s) from a mirror"
    )
    parser.action("delete", "Delete a cluster mirror.")
    parser.action("pause", "Pause mirroring for topic(s) matching\nthe pattern (supports regex).", topic_when="pausing mirror topic(s)")
    parser.action(
        "resume",
        "Resume mirroring for previously paused\ntopic(s) matching the pattern\n(supports regex).",
        topic_when="resuming mirror topic(s)",
    )
    parser.action("list", "List all cluster mirrors.", mirror=False)
    parser.action("describe", "Describe a cluster mirror including\npartition lag and state.", mirror=False)
    parser.action(
        "reverse",
        "Fail over and mirror the other way\nround: from A to B becomes from B to\nA. If it is interrupted, the same\ncommand goes on.",
    )
    parser.action("verify", "Compare mirrored logs with their source,\nbatch by batch, while both clusters run.", mirror=False)
    parser.action("watch", "Show states and lags repeatedly, until\nCtrl-C.", mirror=False)
    parser.action(
        "from-mm2",
        "Print the mirrors that replace a\nMirrorMaker 2 configuration, and its\nsettings that have no counterpart. Needs\nno server.",
        file="mm2.properties",
        server=False,
        mirror=False,
    )

    parser.value("bootstrap-server", "server to connect to", "REQUIRED: The destination Kafka server\nto connect to.")
    parser.file("command-config", "command config property file", "Property file containing configs to be\npassed to Admin Client.")
    parser.value("mirror", "mirror", "The name of the cluster mirror.")
    parser.file("mirror-config", "mirror config property file", "Property file containing source\ncluster configs for mirroring.")

    parser.flag(
        "accept-truncation",
        "With --add: drop records that the source\nhas lost but this cluster still has\n"
        "(--dry-run lists them). Waits until the\ntopics are MIRRORING.",
        only_with=("add",),
    )
    parser.flag(
        "dry-run",
        "With --remove, --add, --delete, --alter\nor --reverse: print which records\nwould be dropped, and change nothing.",
        only_with=("add", "remove", "delete", "alter", "reverse"),
    )
    parser.flag(
        "wait",
        "Wait until the partitions are in their\nnew state. With --remove, first wait\n"
        "until the source is idle and everything\nbelow its last stable offset is\nmirrored.",
        only_with=("add", "remove", "pause", "resume"),
        not_with=("dry-run",),
    )
    parser.flag(
        "verbose",
        "With --describe or --watch: also ask the\nsource, for its last stable offset and\nthe lag in time.",
        only_with=("describe", "watch"),
    )
    parser.number(
        "interval", "Long: ms", "With --watch: time between two updates\n(default: 1000).", between=(1, 1 << 31), only_with=("watch",)
    )
    parser.flag(
        "force",
        "With --reverse: do not wait for the\nsource, and let the old source drop\nwhat was not mirrored. With --add: go on\n"
        "even if clusters behind the source\ncannot be asked whether the mirrors form\na ring, and even if the source has\n"
        "another topic of the same name.",
        only_with=("add", "reverse"),
    )
    parser.file(
        "reverse-config",
        "mirror config property file",
        "With --reverse: configs of the mirror at\nthe old source: bootstrap.servers by\n"
        "which it can reach this cluster, and\nsecurity settings (default: the servers\n"
        "of --bootstrap-server; if they are\nloopback addresses and the brokers'\n"
        "advertised listeners are not, those).",
        only_with=("reverse",),
    )
    parser.number(
        "from",
        "Long: offset",
        "With --verify: the offset to begin at; a\nnegative one counts from the end.",
        between=(-(1 << 62), 1 << 62),
        only_with=("verify",),
    )
    parser.number(
        "sample",
        "Integer: n",
        "With --verify: compare only n places of\neach partition, evenly spread.",
        between=(1, 1 << 31),
        only_with=("verify",),
    )
    parser.file("output", "folder", "With --from-mm2: write the files to this\nfolder.", only_with=("from-mm2",))
    # --topic: `--delete --topic t` would look as if it deleted only t; an unset shell variable ("")
    # would mean all topics
    parser.value(
        "topic",
        "topic",
        "Topic name or regex pattern to match\ntopics (e.g., 'my-topic' or 'test-.\n*').",
        only_with=("add", "remove", "pause", "resume", "describe", "reverse", "verify", "watch"),
        may_be_empty=False,
    )
    parser.number(
        "timeout",
        "Long: ms",
        "How long --wait, --accept-truncation and\n--reverse wait in all (default: 300000).",
        between=(0, 1 << 62),
        only_with=("wait", "accept-truncation", "reverse"),
    )
    parser.number(
        "replication-factor",
        "Short: replication-factor",
        "The replication factor to use for the\nmirror topic. If not specified, uses\nthe destination cluster's default.",
        between=(1, 32_767),
        only_with=("add", "reverse"),
        refusal="takes a number from 1 to 32767 and can be used with --add and --reverse only",
    )
    parser.flag("json", "Output in JSON format.")
    parser.flag("help", "Print usage information (also -h).")
    parser.flag("version", "Display Kafka version.")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return exit_code(lambda: _run(given), failed="kafka-mirrors: ")


def _run(given: list[str]) -> int:
    parser = build_parser()
    if not given or "--help" in given or "-h" in given:
        sys.stdout.write(parser.format_help())
        return 0 if given else 1
    try:
        options = parser.parse_args(given)
        if options.version:
            print(KAFKA_VERSION)
            return 0
        action = parser.check(options)
    except UsageError as error:
        print(f"{error}{parser.nearest(given)}", file=sys.stderr)  # the reference's line, and no help below it
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
