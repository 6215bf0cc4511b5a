"""Both ends of a mirror are processes that die by SIGKILL at any moment. No record is lost or
duplicated, and the logs do not diverge.
"""

from __future__ import annotations

import random
import threading

from support.mirrors.mirror_harness import (
    assert_equal_logs,
    create_mirror_by_tool,
    create_topic,
    kafka_mirrors,
    log_bytes,
    produce_numbered,
    wait_for,
    wait_states,
)

from kmirror.cli.demo_cluster import DemoCluster
from kmirror.record.record_batch import iter_batches

SEED = 20261121
ROUNDS = 5
PARTITIONS = 2


def test_sigkill_of_either_end_under_load_loses_doubles_and_diverges_nothing(tmp_path) -> None:
    chance = random.Random(SEED)
    north, south = DemoCluster("north", tmp_path), DemoCluster("south", tmp_path)
    for number, cluster in enumerate((north, south)):
        cluster.format(f"lBq12jYZRp-9wF3M9MPop{number}")
        cluster.start()
    stop, acked, failures = threading.Event(), [0], []

    def load() -> None:
        """Batches of 100 with acks=all; a batch whose fate is unknown may be there or not, an
        acknowledged one must.
        """
        while not stop.is_set():
            try:
                produce_numbered(
                    north.bootstrap_servers, "k", acked[0], 100, codec="lz4", partitions=PARTITIONS, **{"message.timeout.ms": 5000}
                )
                acked[0] += 100
            except AssertionError as error:
                failures.append(error)

    try:
        create_topic(north.bootstrap_servers, "k", PARTITIONS)
        create_mirror_by_tool(tmp_path, south.bootstrap_servers, north.bootstrap_servers, "m")
        kafka_mirrors(south.bootstrap_servers, "--add", "--mirror", "m", "--topic", "k")
        thread = threading.Thread(target=load)
        thread.start()
        try:
            for _ in range(ROUNDS):
                stop.wait(chance.uniform(0.3, 1.2))
                victims = chance.choice(([north], [south], [north, south]))
                for victim in victims:
                    victim.kill()
                for victim in victims:
                    victim.start()
        finally:
            stop.set()
            thread.join()
        produce_numbered(north.bootstrap_servers, "k", acked[0], 2, partitions=PARTITIONS)
        folders = [f"k-{partition}" for partition in range(PARTITIONS)]
        assert_equal_logs(north.data, south.data, folders)
        kafka_mirrors(south.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "k")
        wait_states(south.bootstrap_servers, "m", "STOPPED", partitions=PARTITIONS)
        values: list[bytes] = []
        for folder in folders:
            batches = list(iter_batches(log_bytes(south.data, folder)))
            assert all(batch.is_valid() for batch in batches)
            assert [batch.base_offset for batch in batches] == [0, *(batch.last_offset + 1 for batch in batches[:-1])], (
                f"{folder} has a hole"
            )
            values += [
                bytes(record.value) for batch in batches if not batch.is_control for record in batch.records() if record.value is not None
            ]
        assert acked[0] > 0
        missing = {f"v{number}".encode() * 5 for number in range(acked[0])} - set(values)
        assert not missing, f"{len(missing)} acknowledged records are gone, such as {sorted(missing)[:3]}"
    finally:
        north.kill()
        south.kill()


def test_sigkill_while_stopping_and_preparing_goes_on_after_the_restart(tmp_path) -> None:
    chance = random.Random(SEED)
    north, south = DemoCluster("north", tmp_path), DemoCluster("south", tmp_path)
    for number, cluster in enumerate((north, south)):
        cluster.format(f"lBq12jYZRp-9wF3M9MPop{number}")
        cluster.start()
    try:
        create_topic(north.bootstrap_servers, "s", PARTITIONS)
        produce_numbered(north.bootstrap_servers, "s", 0, 200, partitions=PARTITIONS)
        create_mirror_by_tool(tmp_path, south.bootstrap_servers, north.bootstrap_servers, "m")
        kafka_mirrors(south.bootstrap_servers, "--add", "--mirror", "m", "--topic", "s")
        wait_states(south.bootstrap_servers, "m", "MIRRORING", partitions=PARTITIONS, lag=0)
        kafka_mirrors(south.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "s")
        threading.Event().wait(chance.uniform(0, 0.1))
        south.kill()
        south.start()
        wait_states(south.bootstrap_servers, "m", "STOPPED", partitions=PARTITIONS)
        produce_numbered(north.bootstrap_servers, "s", 200, 50, partitions=PARTITIONS)
        produce_numbered(south.bootstrap_servers, "s", 250, 50, partitions=PARTITIONS)
        create_mirror_by_tool(tmp_path, north.bootstrap_servers, south.bootstrap_servers, "m")
        kafka_mirrors(north.bootstrap_servers, "--add", "--mirror", "m", "--topic", "s")
        threading.Event().wait(chance.uniform(0, 0.1))
        north.kill()
        north.start()
        wait_states(north.bootstrap_servers, "m", "MIRRORING", partitions=PARTITIONS, lag=0)
        assert_equal_logs(north.data, south.data, [f"s-{partition}" for partition in range(PARTITIONS)])
        wait_for("north's own records to be gone", lambda: b"v249" not in log_bytes(north.data, "s-1"))
    finally:
        north.kill()
        south.kill()
