"""Which families of vectors the folder has: a missing one is skipped by name, so that a run says
what it did not look at.
"""

from __future__ import annotations

import pytest
from support.logs.golden_vectors import COMMITTED, golden_cases, golden_dir

FAMILIES = ("00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "20")


@pytest.mark.parametrize("family", FAMILIES)
def test_family_is_there(family: str) -> None:
    if not COMMITTED and not golden_cases(f"{family}-"):
        pytest.skip(f"no case of family {family} in {golden_dir()}")
    assert golden_cases(f"{family}-")


@pytest.mark.parametrize("case", [case for case in golden_cases() if case.partition("-")[0] not in FAMILIES])
def test_a_case_of_no_family_is_only_read(case: str) -> None:
    """Reader, record and dump tests look at every case; what else such a one is about, no test
    knows.
    """
    assert not COMMITTED
    pytest.skip(f"{case} is of no family that is tested")
