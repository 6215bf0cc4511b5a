"""Workers of a flow and a broker of its target stand still for longer than a session, as processes: the
short version of `tools/campaigns/workers.py`, with its promises.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pytest
from support.waiting import REACHED_S

from tools.campaigns import workers
from tools.campaigns.run import Run
from tools.campaigns.worker_stage import shared_flow

BROKER = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.min.session.timeout.ms": "1000",
}
SETTINGS = {"B.session.timeout.ms": "2000", "B.heartbeat.interval.ms": "500", "tasks.max": "2"}
LONGER_THAN_A_SESSION_S = 2.5


@pytest.mark.soak
def test_a_worker_and_the_coordinator_stand_still_for_longer_than_a_session_and_nothing_comes_twice(tmp_path: Path) -> None:
    run = Run("stalls", rounds=2, seed=1, folder=tmp_path, options=argparse.Namespace())
    with shared_flow(run, exactly_once=True, brokers=1, workers=2, combined=True, config=BROKER, settings=SETTINGS) as stage:
        with stage.stalled_worker(0):
            time.sleep(LONGER_THAN_A_SESSION_S)
        stage.arrivals.wait_for(dict(stage.load.acknowledged), REACHED_S)
        with stage.b.stalled(stage.b.nodes[0], REACHED_S), stage.stalled_worker(1):
            time.sleep(LONGER_THAN_A_SESSION_S)
        stage.arrivals.wait_for(dict(stage.load.acknowledged), REACHED_S)
        workers.finish(run, stage, exactly_once=True)
    assert not run.problems, run.problems
    assert run.counts["translated offsets"] > 0, "no group has moved"
