"""The public surface is pinned, every command line documents its options, and committed files name no machine and no host."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import kmirror

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATED = ("kmirror/wire/messages/", "kmirror/wire/json_schemas.py", "kmirror/wire/message_json_schemas.py")
MAX_LINES = 600


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("not a git checkout")
    return [name for name in listed if (ROOT / name).is_file()]


def test_the_public_surface_is_what_it_was() -> None:
    assert sorted(kmirror.__all__) == ["AdminClient", "EmbeddedCluster", "__version__"]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert sorted(scripts) == ["kafka-dump-log", "kafka-log-diff", "kafka-mirrors", "kmirror"]


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
    # Kafka's tools print their usage and exit with 1 (CommandLineUtils.printUsageAndExit); kafka-dump-log is one of them.
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


def test_no_source_file_is_past_the_length_that_has_a_seam() -> None:
    long = {
        name: count
        for name in tracked("kmirror/*.py")
        if not name.startswith(GENERATED) and (count := (ROOT / name).read_text().count("\n")) > MAX_LINES
    }
    assert not long, long
