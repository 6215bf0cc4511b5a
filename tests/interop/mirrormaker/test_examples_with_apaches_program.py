"""Apache's MirrorMaker 2, with the examples' files as they are, makes the examples print the same
pages (docs/examples).

These are the examples that say most about records, groups and crashes. Some others show what only
kmirror's program has (metrics over HTTP, its log, two programs with the same flow), or list the
target's internal topics, of which Apache's has two more (mm2-configs and mm2-status).
"""

from __future__ import annotations

import pathlib
import shlex

import pytest
from support.mirrormaker.mirror_makers import APACHE_PROGRAM
from support.peers.peers import TOOL_JVM, _log4j, java, kafka_classpath
from support.tools.example_pages import assert_prints_what_its_page_shows

pytestmark = pytest.mark.interop
EXAMPLES = ("active-passive", "moving-consumers", "duplicates", "transactions", "changes")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_prints_the_same_page(name: str, tmp_path: pathlib.Path) -> None:
    command = [java(), *TOOL_JVM, _log4j(tmp_path, "out", "WARN"), "-cp", kafka_classpath(), APACHE_PROGRAM]
    assert_prints_what_its_page_shows(name, MIRROR_MAKER=shlex.join(command))
