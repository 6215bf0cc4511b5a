"""The option parser of the `kafka-*` tools: Kafka's rules, Kafka's words, Kafka's exit codes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import pytest

from kmirror.cli import (
    acls,
    configs,
    console_consumer,
    console_producer,
    consumer_groups,
    leader_election,
    reassign_partitions,
    share_groups,
    topics,
)
from kmirror.cli.tool_options import CommandError, ToolParser, UsageError, key_values, refuse, require, run_tool
from kmirror.common.errors import ApiException, Errors, KmirrorError


def parser() -> ToolParser:
    made = ToolParser("kafka-test", "What it is for.")
    made.flag("list", "List the things.")
    made.value("topic", "topic", "The topic.", many=True)
    made.value("time", "time", "The time.", default="latest")
    made.value("count", "n", "How many.", kind="Integer")
    made.optional_value("state", "", "The state.")
    return made


def test_values_may_follow_or_be_attached_and_may_look_like_options() -> None:
    options = parser().parse(["--time", "-1", "--topic=a=b", "--topic", "--list", "--count", "7"])
    assert (options.time, options.topic, options.count, options.list) == ("-1", ["a=b", "--list"], 7, False)
    assert options.given == {"time", "topic", "count"} and options.order == ["time", "topic", "topic", "count"]


def test_an_optional_value_takes_no_word_that_looks_like_an_option() -> None:
    options = parser().parse(["--state", "--list"])
    assert options.state == "" and options.list
    assert parser().parse(["--state", "Empty"]).state == "Empty"
    assert parser().parse([]).state is None


def test_words_that_belong_to_no_option_are_passed_over() -> None:
    assert parser().parse(["stray", "--list", "-"]).list


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--bogus"], "bogus is not a recognized option"),
        (["-x"], "x is not a recognized option"),
        (["--lis"], "lis is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
    ],
)
def test_usage_errors_have_kafkas_words(arguments: list[str], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parser().parse(arguments)
    assert str(caught.value) == text and not caught.value.show_help


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--time", "1", "--time", "2"], "Found multiple arguments for option time, but you asked for only one"),
        (["--count", "x"], "Cannot parse argument 'x' of option count"),
        (["--count", "2147483648"], "Cannot parse argument '2147483648' of option count"),
    ],
)
def test_values_that_cannot_be_are_named(arguments: list[str], text: str) -> None:
    with pytest.raises(KmirrorError, match="^" + text.replace("'", ".") + "$"):
        parser().parse(arguments)


def test_require_and_refuse_name_options_as_kafka_does() -> None:
    options = parser().parse(["--list", "--count", "1"])
    with pytest.raises(UsageError, match=r'^Missing required argument "\[topic\]"$'):
        require(options, "list", "topic")
    with pytest.raises(UsageError, match=r"""^Option "\[list\]" can't be used with option "\[count\]"$"""):
        refuse(options, "list", ["time", "count"])


def test_key_values_keep_further_equals_signs() -> None:
    assert key_values(["a=b=c", "d", "e="]) == {"a": "b=c", "d": "", "e": ""}
    with pytest.raises(CommandError):
        key_values(["a"], accept_missing_value=False)


def outcome(capsys: pytest.CaptureFixture[str], error: Exception | int, **settings: object) -> tuple[int, str, str]:
    def work(options: argparse.Namespace) -> int:
        if isinstance(error, Exception):
            raise error
        return error

    code = run_tool(parser(), ["--list"], lambda options: None, work, **settings)  # type: ignore[arg-type]
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_what_a_failure_prints_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    refused = ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    text = refused.message
    assert outcome(capsys, 3) == (3, "", "")
    assert outcome(capsys, refused) == (1, "", f"{text}\n")
    assert outcome(capsys, refused, failed="Error: ", failed_on_stdout=True, failure_code=0) == (0, f"Error: {text}\n", "")
    assert outcome(capsys, CommandError("line", code=4, on_stdout=True)) == (4, "line\n", "")
    assert outcome(capsys, FileNotFoundError(2, "No such file or directory", "x")) == (1, "", "x: No such file or directory\n")
    code, out, err = outcome(capsys, UsageError("wrong"))
    assert (code, out) == (1, "") and err.startswith("wrong\nOption  ")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["mirrors --help", "topics --version", "kmirror --version"])
def test_a_reader_that_goes_away_got_a_traceback(command: str, unbuffered: str) -> None:
    module, argument = command.split()
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [sys.executable, "-m", f"kmirror.cli.{module}", argument], stdout=writer, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
@pytest.mark.parametrize("command", ["mirrors --help", "topics --version", "kmirror --version"])
def test_output_without_room_got_a_traceback(command: str) -> None:
    module, argument = command.split()
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", f"kmirror.cli.{module}", argument], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(b"No space left on device\n") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("module", "arguments", "text"),
    [
        (topics, "--list", "--bootstrap-server must be specified"),
        (topics, "--create --list", "Command must include exactly one action: --list, --describe, --create, --alter or --delete"),
        (topics, "--bootstrap-server b:1 --create", 'Missing required argument "[topic]"'),
        (topics, "--bootstrap-server b:1 --alter --topic t", 'Missing required argument "[partitions]"'),
        (topics, "--bootstrap-server b:1 --list --if-exists", 'Option "[if-exists]" can\'t be used with option "[list]"'),
        (topics, "--bootstrap-server b:1 --describe --if-exists", "--topic or --topic-id is required to describe a topic"),
        (configs, "--bootstrap-server b:1 --describe", "At least one entity type must be specified"),
        (configs, "--bootstrap-server b:1", "Command must include exactly one action: --describe, --alter"),
        (
            configs,
            "--bootstrap-server b:1 --describe --topic t --ip 1",
            "Only 'users' and 'clients' entity types may be specified together",
        ),
        (
            configs,
            "--bootstrap-server b:1 --describe --broker x",
            "The entity name for brokers must be a valid integer broker id, but it is: x",
        ),
        (
            configs,
            "--bootstrap-server b:1 --alter --topic t",
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter",
        ),
        (acls, "--bootstrap-server b:1 --add --list", "Command must include exactly one action: --list, --add, --remove. "),
        (acls, "--bootstrap-server b:1 --add --producer", "With --producer you must specify a --topic"),
        (acls, "--list", "One of --bootstrap-server or --bootstrap-controller must be specified"),
        (consumer_groups, "--bootstrap-server b:1 --describe", "Option [describe] takes one of these options: [all-groups], [group]"),
        (consumer_groups, "--list", 'Missing required argument "[bootstrap-server]"'),
        (
            consumer_groups,
            "--bootstrap-server b:1 --reset-offsets --group g --to-latest --to-earliest --dry-run",
            'Option "[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
        (share_groups, "--bootstrap-server b:1 --delete", "Option [delete] takes the options [group] or [all-groups]"),
        (
            share_groups,
            "--bootstrap-server b:1 --reset-offsets --group g --topic t --to-latest",
            "Option [reset-offsets] takes the option: [execute] or [dry-run]",
        ),
        (
            share_groups,
            "--bootstrap-server b:1 --list --members",
            "Option(s) [members] are unavailable given other options on the command line",
        ),
        (
            reassign_partitions,
            "--bootstrap-server b:1 --list --broker-list 1",
            'Option "[broker-list]" can\'t be used with action "[list]"',
        ),
        (reassign_partitions, "--list", "Please specify either --bootstrap-server or --bootstrap-controller"),
        (leader_election, "--bootstrap-server b:1", "Missing required option(s): election-type"),
        (
            leader_election,
            "--bootstrap-server b:1 --election-type preferred",
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file",
        ),
        (console_consumer, "--bootstrap-server b:1", "Exactly one of the following arguments is required: [topic], [include]"),
        (console_consumer, "--bootstrap-server b:1 --topic t --offset 3", "The partition is required when offset is specified."),
        (
            console_producer,
            "--bootstrap-server b:1 --topic t --property a=b --reader-property c=d",
            "Options --reader-property and --property cannot be specified together.",
        ),
    ],
)
def test_each_tool_says_what_stands_wrong_beside_what(
    module: object, arguments: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert module.main(arguments.split()) == 1  # type: ignore[attr-defined]
    assert capsys.readouterr().err.splitlines()[0] == text


def test_entities_of_kafka_configs_keep_the_order_of_names_and_defaults() -> None:
    options = configs.build_parser().parse(
        ["--describe", "--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "c"]
    )
    assert configs.entities(options) == (["users", "clients"], ["", "c"])
    options = configs.build_parser().parse(["--describe", "--user", "u", "--client-defaults"])
    assert configs.entities(options) == (["users", "clients"], ["u", ""])
