"""SIGKILL and SIGSTOP of MirrorMaker's workers, and of brokers on both sides, under load (the stage is in
`worker_stage`).

    python -m tools.campaigns workers --rounds 50 --seed 1 [--at-least-once] [--protocol eager] [--max-stall 20] [--report FILE]

In a round a worker is killed and another one takes its place; or a worker stands still for longer than
its session, so that it wakes as a zombie whose tasks run elsewhere; or a broker is killed and started
again, or stands still: a leader, the coordinator of the workers' group or of their transactions, the
controller; or two brokers of a cluster, or a worker and a broker at once. The round ends when the target
has every record that the source had acknowledged by then.

At the end both clusters are compared record for record: nothing is lost and the order is that of the
source, and with exactly-once support (unless `--at-least-once`) nothing is there twice. No translated
offset may lead a group past a record that it has not read. At least once that can happen, when a zombie
wakes (docs/MIRRORMAKER.md); it is counted then, and breaks no promise.

How long tasks stood still is measured and reported, and no promise, since the machine may be busy: the
longest time between the acknowledgement of a record at the source and its arrival for committed readers
of the target. A task that lost its worker cannot go on before session.timeout.ms is over, 10 s, and with a
cooperative `--protocol` not before scheduled.rebalance.max.delay.ms is, here DELAY_MS.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Final

from support.mirrormaker.mirror_makers import committed, read
from support.waiting import REACHED_S

from kmirror.embedded import EmbeddedNode
from kmirror.mirrormaker.formats import Checkpoint
from tools.campaigns import checks
from tools.campaigns.cluster import Cluster
from tools.campaigns.copies import Partition, Translated, committed_logs, same_records, skips, stood_still
from tools.campaigns.run import Run
from tools.campaigns.worker_stage import BROKERS, GROUP, LIMIT_S, PARTITIONS, REMOTES, SESSION_S, TOPICS, Stage, leader, shared_flow

CHECKPOINTS: Final = "A.checkpoints.internal"
DELAY_MS: Final = "5000"
COORDINATORS: Final = ("__consumer_offsets", "__transaction_state")


@dataclass
class Told:
    """One round, for the report."""

    number: int
    what: str
    stood_still_s: dict[str, float]
    """By partition of the source."""
    lost: list[str]
    """The partitions whose task lost its worker."""

    @property
    def longest_s(self) -> float:
        return max(self.stood_still_s.values(), default=0.0)

    @property
    def longest_of_lost_s(self) -> float:
        return max((self.stood_still_s.get(name, 0.0) for name in self.lost), default=0.0)


def campaign(run: Run) -> None:
    exactly_once = not run.options.at_least_once
    rounds: list[Told] = []
    protocol = {"B.connect.protocol": run.options.protocol, "B.scheduled.rebalance.max.delay.ms": DELAY_MS}
    with shared_flow(run, exactly_once=exactly_once, settings=protocol) as stage:
        for number in range(1, run.rounds + 1):
            time.sleep(run.chance.uniform(0.5, 3))
            rounds.append(_round(run, stage, number))
            if run.options.report is not None:
                run.options.report.write_text(json.dumps([asdict(one) for one in rounds], indent=1) + "\n")
        _tell_times(run, rounds)
        finish(run, stage, exactly_once=exactly_once)


# Rounds


def _round(run: Run, stage: Stage, number: int) -> Told:
    owners = stage.owners()
    began_s = time.monotonic()
    what, victim = _injury(run)(run, stage)
    lost = sorted(_name(partition) for partition, owner in owners.items() if owner == victim)
    acknowledged = {place: value for place, value in dict(stage.load.acknowledged).items() if stage.load.when_s[place] >= began_s - 1}
    if not run.promise(f"round {number}: {what}", lambda: stage.arrivals.wait_for(acknowledged, LIMIT_S)):
        return Told(number, what, {}, lost)
    still = stood_still(acknowledged, stage.load.when_s, stage.arrivals.arrived_s)
    told = Told(number, what, {_name(partition): round(seconds, 1) for partition, seconds in sorted(still.items())}, lost)
    of_lost = f", those of the lost tasks {' '.join(lost)} {told.longest_of_lost_s:.1f} s" if lost else ""
    run.say(f"         records waited {told.longest_s:.1f} s at most{of_lost}")
    return told


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


Injury = Callable[[Run, Stage], tuple[str, int | None]]
"""Returns what it did, and the worker that lost its tasks."""


def _injury(run: Run) -> Injury:
    chosen: Injury = run.chance.choices(
        [_kill_worker, _stall_worker, _kill_broker, _stall_broker, _stall_two_brokers, _stall_worker_and_broker],
        weights=[8, 4, 4, 4, 2, 2],
    )[0]
    return chosen


def _kill_worker(run: Run, stage: Stage) -> tuple[str, int]:
    victim, pause_s = run.chance.randrange(len(stage.workers)), run.chance.choice([0.0, 1.0, 5.0])
    run.count("kills")
    stage.workers[victim].process.kill()
    time.sleep(pause_s)
    stage.replace(victim)
    return f"worker {victim + 1} was killed, another one came after {pause_s:.0f} s", victim


def _stall_worker(run: Run, stage: Stage) -> tuple[str, int]:
    victim, seconds = run.chance.randrange(len(stage.workers)), _long_s(run)
    run.count("stalls")
    with stage.stalled_worker(victim):
        time.sleep(seconds)
    return f"worker {victim + 1} stood still for {seconds:.0f} s", victim


def _kill_broker(run: Run, stage: Stage) -> tuple[str, None]:
    name, cluster, victim, role = _victim(run, stage)
    pause_s = run.chance.choice([0.0, 1.0, 12.0])
    run.count("kills")
    if victim is None:
        cluster.kill_controller()
        time.sleep(pause_s)
        cluster.start_controller()
    else:
        index = cluster.nodes.index(victim)
        cluster.kill_node(index)
        time.sleep(pause_s)
        cluster.start_node(index)
    return f"{role} of {name} was killed, and started after {pause_s:.0f} s", None


def _stall_broker(run: Run, stage: Stage) -> tuple[str, None]:
    name, cluster, victim, role = _victim(run, stage)
    seconds = _any_s(run)
    run.count("stalls")
    cluster.stall(victim or cluster.controller, seconds)
    return f"{role} of {name} stood still for {seconds:.0f} s", None


def _stall_two_brokers(run: Run, stage: Stage) -> tuple[str, None]:
    name, cluster, victim, role = _victim(run, stage)
    seconds = _any_s(run)
    other = run.chance.choice([node for node in cluster.nodes if node is not victim])
    run.count("stalls", 2)
    with cluster.stalled(victim or cluster.controller, seconds + REACHED_S), cluster.stalled(other, seconds + REACHED_S):
        time.sleep(seconds)
    return f"{role} and broker {other.node_id} of {name} stood still for {seconds:.0f} s", None


def _stall_worker_and_broker(run: Run, stage: Stage) -> tuple[str, int]:
    name, cluster, victim, role = _victim(run, stage)
    worker, seconds, more_s = run.chance.randrange(len(stage.workers)), _long_s(run), run.chance.uniform(0, 3)
    run.count("stalls", 2)
    with ExitStack() as stack:
        stack.enter_context(cluster.stalled(victim or cluster.controller, seconds + REACHED_S))
        with stage.stalled_worker(worker):
            time.sleep(seconds)
        time.sleep(more_s)
    return f"worker {worker + 1} stood still for {seconds:.0f} s, {role} of {name} for {seconds + more_s:.0f} s", worker


def _long_s(run: Run) -> float:
    """Longer than a session, if the campaign may."""
    return run.chance.uniform(min(SESSION_S + 1, run.options.max_stall / 2), run.options.max_stall)


def _any_s(run: Run) -> float:
    return run.chance.uniform(1, run.options.max_stall)


def _victim(run: Run, stage: Stage) -> tuple[str, Cluster, EmbeddedNode | None, str]:
    """Returns a cluster with its name, and a broker with its role; None for the controller."""
    name, cluster = run.chance.choice([("A", stage.a), ("B", stage.b), ("B", stage.b)])
    role = run.chance.choice(["leader", "group", "transactions", "controller", "any"])
    topics = TOPICS if name == "A" else tuple(REMOTES)
    place = {
        "leader": (run.chance.choice(topics), run.chance.randrange(PARTITIONS)),
        "group": (COORDINATORS[0], 0),
        "transactions": (COORDINATORS[1], 0),
    }.get(role)
    anybody = run.chance.randrange(BROKERS)
    if role == "controller":
        return name, cluster, None, "the controller"
    found = leader(cluster, *place) if place is not None else -1
    victim = cluster.nodes[found if found >= 0 else anybody]
    told = f"broker {victim.node_id}" if place is None else f"broker {victim.node_id}, which leads {place[0]}-{place[1]},"
    return name, cluster, victim, told


# The end


def _tell_times(run: Run, rounds: list[Told]) -> None:
    times = sorted((one.longest_of_lost_s for one in rounds if one.lost), reverse=True)
    if times:
        slowest = max((one for one in rounds if one.lost), key=lambda one: one.longest_of_lost_s)
        run.say(
            f"tasks that lost their worker stood still for {times[len(times) // 2]:.1f} s in the middle of {len(times)} rounds and "
            f"{times[0]:.1f} s at most, in round {slowest.number} ({slowest.what}); session.timeout.ms is {SESSION_S} s"
        )
        run.count(f"rounds with tasks that lost their worker, {times[0]:.1f} s at most", len(times))
    if rounds:
        slowest = max(rounds, key=lambda one: one.longest_s)
        run.say(f"the slowest round of all was {slowest.number} ({slowest.what}): a record waited {slowest.longest_s:.1f} s")


def finish(run: Run, stage: Stage, *, exactly_once: bool) -> None:
    """Ends the load, and checks every promise."""
    acknowledged = stage.load.end()
    run.say(f"the load has ended; refused: {stage.load.refused or 'nothing'}")
    run.count("records acknowledged", len(acknowledged))
    run.count("transactions committed", stage.load.commits)
    run.count("aborted", stage.load.aborts)
    run.promise("the target has what was acknowledged", lambda: stage.arrivals.wait_for(acknowledged, LIMIT_S))
    stage.group.end()
    for topic in TOPICS:
        run.promise(
            f"the source has kept {topic}", lambda t=topic: checks.nothing_missing(stage.a.bootstrap_servers, t, PARTITIONS, acknowledged)
        )
    source = committed_logs(stage.a.bootstrap_servers, {topic: topic for topic in TOPICS}, PARTITIONS)
    target = committed_logs(stage.b.bootstrap_servers, REMOTES, PARTITIONS)
    again = 0

    def compare() -> None:
        nonlocal again
        again = same_records(source, target, exactly_once=exactly_once)

    run.promise(
        "record for record, exactly once and in order" if exactly_once else "record for record, at least once and in order", compare
    )
    run.count("records copied again", again)
    translated = [*_checkpoints(stage.b.bootstrap_servers), *_synced(stage)]
    found = skips(source, target, translated)
    run.count("translated offsets", len(translated))
    if exactly_once:
        run.promise("no translated offset skips a record", lambda: _none(found))
    else:
        run.count("translated offsets that skip records", len(found))
    run.promise("workers end in good order", lambda: _all_end_well(stage))


def _none(found: list[str]) -> None:
    assert not found, f"{len(found)} do, such as {found[0]}"


def _checkpoints(servers: str) -> list[Translated]:
    found = []
    for _, row in read(servers, CHECKPOINTS)[0]:
        one = Checkpoint.deserialize_record(row.key, row.value)
        if one.topic_partition.topic in REMOTES:
            found.append(
                Translated((REMOTES[one.topic_partition.topic], one.topic_partition.partition), one.upstream_offset, one.downstream_offset)
            )
    return found


def _synced(stage: Stage) -> list[Translated]:
    """Where the group at the target stands: behind nothing that it has not read at the source."""
    partitions = [(remote, number) for remote in REMOTES for number in range(PARTITIONS)]
    found = committed(stage.b.bootstrap_servers, GROUP, partitions)
    return [
        Translated((REMOTES[remote], number), stage.group.committed[REMOTES[remote], number], offset)
        for (remote, number), offset in found.items()
    ]


def _all_end_well(stage: Stage) -> None:
    codes = [worker.stop() for worker in stage.workers]
    assert not any(codes), f"exit codes {codes}"
    for worker in [*stage.workers, *stage.gone]:
        assert "Traceback" not in worker.log, f"{worker.log[worker.log.index('Traceback') - 500 :][:2500]}"
