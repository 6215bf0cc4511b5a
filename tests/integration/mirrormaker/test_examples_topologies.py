"""The examples of MirrorMaker 2's topologies print what their pages show (docs/examples)."""

from __future__ import annotations

import re

import pytest
from support.tools.example_pages import EXAMPLES, assert_prints_what_its_page_shows, comparable, examples_in, folders

TOPOLOGIES = examples_in("topology")


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_the_example_prints_what_its_page_shows(name: str) -> None:
    assert_prints_what_its_page_shows(name)


def test_each_example_is_in_one_table_of_the_index() -> None:
    assert sorted(TOPOLOGIES + examples_in("scenario")) == folders()


@pytest.mark.parametrize("name", folders())
def test_a_page_leads_to_files_that_there_are(name: str) -> None:
    page = EXAMPLES / name / "README.md"
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert "mm2.properties" in links
    assert not [link for link in links if not (page.parent / link).exists()]


def test_only_numbers_that_depend_on_the_machine_are_left_out() -> None:
    assert comparable("  ~12 of 30 ms\n") == comparable("  ~7 of 30 ms")
    assert comparable("~12 of 30 ms") != comparable("~12 of 31 ms")
