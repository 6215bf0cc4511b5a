"""The examples of what happens to MirrorMaker 2, and of what it does in special places, print what
their pages show (docs/examples).
"""

from __future__ import annotations

import pytest
from support.tools.example_pages import assert_prints_what_its_page_shows, examples_in


@pytest.mark.parametrize("name", examples_in("scenario"))
def test_the_example_prints_what_its_page_shows(name: str) -> None:
    assert_prints_what_its_page_shows(name)
