"""When a task says that its source does not answer, and when it is heard of."""

from __future__ import annotations

import logging

import pytest

from kmirror.mirrormaker.source_watch import TOLD_AFTER_MS, TOLD_AGAIN_MS, SourceWatch


class Consumer:
    def __init__(self) -> None:
        self.answered_fetches = 0
        self.reason: str | None = None

    def trouble(self) -> str | None:
        return self.reason


class Watched:
    """A watch at a time that the test sets."""

    def __init__(self) -> None:
        self.now_ms = 5_000
        self.heard = 0
        self.consumer = Consumer()
        self.watch = SourceWatch(self, self.consumer, "A->B", "A")

    def monotonic_ms(self) -> int:
        return self.now_ms

    def time_ms(self) -> int:
        return self.now_ms

    def _heard(self) -> None:
        self.heard += 1

    def polls_for(self, time_ms: int, *, answers: bool) -> None:
        for _ in range(0, time_ms, 500):
            self.now_ms += 500
            self.consumer.answered_fetches += answers
            self.watch.polled(self._heard)


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    caplog.set_level(logging.INFO)
    return Watched()


def test_a_source_without_news_is_heard_and_nothing_is_said(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.polls_for(10 * TOLD_AGAIN_MS, answers=False)
    assert watched.heard == 20 * TOLD_AGAIN_MS // 1000
    assert not caplog.messages


def test_a_source_that_does_not_answer_is_told_now_and_then_and_not_heard(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.polls_for(2_000, answers=True)
    heard = watched.heard
    watched.consumer.reason = "no broker could be reached"
    watched.polls_for(TOLD_AFTER_MS - 500, answers=False)
    assert not caplog.messages, "a leader may move"
    watched.polls_for(TOLD_AGAIN_MS + 1_500, answers=False)
    assert caplog.messages == [f"[A->B] A has not answered for {seconds} s: no broker could be reached" for seconds in (10, 70)]
    assert watched.heard == heard
    watched.consumer.reason = None
    watched.polls_for(1_000, answers=True)
    assert caplog.messages[-1] == "[A->B] A answers again, after 71 s" and len(caplog.messages) == 3
    assert watched.heard == heard + 2


def test_a_part_that_cannot_be_read_is_told_while_the_task_is_heard(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.consumer.reason = "t-1 has no leader"
    watched.polls_for(TOLD_AFTER_MS + 1_000, answers=True)
    assert caplog.messages == ["[A->B] not all partitions of A could be read for 10 s: t-1 has no leader"]
    assert watched.heard == 2 * (TOLD_AFTER_MS + 1_000) // 1000


def test_short_trouble_is_not_told(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(20):
        watched.consumer.reason = "t-1 has no leader"
        watched.polls_for(TOLD_AFTER_MS - 1_000, answers=False)
        watched.consumer.reason = None
        watched.polls_for(500, answers=True)
    assert not caplog.messages
