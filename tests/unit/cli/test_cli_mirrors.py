"""`kafka-mirrors`: options, messages, tables (KIP, A13, S17, S18) without a network."""

from __future__ import annotations

import json

import pytest

from kmirror.admin.results import MirrorDescription, MirrorListing, MirrorPartitionDescription
from kmirror.cli import mirrors_actions
from kmirror.cli.mirrors import build_parser, main
from kmirror.cli.mirrors_dry_run import DroppedRecords
from kmirror.cli.mirrors_dry_run_text import loss_json, loss_text
from kmirror.cli.mirrors_tables import describe_json, list_table, topic_list
from kmirror.cli.mirrors_topics import matching_at_source
from kmirror.cli.tool_options import UsageError
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.logs.log_alignment import AlignmentHeader


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--bootstrap-server a:1", "Command must include exactly one action"),
        ("--bootstrap-server a:1 --list --describe", "Command must include exactly one action"),
        ("--list", "--bootstrap-server must be specified"),
        ("--bootstrap-server a:1 --delete", "--mirror must be specified"),
        ("--bootstrap-server a:1 --create --mirror m", "--mirror-config must be specified when creating a mirror"),
        ("--bootstrap-server a:1 --alter --mirror m", "--mirror-config must be specified when altering a mirror"),
        ("--bootstrap-server a:1 --add --mirror m", "--topic must be specified when adding topic(s) to a mirror"),
        ("--bootstrap-server a:1 --remove --mirror m", "--topic must be specified when removing topic(s) from a mirror"),
        ("--bootstrap-server a:1 --pause --mirror m", "--topic must be specified when pausing mirror topic(s)"),
        ("--bootstrap-server a:1 --resume --mirror m", "--topic must be specified when resuming mirror topic(s)"),
        (
            "--bootstrap-server a:1 --pause --mirror m --topic t --dry-run",
            "--dry-run can be used with --add, --remove, --delete, --alter and --reverse only",
        ),
        ("--bootstrap-server a:1 --delete --mirror m --wait", "--wait can be used with --add, --remove, --pause and --resume only"),
        ("--bootstrap-server a:1 --add --mirror m --topic t --wait --dry-run", "--wait can not be used with --dry-run"),
        ("--bootstrap-server a:1 --list --timeout 5", "--timeout can be used with --wait, --accept-truncation and --reverse only"),
        ("--bootstrap-server a:1 --list --interval 5", "--interval can be used with --watch only"),
        ("--bootstrap-server a:1 --watch --interval 0", "--interval takes a number from 1 on"),
        ("--bootstrap-server a:1 --delete --mirror m --from 0", "--from can be used with --verify only"),
        ("--bootstrap-server a:1 --reverse", "--mirror must be specified"),
        ("--bootstrap-server a:1 --list --replication-factor 2", "--replication-factor"),
        (
            "--bootstrap-server a:1 --delete --mirror m --topic t",
            "--topic can be used with --add, --remove, --pause, --resume, --describe,",
        ),
        ("--bootstrap-server a:1 --reverse --mirror m --topic=", "--topic must not be empty"),
        ("--bootstrap-server a:1 --list --nonsense", "unrecognized arguments: --nonsense"),
        (
            "--bootstrap-server a:1 --remove --mirror m --topic a --topic b",
            "Found multiple arguments for option topic, but you asked for only one",
        ),
        (
            "--bootstrap-server a:1 --alter --mirror m --mirror-config=a --mirror-config=b",
            "Found multiple arguments for option mirror-config, but you asked for only one",
        ),
    ],
)
def test_wrong_arguments_say_what_is_wrong(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 1
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("--watch", 0, ""),
        ("--remove --mirror m --topic t --wait", 130, "kafka-mirrors: interrupted; the same command goes on where this one ended\n"),
        ("--reverse --mirror m", 130, "kafka-mirrors: interrupted; the same command goes on where this one ended\n"),
        ("--reverse --mirror m --dry-run", 130, ""),
        ("--remove --mirror m --topic t", 130, ""),
    ],
)
def test_ctrl_c_did_not_say_what_becomes_of_what_was_begun(
    arguments: str, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(main: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(mirrors_actions, "run", interrupted)
    assert main(["--bootstrap-server", "a:1", *arguments.split()]) == code
    assert capsys.readouterr() == ("", text)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--list --tpic x", "unrecognized arguments: --tpic x; did you mean --topic?"),
        ("--lst", "unrecognized arguments: --lst; did you mean --list?"),
        ("--add --mirror m --topic t --mirror_config f", "; did you mean --mirror-config?"),
        ("-list", "; did you mean --list?"),
        ("--list --qqqq", "unrecognized arguments: --qqqq"),
        ("--pause --mirror m --topic=", "--topic must be specified when pausing mirror topic(s)"),
    ],
)
def test_what_was_wrong_stood_above_a_screen_of_help(arguments: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap-server", "a:1", *arguments.split()]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert line in said


def test_h_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    assert capsys.readouterr().out.startswith("This tool helps")


def test_a_pattern_took_the_topics_of_the_platform(capsys: pytest.CaptureFixture[str]) -> None:
    topics = ["a", "__canary", "__strimzi_store", "b__c"]
    assert matching_at_source(".*", topics) == ["a", "b__c"]
    said = "Warning: left out: __canary, __strimzi_store: a pattern that begins with __ adds such topics\n"
    assert capsys.readouterr().err == said
    assert matching_at_source("__can.*", topics) == ["__canary"] and not capsys.readouterr().err
    assert matching_at_source("__canary", topics) == ["__canary"]
    with pytest.raises(KmirrorError, match="No topics matching"):
        matching_at_source("(__can.*|x)", topics)


def test_every_option_is_in_the_help() -> None:
    parser = build_parser()
    shown = parser.format_help()
    options = [option for action in parser._actions for option in action.option_strings]
    assert [option for option in options if f"{option} " not in shown and f"{option}\n" not in shown] == []
    assert all(f"--{action}" in shown for action in parser.actions)


def test_help_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("This tool helps to create cluster mirrors and add topics to them.")


def test_one_action_is_found() -> None:
    parser = build_parser()
    assert parser.check(parser.parse_args(["--bootstrap-server", "a:1", "--add", "--mirror", "m", "--topic", "t.*"])) == "add"
    with pytest.raises(UsageError):
        parser.check(parser.parse_args([]))


def described() -> list[MirrorDescription]:
    def rows(*values: tuple[str, int, int, int, int]) -> list[MirrorPartitionDescription]:
        return [MirrorPartitionDescription(*value, "MIRRORING", -1) for value in values]

    return [
        MirrorDescription("new-mirror", rows(("baz", 1, 859, 859, 0), ("baz", 0, 189, 189, 0))),
        MirrorDescription(
            "my-mirror", rows(("foo", 1, 94, 84, 10), ("foo", 0, 69, 66, 3), ("foo", 2, 94, 90, 4), ("bar", 0, -1, 2324, -1))
        ),
    ]


def test_describe_json_has_the_references_names() -> None:
    assert json.loads(describe_json(described()))[1] == {
        "mirror": "my-mirror", "topic": "foo", "partition": 0, "sourceOffset": 69, "destinationOffset": 66, "lag": 3,
        "state": "MIRRORING", "lastMirrorEpoch": -1, "lastKnownLag": -1, "lagAgeMs": -1, "reason": None,
    }  # fmt: skip


def test_long_names_lose_their_beginning() -> None:
    """Only on a terminal that is too narrow for them; a script got cut names before."""
    listed = [MirrorListing("a" * 40 + "b" * 20, "x:1", "", 0)]
    assert list_table(listed).splitlines()[1].startswith("a" * 40 + "b" * 20 + " 0 ")
    narrow = list_table(listed, 80).splitlines()
    assert narrow[1].startswith("..." + "a" * 22 + "b" * 20 + " 0 ") and max(map(len, narrow)) == 80
    assert list_table(listed, 250) == list_table(listed)


def test_topic_list_is_sorted() -> None:
    assert topic_list({"b", "a"}) == "[a, b]"


def test_dry_run_output() -> None:
    batch = AlignmentHeader(5, 8, 2, 4002, True, False, None, 4, 200)
    loss = DroppedRecords(TopicPartition("t", 0), "open", 5, 9, [batch])
    assert loss_text([loss, DroppedRecords(TopicPartition("t", 1), "same", 7, 7)]).splitlines() == [
        "t-0: 4 record(s) at offsets 5 to 8 would be dropped (open)",
        "  offsets 5 to 8, epoch 2, 4 record(s), producer 4002",
        "t-1: nothing would be dropped (log end 7; same)",
    ]
    assert [row["droppedRecords"] for row in json.loads(loss_json([loss]))] == [4]
