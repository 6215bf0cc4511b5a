"""What lasts has one line when it begins, one for each change and one when it ends."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmirror.common.lasting_conditions import NAMES_TOLD, LastingConditions, SharedConditions


class Bench:
    def __init__(self, *, grace_ms: int = 0) -> None:
        self.now_ms = 0
        self.lines: list[tuple[int, str]] = []
        log: Any = self
        self.conditions = LastingConditions(log, lambda: self.now_ms, grace_ms=grace_ms)

    def log(self, level: int, text: str, *arguments: object) -> None:
        self.lines.append((level, text % arguments))

    def info(self, text: str, *arguments: object) -> None:
        self.log(logging.INFO, text, *arguments)

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.lines]


def test_the_same_condition_was_logged_in_every_cycle() -> None:
    bench = Bench()
    for now_ms in range(0, 30_000, 1_000):
        bench.now_ms = now_ms
        bench.conditions.tell("acls", "the source has no authorizer", subject="mirror m")
    assert bench.lines == [(logging.WARNING, "mirror m: the source has no authorizer")]
    bench.conditions.end("acls")
    assert bench.lines[1:] == [(logging.INFO, "mirror m: over after 29 s: the source has no authorizer")]
    bench.conditions.end("acls")
    assert len(bench.lines) == 2
    bench.conditions.tell("acls", "the source has no authorizer", subject="mirror m")
    assert len(bench.lines) == 3, "what begins anew is told anew"


def test_two_reasons_that_alternate_are_two_lines() -> None:
    bench = Bench()
    for turn in range(10):
        bench.conditions.tell("source", ("refused", "timed out")[turn % 2])
    assert bench.texts == ["refused", "timed out"]
    assert bench.conditions.text("source") == "timed out"


def test_what_heals_within_the_grace_has_no_line() -> None:
    bench = Bench(grace_ms=5_000)
    bench.conditions.tell("controller", "refused")
    bench.now_ms = 4_999
    bench.conditions.tell("controller", "refused")
    bench.conditions.end("controller")
    assert bench.lines == []
    bench.conditions.tell("controller", "refused")
    bench.now_ms += 5_000
    bench.conditions.tell("controller", "refused")
    bench.conditions.end("controller")
    assert bench.texts == ["refused", "over after 5 s: refused"]


def test_many_names_with_one_reason_share_a_line() -> None:
    bench = Bench()
    names = [f"t-{number}" for number in range(250)]
    bench.conditions.replace(names, dict.fromkeys(names, "no leader"), subject="mirror m")
    assert bench.texts == [f"mirror m: {', '.join(names[:NAMES_TOLD])} and {250 - NAMES_TOLD} more: no leader"]
    bench.conditions.replace(names, {"t-3": "no leader"}, subject="mirror m")
    assert len(bench.lines) == 2 and bench.texts[1].startswith("mirror m: over for t-0, t-1, t-2, t-4, t-5 and 244 more")
    bench.conditions.replace(names, {"t-3": "no leader"}, subject="mirror m")
    assert len(bench.lines) == 2


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=60), st.sampled_from([0, 3]))
def test_lines_grow_with_the_changes_and_never_with_the_cycles(cycles: list[str], repeats: int) -> None:
    once, often = Bench(), Bench()
    for bench, times in ((once, 1), (often, 1 + repeats)):
        for text in cycles:
            for _ in range(times):
                if text:
                    bench.conditions.tell("k", text)
                else:
                    bench.conditions.end("k")
    assert once.lines == often.lines
    changes = sum(1 for before, after in zip(["", *cycles], cycles, strict=False) if before != after)
    assert len(once.lines) <= changes
    assert len(once.conditions) == (1 if cycles and cycles[-1] else 0)


@pytest.mark.parametrize("ends", ["forget", "end"])
def test_what_is_gone_is_forgotten(ends: str) -> None:
    bench = Bench()
    bench.conditions.tell("k", "text")
    getattr(bench.conditions, ends)("k")
    assert "k" not in bench.conditions and bench.conditions.texts() == []
    assert len(bench.lines) == (1 if ends == "forget" else 2)


class SharedBench:
    def __init__(self, grace_ms: int = 5_000) -> None:
        self.now_ms = 0
        self.bench = Bench()
        log: Any = self.bench
        self.conditions = SharedConditions(log, lambda: self.now_ms, grace_ms=grace_ms)

    @property
    def texts(self) -> list[str]:
        return self.bench.texts


def test_what_keeps_250_partitions_is_one_line_when_it_begins_and_one_when_it_ends() -> None:
    shared = SharedBench()
    names = [f"t-{number}" for number in range(250)]
    for shared.now_ms in range(0, 20_000, 500):
        for name in names:
            shared.conditions.tell(name, "no coordinator", subject="mirror m")
    assert shared.texts == [f"mirror m: {', '.join(names[:NAMES_TOLD])} and {250 - NAMES_TOLD} more: no coordinator"]
    for name in names:
        shared.conditions.end(name)
    assert len(shared.texts) == 2 and shared.texts[1] == "mirror m: over after 19 s: no coordinator"
    assert len(shared.conditions) == 0


def test_a_passing_reason_of_many_partitions_is_no_line() -> None:
    shared = SharedBench()
    for number in range(250):
        shared.conditions.tell(number, "no coordinator", subject="mirror m")
        shared.now_ms += 10
        shared.conditions.end(number)
    assert shared.texts == []


def test_those_that_come_later_are_named_and_another_reason_begins_anew() -> None:
    shared = SharedBench(grace_ms=1_000)
    for shared.now_ms in (0, 1_000):
        shared.conditions.tell("a", "refused", subject="mirror m")
    for shared.now_ms in (5_000, 5_600, 6_000):
        for name in ("a", "b", "c"):
            shared.conditions.tell(name, "refused", subject="mirror m")
    assert shared.texts == ["mirror m: a: refused", "mirror m: b, c: refused"]
    for shared.now_ms in (7_000, 8_000):
        shared.conditions.tell("b", "timed out", subject="mirror m")
    assert shared.texts[2:] == ["mirror m: b: timed out"]
    shared.conditions.forget("a")
    assert len(shared.texts) == 3
    shared.conditions.end("c")
    assert shared.texts[3:] == ["mirror m: over after 3 s: refused"]
