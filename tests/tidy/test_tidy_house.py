"""The public surface is pinned, every command line documents its options, and committed files name
no machine and no host.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import kmirror
from tools.import_circles import circles

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATED = ("kmirror/wire/messages/", "kmirror/wire/json_schemas.py", "kmirror/wire/message_json_schemas.py")
MAX_LINES = 600
MAX_COLUMNS = 100


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("not a git checkout")
    return [name for name in listed if (ROOT / name).is_file()]


def test_the_public_surface_is_what_it_was() -> None:
    assert sorted(kmirror.__all__) == ["AdminClient", "EmbeddedCluster", "KmirrorError", "Security", "__version__"]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    tools = "acls broker-api-versions cluster configs console-consumer console-producer consumer-groups consumer-perf-test delegation-tokens delete-records"
    tools += " dump-log features get-offsets leader-election log-diff log-dirs metadata-quorum mirror-maker mirrors producer-perf-test"
    tools += " reassign-partitions share-groups storage topics transactions"
    assert sorted(scripts) == [
        "connect-distributed",
        "connect-mirror-maker",
        "connect-standalone",
        *(f"kafka-{tool}" for tool in tools.split()),
        "kmirror",
    ]


def test_importing_kmirror_loads_nothing_heavy() -> None:
    code = "import sys, kmirror; print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'msgspec', 'asyncio', 'pyspark', 'pyarrow', 'rich')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "command",
    [
        ["kmirror"],
        ["kmirror", "format"],
        ["kmirror", "start"],
        ["kmirror", "demo"],
        ["kmirror", "sim"],
        ["kmirror", "verify-logs"],
        ["kmirror", "replay"],
        ["kmirror", "spark-package"],
        ["kmirror", "translate-offsets"],
        ["mirrors"],
        ["dump_log"],
        ["log_diff"],
    ],
    ids=" ".join,
)
def test_every_option_has_help(command: list[str]) -> None:
    module, *arguments = command
    done = subprocess.run(
        [sys.executable, "-m", f"kmirror.cli.{module}", *arguments, "--help"], capture_output=True, text=True, check=False
    )
    text = done.stdout + done.stderr
    # Kafka's tools print their usage and exit with 1 (CommandLineUtils.printUsageAndExit);
    # kafka-dump-log is one of them.
    assert done.returncode == (1 if module == "dump_log" else 0) and "Traceback" not in text, text
    lines = text.splitlines()
    for index, line in enumerate(lines):
        option = re.match(r"^\s*(--[a-z-]+)\b(.*)$", line)
        if option is not None:
            described = f"{option[2]} {lines[index + 1] if index + 1 < len(lines) else ''}"
            assert len(re.sub(r"<[^>]*>|[A-Z_=,\[\]{}.]+", "", described).split()) >= 2, f"{command}: {option[1]} has no help"


def test_no_file_names_a_machine_or_a_package_host() -> None:
    hosts = ("pypi" + ".org", "repo1.maven" + ".org", "registry.npmjs" + ".org", "deb.debian" + ".org", "static.crates" + ".io")
    forbidden = (*hosts, "/work" + "/main", "/work" + "/shared", "/root" + "/")
    for name in tracked():
        if name.endswith((".xz", ".tar", ".gz")):
            continue
        text = (ROOT / name).read_text(errors="replace")
        found = [word for word in forbidden if word in text]
        assert not found, f"{name} names {found}"


def wide_lines(page: str) -> list[str]:
    """The lines of prose that an editor of 100 columns cuts. Tables, code and pictures may be wider."""
    wide: list[str] = []
    is_code = False
    for line in page.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and len(line) > MAX_COLUMNS and " " in line[:MAX_COLUMNS].strip() and not line.startswith(("|", "!", "    ")):
            wide.append(line)
    return wide


def test_prose_of_pages_fits_into_100_columns() -> None:
    assert wide_lines("word " * 25) and not wide_lines("| cell " * 25) and not wide_lines("```\n" + "x " * 60 + "\n```")
    found = {name: wide for name in tracked("*.md") if (wide := wide_lines((ROOT / name).read_text(encoding="utf-8")))}
    assert not found


def test_numbers_of_the_protocol_are_defined_once() -> None:
    """Whoever needs one takes it from `kmirror.common.sentinels`."""
    home = "kmirror/common/sentinels.py"
    defined = re.compile(r"^([A-Z_]+)(?:: Final(?:\[int\])?)? = -?[0-9]+$", re.MULTILINE)
    names = set(defined.findall((ROOT / home).read_text()))
    assert {"NO_EPOCH", "READ_COMMITTED", "UNKNOWN_OFFSET"} <= names
    again = {
        name: twice
        for name in tracked("kmirror/*.py")
        if name != home and (twice := names & set(defined.findall((ROOT / name).read_text())))
    }
    assert not again


def test_no_source_file_is_past_the_length_that_has_a_seam() -> None:
    long = {
        name: count
        for name in tracked("kmirror/*.py")
        if not name.startswith(GENERATED) and (count := (ROOT / name).read_text().count("\n")) > MAX_LINES
    }
    assert not long, long


COMMAND_TOOLS = ("cluster", "features", "metadata_quorum", "producer_perf_test", "storage_tool")
OPTION_TOOLS = (
    "acls",
    "broker_api_versions",
    "configs",
    "console_consumer",
    "console_producer",
    "consumer_groups",
    "consumer_perf_test",
    "delete_records",
    "get_offsets",
    "leader_election",
    "log_dirs",
    "mirror_maker",
    "reassign_partitions",
    "share_groups",
    "topics",
)


@pytest.mark.parametrize("module", OPTION_TOOLS)
def test_every_option_of_kafkas_tools_is_documented(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As Kafka's: the usage goes to stderr and the exit code is 1, with --help and without any
    argument.
    """
    tool = importlib.import_module(f"kmirror.cli.{module}")
    for arguments in (["--help"], []):
        assert tool.main(arguments) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith(tool.build_parser().description)
        for name, (text, *_) in tool.build_parser()._rows.items():
            assert f"--{name}" in captured.err and len(text.split()) >= 2, f"{module}: --{name} has no help"
    assert tool.main(["--version"]) == 0
    assert capsys.readouterr().out == ("3.9.1\n" if module == "mirror_maker" else "4.3.0\n")


@pytest.mark.parametrize("module", COMMAND_TOOLS)
def test_every_command_and_option_of_kafkas_tools_is_documented(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    tool = importlib.import_module(f"kmirror.cli.{module}")
    parsers = [tool.build_parser()]
    assert tool.main(["--help"]) == 0 and capsys.readouterr().out.startswith("usage: kafka-")
    while parsers:
        parser = parsers.pop()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
                assert all(choice.help for choice in action._choices_actions)
            else:
                assert action.help and len(action.help.split()) >= 2, f"{parser.prog}: {action.option_strings} has no help"


def test_tools_load_nothing_heavy_before_they_know_what_to_do() -> None:
    """`--help` within 150 ms: neither the event loop nor the wire may be imported for it."""
    code = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module('kmirror.cli.' + name)\n"
    code += "print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'msgspec', 'asyncio', 'confluent_kafka', 'rich')])"
    done = subprocess.run([sys.executable, "-c", code, *COMMAND_TOOLS, *OPTION_TOOLS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_circle_of_imports_is_found() -> None:
    imported = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": {"d2"}, "d2": {"d"}, "e": {"a"}}
    found = circles(imported)
    assert sorted(sorted(set(circle)) for circle in found) == [["a", "b", "c"], ["d", "d2"]]
    assert all(circle[0] == circle[-1] and circle[at + 1] in imported[circle[at]] for circle in found for at in range(len(circle) - 1))
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
