"""Fixtures for the tests of metadata synchronization."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.mirrors.mirror_sync_doubles import SyncBench
from support.mirrors.source_double import SourceDouble


@pytest.fixture
def bench() -> Iterator[SyncBench]:
    made = SyncBench()
    yield made
    made.close()


@pytest.fixture
def source(bench: SyncBench) -> SourceDouble:
    """The source of mirror m, which has topic t with two partitions."""
    made = bench.make_mirror("m", SourceDouble())
    made.topic("t", 2)
    bench.topic("t", 2, mirror="m")
    return made
