"""The README's examples are run: every `sh` and `python` block, in order, in one folder, on ports
that are free.

Those of the simulator and of Spark (`tests/unit/spark/test_spark_own_sessions.py`) are in files of
their own, so that the workers of `make test` run them beside the others.
"""

from __future__ import annotations

import pathlib
import re

import pytest
from support.tools.readme_examples import ROOT, examples, run_examples
from support.waiting import PROGRAM_S

ELSEWHERE = ("Spark", "The simulator")


def test_the_readme_has_an_example_of_every_tool() -> None:
    text = "".join(example.body for example in examples())
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


@pytest.mark.timeout(PROGRAM_S + 30)
def test_the_readmes_examples_run(tmp_path: pathlib.Path) -> None:
    chosen = [example for example in examples() if example.section not in ELSEWHERE]
    assert len(chosen) == len(examples()) - len(ELSEWHERE), "another section would not be run"
    run_examples(chosen, tmp_path)


def test_make_targets_that_the_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md", "docs/ARCHITECTURE.md"):
        for target in re.findall(r"make ([a-z]+)", (ROOT / document).read_text()):
            assert target in targets | {"it", "sure"}, f"{document} names `make {target}`, which the Makefile does not have"
