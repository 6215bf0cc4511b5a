"""The README's examples of the simulator are run."""

from __future__ import annotations

import pathlib

import pytest
from support.tools.readme_examples import examples, run_examples
from support.waiting import PROGRAM_S


@pytest.mark.timeout(PROGRAM_S + 30)
def test_the_readmes_examples_of_the_simulator_run(tmp_path: pathlib.Path) -> None:
    run_examples([example for example in examples() if example.section == "The simulator"], tmp_path)
