"""A campaign in which nothing was checked has shown nothing."""

from __future__ import annotations

import argparse

import pytest

from tools.campaigns.run import Run, perform


def test_a_campaign_without_a_checked_promise_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    run = perform("empty", lambda run: run.say("nothing to do"), rounds=1, seed=1, options=argparse.Namespace())
    assert run.problems == ["no promise was checked, so none is known to hold"]
    assert "BROKEN" in capsys.readouterr().out.splitlines()[-1]


def test_a_verdict_counts_the_promises_that_were_checked(capsys: pytest.CaptureFixture[str]) -> None:
    def campaign(run: Run) -> None:
        assert run.promise("two are two", lambda: None)

    perform("small", campaign, rounds=1, seed=1, options=argparse.Namespace())
    assert capsys.readouterr().out.splitlines()[-1].endswith("each of 1 promises held")
