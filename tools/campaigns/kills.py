"""SIGKILL and SIGSTOP of the destination's brokers and its controller, again and again, under load
at an Apache Kafka 4.3 source.

In a round one broker (in one round of ten, two of them) is killed and started again at once or
after the others have taken over. Or it is stopped for longer or shorter than its session lasts, so
that it comes back as a leader that does not know it was deposed. Or the source is killed and
started again.

Three rounds of ten hit the controller, the one voter of its quorum. It is killed while it creates
topics. Or it stands still, alone or while a broker is killed, for so long that no broker has a
session when it goes on. `--combined` puts it into the process of broker 1.
"""

from __future__ import annotations

import time

from tools.campaigns.run import Run
from tools.campaigns.stage import BROKERS, Stage, mirrored_from_apache


def campaign(run: Run) -> None:
    with mirrored_from_apache(run, combined=run.options.combined) as stage:
        for number in range(run.rounds):
            time.sleep(run.chance.uniform(0.5, 3))
            run.say(f"round {number + 1}: {_round(run, stage)}")
        stage.finish()


def _round(run: Run, stage: Stage) -> str:
    what = run.chance.random()
    victim = run.chance.randrange(BROKERS)
    if what < 0.3:
        told = _controller_round(run, stage, what / 0.3, victim)
        run.promise("the mirror goes on", stage.goes_on_mirroring)
        return told
    if what < 0.6:
        run.count("kills")
        pause = run.chance.choice([0.0, 1.0, 4.0])
        _kill(stage, [victim], pause)
        return f"broker {victim + 1} was killed, and started after {pause} s"
    if what < 0.7:
        run.count("kills", 2)
        other = (victim + 1) % BROKERS
        _kill(stage, [victim, other], 1.0)
        return f"brokers {victim + 1} and {other + 1} were killed, and started"
    if what < 0.95:
        run.count("stalls")
        seconds = run.chance.uniform(0.5, 7)
        with stage.created.meanwhile():
            stage.destination.stall(stage.destination.nodes[victim], seconds)
        return f"broker {victim + 1} stood still for {seconds:.1f} s"
    run.count("kills of the source")
    stage.source.kill()
    time.sleep(1)
    stage.source.start()
    return "the source was killed, and started"


def _controller_round(run: Run, stage: Stage, what: float, victim: int) -> str:
    cluster = stage.destination
    if what < 0.5:
        run.count("kills of the controller")
        pause = run.chance.choice([0.0, 1.0, 6.0])
        with stage.created.meanwhile():
            time.sleep(run.chance.uniform(0, 0.7))
            cluster.kill_controller()
        time.sleep(pause)
        cluster.start_controller()
        return f"the controller was killed, and started after {pause} s; {stage.created.acknowledged} topics have been created"
    run.count("stalls of the controller")
    seconds = run.chance.uniform(5, 20)
    if what < 0.8 or cluster.nodes[victim] is cluster.controller:
        with stage.created.meanwhile():
            cluster.stall(cluster.controller, seconds)
        return f"the controller stood still for {seconds:.1f} s"
    run.count("kills")
    with cluster.stalled(cluster.controller, seconds):
        _kill(stage, [victim], 0.0)
    return f"broker {victim + 1} was killed, and started, while the controller stood still for {seconds:.1f} s"


def _kill(stage: Stage, victims: list[int], pause_s: float) -> None:
    for victim in victims:
        stage.destination.kill_node(victim)
    time.sleep(pause_s)
    for victim in victims:
        stage.destination.start_node(victim)
