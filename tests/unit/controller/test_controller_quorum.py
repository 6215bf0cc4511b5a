"""The running controller over a real metadata log: epochs, restarts, fetches of its log, events."""

from __future__ import annotations

import asyncio
import pathlib

import pytest
from support.brokers.controller_node import Node, records_of, scenario
from support.waiting import REACHED_S

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.metadata_log import METADATA_LOG_FOLDER
from kmirror.metadata.loader import MetadataLoader
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.wire.messages.no_op_record import NoOpRecord


def test_a_first_start_begins_epoch_1_with_the_newest_metadata_version(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        assert node.controller.epoch == 1
        assert node.controller.image.features.finalized_levels == {"metadata.version": 30}
        assert list(node.controller.image.cluster.controllers) == [1]
        assert node.controller.high_watermark == node.controller.state.log_end_offset
        state = (tmp_path / METADATA_LOG_FOLDER / "quorum-state").read_text()
        assert (
            state
            == '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}'
        )

    scenario(test, tmp_path)


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_everything_survives_a_restart(tmp_path: pathlib.Path, kill: bool) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        assert await node.create_topic("t") is Errors.NONE
        before = node.controller.image
        await node.restart(kill=kill)
        after = node.controller.image
        assert node.controller.epoch == 2
        assert after.topics == before.topics
        assert after.cluster.brokers == before.cluster.brokers
        assert after.features == before.features
        assert await node.create_topic("t") is Errors.TOPIC_ALREADY_EXISTS

    scenario(test, tmp_path)


def test_a_broker_builds_the_same_image_from_what_it_fetches(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        for name in ("a", "b", "c"):
            await node.create_topic(name)
        loader = MetadataLoader()
        while loader.next_offset < node.controller.high_watermark:
            loader.handle_commit(records_of(await node.fetch(loader.next_offset)))
        assert loader.image == node.controller.image

    scenario(test, tmp_path)


def test_a_fetch_at_the_end_waits_for_the_next_record(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        end = node.controller.high_watermark
        waiting = asyncio.ensure_future(node.fetch(end, max_wait_ms=60_000))
        await asyncio.sleep(0)
        assert not waiting.done()
        await node.create_topic("t")
        data = await waiting
        assert records_of(data)
        assert data.high_watermark > end
        assert records_of(await node.fetch(data.high_watermark)) == b""

    scenario(test, tmp_path)


def test_fetches_of_another_epoch_or_past(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.restart()
        assert (await node.fetch(0, epoch=1)).error_code == Errors.FENCED_LEADER_EPOCH
        ahead = await node.fetch(0, epoch=9)
        assert ahead.error_code == Errors.UNKNOWN_LEADER_EPOCH
        assert (ahead.current_leader.leader_id, ahead.current_leader.leader_epoch) == (1, 2)
        beyond = await node.fetch(500, last_epoch=2)
        assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (2, node.controller.state.log_end_offset)
        first_epoch_end = beyond.diverging_epoch.end_offset - 2
        diverged = await node.fetch(first_epoch_end + 1, last_epoch=1)
        assert diverged.diverging_epoch.epoch == 1

    scenario(test, tmp_path)


def test_events_that_wait_together_are_decided_one_after_the_other(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        first, second = asyncio.ensure_future(node.create_topic("t")), asyncio.ensure_future(node.create_topic("t"))
        assert [await first, await second] == [Errors.NONE, Errors.TOPIC_ALREADY_EXISTS]

    scenario(test, tmp_path)


def test_a_mistake_over_one_event_ended_the_controller_for_good(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        told: list[str] = []
        monkeypatch.setattr(node.runtime, "report_failure", lambda message, error: told.append(message))
        with pytest.raises(ApiException) as error:
            await node.controller.write("test", lambda: 1 // 0)  # type: ignore[arg-type, return-value]
        assert error.value.error is Errors.UNKNOWN_SERVER_ERROR
        assert told == ["the controller failed to process test"] and node.controller.fault_count == 1
        assert await node.create_topic("t") is Errors.NONE

    scenario(test, tmp_path)


def test_a_periodic_event_that_is_refused_comes_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: Node) -> None:
        told: list[str] = []
        monkeypatch.setattr(node.runtime, "report_failure", lambda message, error: told.append(message))
        elect = node.controller.replication.elections.elect_unclean
        again = asyncio.Event()

        def once() -> ControllerResult[None]:
            if not told:
                raise ApiException(Errors.UNKNOWN_SERVER_ERROR, "mistake")
            again.set()
            return elect()

        monkeypatch.setattr(node.controller.replication.elections, "elect_unclean", once)
        await asyncio.wait_for(again.wait(), REACHED_S)
        assert told == ["task controller/periodic ended unexpectedly and begins again in 100 ms"]
        assert node.controller.is_active

    scenario(test, tmp_path, unclean_election_interval_ms=10)


def test_the_owner_of_a_controller_that_failed_is_told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: Node) -> None:
        await node.start_broker()
        failures: list[str] = []
        node.controller.on_fatal = failures.append
        monkeypatch.setattr(node.runtime, "report_failure", lambda message, error: None)
        monkeypatch.setattr(node.controller.loader, "handle_records", lambda *arguments: 1 // 0)
        with pytest.raises(ApiException) as error:
            await node.controller.write("test", lambda: ControllerResult([ApiMessageAndVersion(NoOpRecord(), 0)], None))
        assert error.value.error is Errors.NOT_CONTROLLER
        await asyncio.sleep(0)
        assert (
            failures == ["Shutdown controller: it failed: ZeroDivisionError('integer division or modulo by zero')"]
            and not node.controller.is_active
        )

    scenario(test, tmp_path)


def test_noops_while_idle(tmp_path: pathlib.Path) -> None:
    async def test(node: Node) -> None:
        end = node.controller.high_watermark
        await node.fetch(end, max_wait_ms=5_000)
        assert node.controller.high_watermark > end
        assert node.controller.image.topics.by_name == {}

    scenario(test, tmp_path, metadata_max_idle_interval_ms=20)
