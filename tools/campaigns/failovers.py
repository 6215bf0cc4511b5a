"""Failover and failback between the KIP's reference implementation and us, round after round, with
load on whoever is writable.

A round: load at the reference while we mirror it; failover to us; load at ours; failback to the
reference; failover to it again. Every one is graceful (the load has ended and the mirror has no
lag), so no record that was ever acknowledged may be missing on either side at the end. When the
reference gets stuck, it is restarted, as its operators would have to do.
"""

from __future__ import annotations

import time

from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    assert_equal_logs,
    create_mirror_by_tool,
    create_topic,
    describe,
    kafka_mirrors,
    produce_when_taken,
    wait_for,
    wait_states,
    with_a_restart,
)
from support.peers.peers import KafkaPeer, reference_kafka

from kmirror import EmbeddedCluster
from tools.campaigns import checks
from tools.campaigns.load import Load, Place
from tools.campaigns.run import Run

TOPIC, MIRROR = "f-topic", "failovers"
PARTITIONS = 2
FOLDERS = [f"{TOPIC}-{number}" for number in range(PARTITIONS)]
REFERENCE = {"mirror.topic.num.partitions": "3", "mirror.metadata.refresh.interval.ms": "1000"}
LOAD_S = 2.0


def campaign(run: Run) -> None:
    with (
        reference_kafka(run.folder / "reference", properties=REFERENCE) as reference,
        EmbeddedCluster(mirroring=True, processes=True, folder=run.folder / "ours", config=FAST_MIRROR) as ours,
    ):
        create_topic(reference.bootstrap_servers, TOPIC, PARTITIONS)
        create_mirror_by_tool(run.folder, ours.bootstrap_servers, reference.bootstrap_servers, MIRROR)
        create_mirror_by_tool(run.folder, reference.bootstrap_servers, ours.bootstrap_servers, MIRROR)
        play = _Play(run, reference, ours)
        for number in range(run.rounds):
            play.round(number)
            run.say(f"round {number + 1}: failed over and back, {len(play.acknowledged)} records acknowledged")
        play.finish()


class _Play:
    def __init__(self, run: Run, reference: KafkaPeer, ours: EmbeddedCluster) -> None:
        self._run, self._reference, self._ours = run, reference, ours
        self.acknowledged: dict[Place, bytes] = {}

    def round(self, number: int) -> None:
        ours, theirs = self._ours.bootstrap_servers, self._reference.bootstrap_servers
        kafka_mirrors(ours, "--add", "--mirror", MIRROR, "--topic", TOPIC)
        self._write(theirs, f"reference-{number}")
        with_a_restart(self._ours_is_level, self._restart_the_reference, patience_s=60, timeout_s=120)
        assert_equal_logs(self._ours.log_dir(), self._reference.data, FOLDERS)
        kafka_mirrors(ours, "--remove", "--mirror", MIRROR, "--topic", TOPIC)
        wait_states(ours, MIRROR, "STOPPED", partitions=PARTITIONS)
        self._run.count("failovers to us")
        self._write(ours, f"ours-{number}")
        kafka_mirrors(theirs, "--add", "--mirror", MIRROR, "--topic", TOPIC)
        with_a_restart(self._reference_is_equal, self._restart_the_reference, patience_s=15, timeout_s=120)
        self._run.count("failbacks")
        kafka_mirrors(theirs, "--remove", "--mirror", MIRROR, "--topic", TOPIC)
        with_a_restart(self._reference_has_stopped, self._restart_the_reference, patience_s=15, timeout_s=60)
        self._reference.restart()
        for partition in range(PARTITIONS):
            produce_when_taken(theirs, TOPIC, f"first-{number}-{partition}", partition=partition)

    def finish(self) -> None:
        run = self._run
        ours, theirs = self._ours.bootstrap_servers, self._reference.bootstrap_servers
        run.count("records acknowledged", len(self.acknowledged))
        kafka_mirrors(ours, "--add", "--mirror", MIRROR, "--topic", TOPIC)
        run.promise("every partition is level", lambda: checks.everything_mirrored(ours, MIRROR, PARTITIONS))
        for name, servers in (("the reference", theirs), ("ours", ours)):
            run.promise(f"nothing missing at {name}", lambda s=servers: checks.nothing_missing(s, TOPIC, PARTITIONS, self.acknowledged))
        equal = lambda: assert_equal_logs(self._ours.log_dir(), self._reference.data, FOLDERS)  # noqa: E731
        run.promise("both logs are equal", equal)

    def _write(self, servers: str, prefix: str) -> None:
        load = Load(servers, [TOPIC], PARTITIONS, seed=self._run.chance.randrange(1000), producers=2, prefix=prefix)
        time.sleep(LOAD_S)
        written = load.end()
        assert written, f"nothing was acknowledged at {servers}: {load.refused}"
        twice = [place for place in written if place in self.acknowledged]
        assert not twice, f"offsets were acknowledged twice: {twice[:5]}"
        self.acknowledged |= written

    def _restart_the_reference(self) -> None:
        self._run.count("times the reference stuck")
        self._reference.restart()

    def _ours_is_level(self, timeout_s: float) -> None:
        """The reference shares one NetworkClient among its threads.

        When two of them race it waits 30 s within ListMirrors, each time anew.
        """
        wait_states(self._ours.bootstrap_servers, MIRROR, "MIRRORING", partitions=PARTITIONS, lag=0, timeout_s=timeout_s)

    def _reference_is_equal(self, timeout_s: float) -> None:
        assert_equal_logs(self._ours.log_dir(), self._reference.data, FOLDERS, timeout_s=timeout_s)

    def _reference_has_stopped(self, timeout_s: float) -> None:
        servers = self._reference.bootstrap_servers
        wait_for("the reference to stop", lambda: {row["state"] for row in describe(servers, MIRROR)} == {"STOPPED"}, timeout_s)
