"""Signals that end a program: which of them count."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.waiting import REACHED_S

from kmirror.runtime import ending_signals
from kmirror.runtime.ending_signals import COPIES_S, ENDING, signals_heard


class ClockedLoop:
    """Takes handlers, and the time is what the test says."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.handlers: dict[signal.Signals, tuple[object, ...]] = {}

    def time(self) -> float:
        return self.now_s

    def add_signal_handler(self, number: signal.Signals, callback: object, *arguments: object) -> None:
        self.handlers[number] = (callback, *arguments)

    def remove_signal_handler(self, number: signal.Signals) -> None:
        del self.handlers[number]

    def signal(self, number: signal.Signals) -> None:
        callback, *arguments = self.handlers[number]
        callback(*arguments)  # type: ignore[operator]


def test_a_copy_of_a_signal_is_not_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = ClockedLoop()
    monkeypatch.setattr(ending_signals.asyncio, "get_running_loop", lambda: loop)
    heard: list[signal.Signals] = []
    with signals_heard(heard.append):
        loop.signal(signal.SIGTERM)
        loop.signal(signal.SIGTERM)
        loop.now_s += COPIES_S / 2
        loop.signal(signal.SIGINT)
        assert heard == [signal.SIGTERM]
        loop.now_s += COPIES_S / 2
        loop.signal(signal.SIGINT)
        assert heard == [signal.SIGTERM, signal.SIGINT], "an impatient operator"
    assert loop.handlers == {}


def test_outside_the_main_thread_none_is_heard() -> None:
    entered = threading.Event()

    async def work() -> None:
        with signals_heard(lambda _: None):
            entered.set()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()
    assert entered.is_set()


CLUSTER_ID = "lBq12jYZRp-9wF3M9MPopg"
PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:0
log.dirs={folder}
"""


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_node_whose_process_and_group_are_signalled_shut_down_uncleanly(tmp_path: Path, number: signal.Signals) -> None:
    """`timeout` signals its child, and then its own group with the child in it."""
    folder, config, scripts = tmp_path / "logs", tmp_path / "node.properties", Path(sys.executable).parent
    config.write_text(PROPERTIES.format(folder=folder))
    subprocess.run([scripts / "kmirror", "format", "-t", CLUSTER_ID, "-c", config], check=True, capture_output=True)
    with subprocess.Popen([scripts / "kmirror", "start", "-c", config], stderr=subprocess.PIPE, text=True) as node:
        assert node.stderr is not None
        log = []
        while "Kafka Server started" not in "".join(log[-1:]):
            log.append(node.stderr.readline())
            assert log[-1], "".join(log)
        node.send_signal(number)
        node.send_signal(number)
        assert node.wait(REACHED_S) == 0
    assert (folder / ".kafka_cleanshutdown").exists()
