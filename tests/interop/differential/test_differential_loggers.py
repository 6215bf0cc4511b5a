"""Levels of loggers by the BROKER_LOGGER resource: what is set, shown and refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from harness import Pair

from kmirror.wire.messages import alter_configs as ac
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

pytestmark = pytest.mark.interop

BROKER, LOGGER = 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
REQUEST_LOGGER = "kafka.request.logger"


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """The loggers are those of this process, so they get their levels back."""
    names = (None, REQUEST_LOGGER)
    before = [logging.getLogger(name).level for name in names]
    yield
    for name, level in zip(names, before, strict=True):
        logging.getLogger(name).setLevel(level)


def alter(*changes: tuple[str, int, str | None], name: str = "1", validate_only: bool = False) -> iac.IncrementalAlterConfigsRequest:
    configs = [iac.AlterableConfig(key, operation, value) for key, operation, value in changes]
    return iac.IncrementalAlterConfigsRequest([iac.AlterConfigsResource(LOGGER, name, configs)], validate_only)


def shown(pair: Pair, note: str) -> None:
    request = DescribeConfigsRequest([DescribeConfigsResource(LOGGER, "1", [REQUEST_LOGGER, "root"])], True, False)
    pair.every_version(request, note=note)


def test_levels_are_set_and_removed(pair: Pair) -> None:
    pair.same(alter((REQUEST_LOGGER, SET, "WARN"), ("root", SET, "INFO")), 1)
    shown(pair, "WARN")
    for level in ("FATAL", "ERROR", "TRACE"):
        pair.same(alter((REQUEST_LOGGER, SET, level), validate_only=level == "TRACE"), 0)
        shown(pair, level)
    pair.same(alter((REQUEST_LOGGER, DELETE, None)), 1)
    shown(pair, "inherits")


def test_what_is_refused(pair: Pair) -> None:
    pair.same(alter((REQUEST_LOGGER, SET, "ERROR"), ("root", SET, "WARN")), 1)
    cases = [
        alter((REQUEST_LOGGER, SET, "LOUD")), alter((REQUEST_LOGGER, SET, "debug")), alter((REQUEST_LOGGER, SET, None)),
        alter((REQUEST_LOGGER, APPEND, "DEBUG")), alter((REQUEST_LOGGER, SUBTRACT, "DEBUG")), alter(("no.such.logger", SET, "INFO")),
        alter(("no.such.logger", DELETE, None)), alter(("root", DELETE, None)), alter((REQUEST_LOGGER, SET, "INFO"), name="7"),
        alter((REQUEST_LOGGER, SET, "INFO"), name=""), alter((REQUEST_LOGGER, SET, "INFO"), name="x"),
        alter((REQUEST_LOGGER, SET, "INFO"), ("root", SET, "LOUD")),
    ]  # fmt: skip
    for number, request in enumerate(cases):
        pair.every_version(request, note=f"case {number}")
    shown(pair, "nothing was changed")
    legacy = ac.AlterConfigsRequest([ac.AlterConfigsResource(LOGGER, "1", [ac.AlterableConfig(REQUEST_LOGGER, "INFO")])], False)
    pair.every_version(legacy)
