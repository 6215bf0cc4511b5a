"""One Apache Kafka broker and one kmirror cluster for all the differential tests; `pair` fails a
test that found a difference.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import Pair
from known_differences import is_known
from peer_pairs import COMMON, both


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with both(tmp_path_factory.mktemp("differential"), COMMON) as pair:
        yield pair


@pytest.fixture
def controllers(brokers: Pair) -> Iterator[Pair]:
    """The controller listeners of both."""
    found = brokers.controllers
    assert found is not None
    yield found
    found.close()
    lines = [line for line in found.report() if not is_known(line)]
    assert not lines, f"{len(lines)} differences:\n" + "\n".join(lines)


@pytest.fixture
def pair(brokers: Pair) -> Iterator[Pair]:
    brokers.report()
    yield brokers
    brokers.close()
    found = [line for line in brokers.report() if not is_known(line)]
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
