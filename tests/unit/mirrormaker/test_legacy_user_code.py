"""What users' handlers and rebalance listeners may do wrong: it ends their stream, in one line."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from support.mirrors.mirror_maker_doubles import Doubles, consumed

from kmirror.clients.kafka_producer import ProducerRecord
from kmirror.common.errors import ConfigError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.legacy.message_handler import MessageHandlerError, handled
from kmirror.mirrormaker.legacy.plugins import load_message_handler, load_rebalance_listener
from kmirror.mirrormaker.legacy.user_code import called

PARTITION = TopicPartition("t", 0)


class Returning:
    """Returns what it was made with."""

    def __init__(self, made: object) -> None:
        self.made = made

    def handle(self, record):
        return self.made


class Raising:
    """Raises what it was made with at offset 2, as a plain method does."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def handle(self, record):
        if record.offset == 2:
            raise self.error
        return [ProducerRecord("t", record.value)]


class RaisingLater(Raising):
    """The same in a coroutine."""

    async def handle(self, record):
        await asyncio.sleep(0)
        return super().handle(record)


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        (b"bytes", "a bytes among its records, which is no ProducerRecord"),
        (ProducerRecord(None, b"v"), "whose topic is None"),
        (ProducerRecord("t", "text"), "whose value is a str: it must be bytes or None"),
        (ProducerRecord("t", b"v", key=7), "whose key is a int: it must be bytes or None"),
        (ProducerRecord("t", b"v", headers=[("name", "text")]), "whose headers are not pairs of a str and bytes or None"),
        (ProducerRecord("t", b"v", headers=[(b"name", b"v")]), "whose headers are not pairs"),
        (ProducerRecord("t", b"v", headers=[b"header"]), "whose headers are not pairs"),
        (ProducerRecord("t", b"v", headers=None), "whose headers are not pairs"),
        (ProducerRecord("t", b"v", partition="0"), "whose partition is '0': it must be None or a number from 0 to 2147483647"),
        (ProducerRecord("t", b"v", partition=-1), "whose partition is -1"),
        (ProducerRecord("t", b"v", timestamp=-5), "whose timestamp is -5: it must be None or a number from 0 to 9223372036854775807"),
        (ProducerRecord("t", b"v", timestamp=1.5), "whose timestamp is 1.5"),
        (ProducerRecord("t", b"v", timestamp=1 << 63), "whose timestamp is 9223372036854775808"),
    ],
)
async def test_a_record_that_cannot_be_sent_never_gets_among_those_that_can(record: object, fault: str) -> None:
    good = ProducerRecord("t", b"v", key=memoryview(b"k"), headers=[("h", None)], partition=0, timestamp=0)
    with pytest.raises(MessageHandlerError, match=re.escape(f"at t-0, offset 5: it returned a {type(record).__name__}")) as caught:
        await handled(Returning([good, record]), consumed(5))
    assert fault in str(caught.value)
    assert await handled(Returning((good,)), consumed(5)) == [good]


@pytest.mark.parametrize("kind", [Raising, RaisingLater])
@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), MemoryError("full")])
def test_whatever_a_handler_raises_ends_the_stream_in_order(
    kind: type[Raising], error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that calls sys.exit(0) must not end the tool as if all were well."""
    doubles = Doubles(message_handler=kind(error))
    doubles.consumer.polls = [[consumed(0), consumed(1), consumed(2), consumed(3)]]
    assert not doubles.play()
    assert doubles.consumer.committed == {PARTITION: 2} and doubles.consumer.closed
    assert len([line for line in caplog.messages if f"at t-0, offset 2: {type(error).__name__}: {error}" in line]) == 1


async def test_a_cancellation_by_the_owner_of_the_task_is_passed_on() -> None:
    waits = asyncio.Event()
    task = asyncio.create_task(called(waits.wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rude_plugins.py").write_text(
        "import sys\n"
        "class Exits:\n"
        "    def __init__(self): sys.exit(0)\n"
        "class ExitsLater:\n"
        "    def on_partitions_revoked(self, partitions): sys.exit(0)\n"
    )
    (tmp_path / "exiting_module.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("plugins")
def test_a_plugin_that_exits_while_it_is_made_is_an_error() -> None:
    with pytest.raises(ConfigError, match="rude_plugins:Exits cannot be made: SystemExit: 0"):
        load_message_handler("rude_plugins:Exits", None)
    with pytest.raises(ConfigError, match="the module cannot be loaded: SystemExit: 0"):
        load_message_handler("exiting_module:X", None)


@pytest.mark.usefixtures("plugins")
def test_whatever_a_listener_raises_ends_the_stream_in_order(caplog: pytest.LogCaptureFixture) -> None:
    doubles = Doubles(rebalance_listener=load_rebalance_listener("rude_plugins:ExitsLater", None))

    async def revoke(consumer):
        await consumer.listener.on_partitions_revoked([PARTITION])

    doubles.consumer.polls = [[consumed(0)], revoke]
    assert not doubles.play()
    assert doubles.consumer.committed == {PARTITION: 1} and doubles.consumer.closed
    assert "User rebalance callback throws an error: on_partitions_revoked([t-0]): SystemExit: 0" in caplog.text
