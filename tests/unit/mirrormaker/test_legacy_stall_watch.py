"""A legacy MirrorMaker that stands still says why, on doubles of its clients."""

from __future__ import annotations

import asyncio
import logging

import pytest
from support.mirrors.mirror_maker_doubles import Doubles, consumed

from kmirror.mirrormaker.source_watch import TOLD_AGAIN_MS

TARGET = "t-0: NOT_ENOUGH_REPLICAS: too few"
SOURCE = "t-0 has no leader"


def told(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.message for record in caplog.records if text in record.message and record.levelno >= logging.WARNING]


def test_a_target_that_takes_nothing_is_told_with_the_reason_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    doubles = Doubles(offset_commit_interval_ms=100)
    doubles.producer.blocked = asyncio.Event()
    doubles.consumer.polls = [[consumed(0)]]
    doubles.troubles["target"] = TARGET

    async def look() -> None:
        (line,) = told(caplog, TARGET)
        assert line == f"the target cluster has taken no record for 10 s: {TARGET}" and doubles.mirror_maker.health().all_reasons == [line]
        await doubles.runtime.sleep_ms(TOLD_AGAIN_MS)
        assert len(told(caplog, TARGET)) == 2, "it is told again"
        doubles.troubles.clear()
        doubles.producer.blocked.set()
        await doubles.runtime.sleep_ms(3_000)
        assert any("the target cluster takes records again" in line for line in caplog.messages)
        assert doubles.mirror_maker.health().all_reasons == []

    assert doubles.play(12_500, then=look)


def test_a_record_that_waits_while_others_are_acknowledged_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    doubles = Doubles(offset_commit_interval_ms=100)
    doubles.troubles["target"] = TARGET

    async def later(consumer):
        await doubles.runtime.sleep_ms(1_000)
        return [consumed(len(doubles.events))]

    doubles.consumer.polls = [later] * 40
    assert doubles.play(35_000)
    assert len(doubles.producer.acknowledged) > 30 and told(caplog, TARGET) == []


def test_a_source_that_cannot_be_read_is_told_by_each_stream(caplog: pytest.LogCaptureFixture) -> None:
    doubles = Doubles(num_streams=2)
    doubles.troubles["source"] = SOURCE
    assert doubles.play(15_000)
    assert [line.split("]")[0] for line in told(caplog, SOURCE)] == ["[mirrormaker-thread-0", "[mirrormaker-thread-1"]
