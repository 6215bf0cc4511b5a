"""Names of hosts that no resolver takes, and ports that are none, are errors of the network,
whatever they are made of.
"""

from __future__ import annotations

import asyncio

import pytest

from kmirror.runtime.asyncio_runtime import AsyncioRuntime


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("::1", 2**31 - 1)])
def test_a_port_that_is_none_ended_the_task_that_connected(host: str, port: int) -> None:
    """A source whose Metadata named such a broker ended the mirror's tasks for good."""

    async def connect() -> None:
        runtime = AsyncioRuntime()
        try:
            with pytest.raises(OSError, match=f"{port} is not a port"):
                await runtime.connect(host, port, lambda: pytest.fail("connected"))
        finally:
            runtime.close()

    asyncio.run(connect())


@pytest.mark.parametrize("name", ["\ufffd.example", "x" * 64 + ".example", "a\0b", "a..b", ""])
def test_a_name_that_cannot_be_encoded_ended_the_task_that_connected(name: str) -> None:
    """A mirror's bootstrap server of this kind (found by the fuzzer) ended the mirror's tasks for
    good.
    """

    async def connect() -> None:
        runtime = AsyncioRuntime()
        try:
            with pytest.raises(OSError):
                await runtime.connect(name, 1, lambda: pytest.fail("connected"))
        finally:
            runtime.close()

    asyncio.run(connect())
