"""The destructive campaigns of `tools/campaigns`, short: the tools work, and a round of each breaks
nothing. Longer ones are in `make rounds`.
"""

from __future__ import annotations

import pathlib
import re

import pytest
from support.peers.peers import require
from support.waiting import PROGRAM_S

from tools.campaigns.__main__ import main

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * PROGRAM_S)]
CANNOT_RUN = 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["kills", "--rounds", "1"],
        ["failovers", "--rounds", "1"],
        ["fronts", "--rounds", "1", "--seed", "3"],
        ["disks", "--rounds", "1"],
        ["link", "--rounds", "1"],
        ["workers", "--rounds", "1", "--max-stall", "12"],
        *(
            pytest.param(arguments, marks=pytest.mark.round)
            for arguments in (
                ["kills", "--combined", "--rounds", "2", "--seed", "4"],
                ["disks", "--case", "metadata", "--rounds", "5"],
                ["topics", "--rounds", "1", "--topics", "100"],
                ["workers", "--at-least-once", "--protocol", "sessioned", "--rounds", "2", "--seed", "4", "--max-stall", "12"],
            )
        ),
    ],
    ids=lambda arguments: "-".join(arguments[: arguments.index("--rounds")]).replace("---", "-"),
)
def test_a_short_campaign_breaks_no_promise(arguments: list[str], tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = main([*arguments, "--folder", str(tmp_path / "campaign")])
    told = capfd.readouterr()
    require(code != CANNOT_RUN, told.err.strip())
    assert code == 0, told.out[-3000:]
    assert re.search(r"each of [1-9]\d* promises held$", told.out.splitlines()[-1])
