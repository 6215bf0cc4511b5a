"""The descriptions of partitions that make no progress: the reason, what to do, no unknown lag."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.mirror.mirror_metrics import lag_readings, partition_readings
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.mirror.partition.partition_description import STATE_REASONS
from kmirror.wire.mirror_tags import last_known_lag_of, last_known_lag_tag, reason_of, reason_tag

DISK = "a disk of this broker failed: no space left; mirroring continues when a replica on a healthy disk becomes leader, or when the log directory works again"


def row(machine: MirrorMachine) -> Any:
    return machine.mirror.describe(MIRROR)[0]


def metrics(machine: MirrorMachine) -> dict[str, Any]:
    readings = [*lag_readings(machine.mirror._mirrored_lags()), *partition_readings([machine.driver().status])]
    return {name.name: value for name, value in readings}


# --- a disk of one replica
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(28, "no space left"), ApiException(Errors.KAFKA_STORAGE_ERROR, "no space left")])
async def test_a_leader_without_space_made_every_replica_fail(
    tmp_path: Path, error: Exception, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is one replica's, but FAILED would be the whole partition's.

    So the next leader has to find MIRRORING.
    """

    with caplog.at_level(logging.ERROR):
        machine = MirrorMachine(str(tmp_path), others=(2,))
        await machine.mirroring(batch(0, b"a", epoch=1))

        def refuse(*arguments: Any, **options: Any) -> None:
            raise error

        monkeypatch.setattr(machine.partition("t"), "append_records_to_mirror_leader", refuse)
        machine.at_source(batch(1, b"b", epoch=1))
        await machine.advance(12_000)
        assert machine.states_written() == ["PREPARING", "MIRRORING"]
        assert machine.state() == "MIRRORING" and "no space left" in row(machine).reason
        assert metrics(machine)["FailedPartitionsCount"] == 1 and metrics(machine)["FailedPartitionState"] == 0
        assert row(machine).lag == -1, "its lag is not known while it cannot go on"
        told = [record.getMessage() for record in caplog.records if "no space left" in record.getMessage()]
        assert len([text for text in told if "mirror m, t-0" in text]) == 1, "said once, not at every try"
        machine.change(leader=2)
        await machine.settle()
        monkeypatch.undo()
        machine.change(leader=1)
        await machine.reach("MIRRORING")
        await machine.advance(1_000)
        assert machine.log().log_end_offset == 2 and row(machine).reason is None and row(machine).lag == 0
        await machine.close()


async def test_one_replica_goes_on_when_its_disk_is_back(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.driver().on_storage_error("no space left")
    await machine.settle()
    assert row(machine).reason == DISK
    machine.at_source(batch(1, b"b", epoch=1))
    await machine.advance(6_000)
    assert machine.log().log_end_offset == 2 and row(machine).reason is None
    await machine.close()


async def test_a_disk_that_fails_a_second_time_was_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second incident has the same words but is logged again; retries within an incident are
    not.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    for incident in (1, 2):
        for _ in range(2):
            machine.driver().on_storage_error("no space left")
            await machine.settle()
        told = [record.getMessage() for record in caplog.records if "no space left" in record.getMessage()]
        assert len(told) == incident
        machine.at_source(batch(incident, b"b", epoch=1))
        await machine.advance(6_000)
        assert machine.log().log_end_offset == incident + 1 and row(machine).reason is None
    await machine.close()


# --- FAILED and its reason
# ----------------------------------------------------------------------------------------------


async def test_the_reason_of_failed_survives_the_leader(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        machine = MirrorMachine(str(tmp_path), others=(2,))
        await machine.mirroring(batch(0, b"a", epoch=1))
        machine.driver().on_rejected("malformed batch")
        await machine.reach("FAILED")
        machine.change(leader=2)
        machine.change(leader=1)
        await machine.reach("FAILED")
        await machine.settle()
        assert row(machine).reason == "malformed batch; remove the topic from the mirror and add it again"
        assert metrics(machine)["FailedPartitionsCount"] == metrics(machine)["FailedPartitionState"] == 1
        await machine.close()
    told = [record.getMessage() for record in caplog.records if "malformed batch" in record.getMessage()]
    assert len(told) == 2, "each leader says it once"


async def test_a_reason_that_nobody_remembers_is_in_the_log_of_the_broker_that_led_before(tmp_path: Path) -> None:
    """The coordinator moved meanwhile, and no record of `__mirror_state` can hold the reason."""
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.driver().on_rejected("malformed batch")
    await machine.reach("FAILED")
    machine.change(leader=2)
    await machine.settle()
    machine.change(topic=MIRROR_STATE_TOPIC_NAME)
    await machine.settle()
    machine.change(leader=1)
    await machine.reach("FAILED")
    await machine.settle()
    why = "this broker does not know the reason; the log of broker 2 has it"
    assert row(machine).reason == f"{why}; remove the topic from the mirror and add it again"
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert row(machine).reason is None
    await machine.close()


# --- lags
# -------------------------------------------------------------------------------------------------------------


async def test_the_lag_of_a_source_that_is_away_is_not_known(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.source.log("t").last_stable_offset = 1
    machine.at_source(*[batch(n, b"x", epoch=1) for n in range(1, 11)])
    await machine.advance(1_000)
    assert (row(machine).lag, row(machine).last_lag.records) == (10, 10)
    assert (metrics(machine)["MaxLag"], metrics(machine)["ConsumerLag"]) == (10, 10)
    machine.source.down.update(machine.source.addresses.values())
    await machine.advance(65_000, step_ms=1_000)
    shown = row(machine)
    assert (shown.state, shown.lag, shown.source_offset, shown.last_lag.records) == (State.MIRRORING, -1, 11, 10)
    assert 60_000 < shown.last_lag.age_ms <= 66_000 and shown.reason
    found = metrics(machine)
    assert (found["MaxLag"], found["ConsumerLag"]) == (10, 10)
    assert found["MaxLagAgeMs"] == found["ConsumerLagAgeMs"] == shown.last_lag.age_ms
    machine.source.down.clear()
    await machine.advance(3_000)
    assert row(machine).lag == 10 and row(machine).last_lag.age_ms < 1_000
    await machine.close()


async def test_the_lag_of_an_idle_partition_is_known_as_long_as_the_source_answers(tmp_path: Path) -> None:
    """In a fetch session an answer leaves out partitions that did not change."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    await machine.advance(30_000, step_ms=500)
    assert row(machine).lag == 0 and row(machine).last_lag.age_ms <= 1_000
    await machine.close()


async def test_a_source_that_hangs_is_noticed_by_its_silence(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    at_ms = machine.mirror.fetchers.known_as_of_ms(machine.driver())
    machine.mirror.fetchers.known_as_of_ms = lambda driver: at_ms  # type: ignore[method-assign]
    await machine.advance(9_000, step_ms=500)
    assert row(machine).lag == 0
    await machine.advance(3_000, step_ms=500)
    assert row(machine).lag == -1 and row(machine).last_lag.records == 0
    await machine.close()


async def test_a_partition_that_was_never_fetched_has_no_lag(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.source.down.update(machine.source.addresses.values())
    machine.topic()
    await machine.advance(3_000)
    assert (row(machine).lag, row(machine).last_lag.records, row(machine).state) == (-1, -1, State.PREPARING)
    assert row(machine).reason
    await machine.close()


# --- states that do not move
# ------------------------------------------------------------------------------------------


async def test_a_topic_that_was_made_anew_at_the_source_stays_stopped_with_a_reason(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    machine.source.topic_ids["t"] = Uuid(b"another-topic-id")
    machine.name("m")
    await machine.advance(1_000)
    assert row(machine).state is State.STOPPED
    assert row(machine).reason == (
        "the source topic is missing or has another id; to mirror the topic that the source has now, delete this one and add it again"
    )
    machine.name("m.paused")
    await machine.advance(1_000)
    assert "the source's topic was deleted" in row(machine).reason and "or remove it from the mirror" in row(machine).reason
    await machine.close()


async def test_more_partitions_than_the_source_has_wait_with_a_reason(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t", partitions=1)
    machine.topic(partitions=2)
    await machine.advance(12_000)
    rows = {found.partition: found for found in machine.mirror.describe(MIRROR)}
    assert rows[0].reason is None and rows[0].state is State.MIRRORING
    assert rows[1].state is State.PREPARING
    assert rows[1].reason == (
        "the source has no partition t-1: its topic has 1 partition(s); add partitions there, or delete the topic here and add it again"
    )
    await machine.close()


def test_every_state_that_waits_says_for_what() -> None:
    moving = {State.MIRRORING, State.PAUSED}
    assert {state for state, _ in STATE_REASONS} == set(State) - moving


@pytest.mark.parametrize("is_away", [False, True])
async def test_what_kept_a_topic_from_being_added_is_no_reason_once_it_is_removed(tmp_path: Path, is_away: bool) -> None:
    """Once, it was shown and counted as failing for as long as this broker led the partition."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    if is_away:
        machine.source.down.update(machine.source.addresses.values())
    else:
        machine.source.topic_ids["t"] = Uuid.random(machine.runtime.random)
    machine.name(MIRROR)
    await machine.advance(2_000)
    assert row(machine).reason is not None and metrics(machine)["FailedPartitionsCount"] == 1
    machine.name("m.removed")
    await machine.settle()
    assert (machine.state(), row(machine).reason) == ("STOPPED", None)
    assert metrics(machine)["FailedPartitionsCount"] == 0
    await machine.close()


# --- the wire
# ---------------------------------------------------------------------------------------------------------------


def test_tags() -> None:
    tags = reason_tag("because") + last_known_lag_tag(10, 42_000)
    assert (reason_of(tags), last_known_lag_of(tags)) == ("because", (10, 42_000))
    assert reason_tag(None) == reason_tag("") == last_known_lag_tag(-1, -1) == ()
    assert (reason_of(()), last_known_lag_of(((1282, b"short"),))) == (None, None)
    assert len(reason_tag("ü" * 5_000)[0][1]) == 2_000


async def test_a_source_whose_high_watermark_fell_back_is_not_behind_us(tmp_path: Path) -> None:
    """The source's new leader does not know the high watermark of the old one yet.

    A lag below 0 would be taken for an unknown one, or lower a sum.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"), batch(1, b"b"))
    machine.source.log("t").high_watermark = 1
    await machine.advance(1_000)
    driver = machine.driver()
    driver.progress.source_offset = 1
    assert (row(machine).lag, row(machine).last_lag.records) == (0, 0)
    assert metrics(machine)["MaxLag"] == 0
    await machine.close()
