"""The README's examples are run: every `sh` and `python` block, in order, in one folder, on ports that are free."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from kmirror.cli.demo_cluster import free_ports

ROOT = pathlib.Path(__file__).resolve().parents[2]
README_PORTS = ("19092", "19093", "29092", "29093")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer((ROOT / "README.md").read_text())]


def test_the_readme_has_an_example_of_every_tool() -> None:
    text = "".join(body for _, body in blocks())
    for tool in (
        "EmbeddedCluster",
        "kmirror format",
        "kmirror start",
        "kmirror sim",
        "kafka-mirrors",
        "kafka-log-diff",
        "kafka-dump-log",
        'kafka-log"',
        "kmirror_cluster",
        "kafka-topics",
        "kafka-consumer-groups",
    ):
        assert tool in text, f"no example of {tool}"


@pytest.mark.timeout(300)
def test_the_readmes_examples_run(tmp_path) -> None:
    binaries = pathlib.Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    ports = dict(zip(README_PORTS, map(str, free_ports(len(README_PORTS))), strict=True))
    script = ["set -eu", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"]
    for index, (language, text) in enumerate(blocks()):
        body = re.sub("|".join(README_PORTS), lambda match: ports[match[0]], text)
        script.append(f"echo '== block {index} ({language})'")
        if language == "python":
            (tmp_path / f"block{index}.py").write_text(body)
            script.append(f"{sys.executable} block{index}.py")
        else:
            script.append(body)
    (tmp_path / "readme.sh").write_text("\n".join(script))
    done = subprocess.run(["bash", "readme.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_make_targets_that_the_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        for target in re.findall(r"make ([a-z]+)", (ROOT / document).read_text()):
            assert target in targets | {"it", "sure"}, f"{document} names `make {target}`, which the Makefile does not have"
