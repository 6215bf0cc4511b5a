"""A thousand mirrored topics, three brokers, a SIGKILL a round; then all of them fail over at once."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from support.mirrors.mirror_harness import FAST_MIRROR, call, create_mirror_by_tool, kafka_mirrors, wait_states

from kmirror import EmbeddedCluster
from kmirror.admin.results import NewTopic
from tools.campaigns import checks
from tools.campaigns.load import FLUSH_S, QUIET
from tools.campaigns.run import Run

MIRROR = "topics"
BROKERS = 3
TOPICS_A_REQUEST = 100
LIMIT_S = 600
CONFIG = FAST_MIRROR | {
    "mirror.metadata.refresh.interval.ms": "2000",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "default.replication.factor": str(BROKERS),
}


def campaign(run: Run) -> None:
    names = [f"many-{number:04d}" for number in range(run.options.topics)]
    with (
        EmbeddedCluster(processes=True, folder=run.folder / "source") as source,
        EmbeddedCluster(BROKERS, mirroring=True, processes=True, folder=run.folder / "destination", config=CONFIG) as destination,
    ):
        _create(source.bootstrap_servers, names)
        _write(source.bootstrap_servers, names, "before")
        servers = destination.bootstrap_servers
        create_mirror_by_tool(run.folder, servers, source.bootstrap_servers, MIRROR)
        kafka_mirrors(servers, "--add", "--mirror", MIRROR, "--topic", "many-.*", "--replication-factor", str(BROKERS))
        run.count("topics", len(names))
        checks.everything_mirrored(servers, MIRROR, len(names), limit_s=LIMIT_S)
        run.say(f"{len(names)} topics are mirrored")
        for number in range(run.rounds):
            victim = run.chance.randrange(BROKERS)
            destination.kill_node(victim)
            _write(source.bootstrap_servers, names, f"round-{number}")
            time.sleep(run.chance.uniform(0, 5))
            destination.start_node(victim)
            run.count("kills")
            run.say(f"round {number + 1}: broker {victim + 1} was killed, and started")
        run.promise("nobody is out of the ISR after a minute", lambda: checks.everybody_in_sync(servers))
        run.promise("every topic is level", lambda: checks.everything_mirrored(servers, MIRROR, len(names), limit_s=LIMIT_S))
        kafka_mirrors(servers, "--remove", "--mirror", MIRROR, "--topic", "many-.*")
        stopped = lambda: wait_states(servers, MIRROR, "STOPPED", partitions=len(names), timeout_s=LIMIT_S)  # noqa: E731
        run.promise("every topic fails over", stopped)
        run.promise("every topic is writable", lambda: _write(servers, names, "after"))
        for node in range(BROKERS):
            destination.stop_node(node)
        run.promise("all replicas are equal", lambda: checks.replicas_equal([destination.log_dir(node) for node in range(BROKERS)]))


def _create(servers: str, names: list[str]) -> None:
    for first in range(0, len(names), TOPICS_A_REQUEST):
        wanted = [NewTopic(name, 1, 1, {}) for name in names[first : first + TOPICS_A_REQUEST]]
        call(servers, lambda admin, wanted=wanted: admin.create_topics(wanted), timeout_ms=60_000).all()


def _write(servers: str, names: list[str], value: str) -> None:
    """One record to every topic."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "message.timeout.ms": FLUSH_S * 1000} | QUIET)
    for name in names:
        producer.produce(name, value=value, partition=0, on_delivery=lambda error, _: errors.append(error) if error is not None else None)
        producer.poll(0)
    left = producer.flush(FLUSH_S)
    assert not left and not errors, f"{left} records of {len(names)} without an answer, {len(errors)} refused: {errors[:1]}"
