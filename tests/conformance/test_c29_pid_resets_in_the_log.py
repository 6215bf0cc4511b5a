"""The cleaner never drops a MIRROR_PID_RESET, an empty segment keeps it, and no consumer sees one
(C29).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    create_mirror,
    create_topic,
    keys_read,
    log_bytes,
    produce,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror import EmbeddedCluster
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import iter_batches

VALUE = "x" * 100_000


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """A mirror of a compacted topic that failed over, and was then written until the reset's
    segment could be cleaned.
    """
    fast = FAST_MIRROR | {"log.cleaner.backoff.ms": "200"}
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=fast) as b:
        configs = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01"}
        create_topic(a.bootstrap_servers, "t", **configs)
        produce(a.bootstrap_servers, "t", [VALUE] * 7, batch=7)
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        for _ in range(6):
            produce(b.bootstrap_servers, "t", [VALUE] * 14, batch=7)
        yield a, b


def batches(cluster: EmbeddedCluster) -> list[tuple[int, ControlRecordType | None]]:
    """The base offset of each batch on disk, and the type of a control batch."""
    return [
        (batch.base_offset, ControlRecordType.parse(next(iter(batch.records())).key) if batch.is_control else None)
        for batch in iter_batches(log_bytes(cluster.log_dir(), "t-0"))
    ]


def test_c29_the_cleaner_keeps_a_pid_reset(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    _, b = clusters

    def is_cleaned() -> bool:
        """All before the reset is compacted away, and the reset is the only control batch.

        While the cleaner puts a new segment in the place of the old ones, a reader of the folder
        sees neither; so it looks again.
        """
        found = batches(b)
        controls = [batch for batch in found if batch[1] is not None]
        return found[:1] == controls == [(7, ControlRecordType.MIRROR_PID_RESET)]

    wait_for("a log that the cleaner has cleaned, and that begins with the reset", is_cleaned)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_c29_consumers_do_not_see_it(clusters: tuple[EmbeddedCluster, EmbeddedCluster], isolation: str) -> None:
    _, b = clusters
    keys = keys_read(b.bootstrap_servers, "t", isolation=isolation)
    assert set(keys) == {f"k{number}".encode() for number in range(7)}
