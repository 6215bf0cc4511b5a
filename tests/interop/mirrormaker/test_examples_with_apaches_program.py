"""Apache's MirrorMaker 2, with the examples' files as they are, makes the examples print the same
pages (docs/examples).

Two that say most about records, groups and crashes stand for all: Apache's program takes half a
minute for each. Some others show what only kmirror's program has (metrics over HTTP, its log).
"""

from __future__ import annotations

import pathlib
import shlex

import pytest
from support.mirrormaker.mirror_makers import APACHE_PROGRAM
from support.peers.peers import TOOL_JVM, _log4j, java, kafka_classpath
from support.tools.example_pages import assert_prints_what_its_page_shows

pytestmark = pytest.mark.interop
EXAMPLES = ("active-passive", "transactions")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_prints_the_same_page(name: str, tmp_path: pathlib.Path) -> None:
    command = [java(), *TOOL_JVM, _log4j(tmp_path, "out", "WARN"), "-cp", kafka_classpath(), APACHE_PROGRAM]
    assert_prints_what_its_page_shows(name, MIRROR_MAKER=shlex.join(command))
