"""The broker's table of APIs is complete, agrees with the wire's, and its gates close."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld

from kmirror.common.errors import Errors
from kmirror.metadata.authorizer.auth_helper import AuthHelper
from kmirror.server.broker_api_table import MIRRORING, PLAINLY_FORWARDED, ROWS, TELEMETRY, AnsweredBy, BrokerApi, Gate
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.request import NO_RESPONSE, Request
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages import consumer_group_describe, consumer_group_heartbeat, describe_share_group_offsets
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS

BEHIND_A_FEATURE = [row for row in ROWS if row.gate is not None and row.gate.feature is not None]
CLUSTER_ACTIONS = [row for row in ROWS if row.is_cluster_action]


def test_every_api_has_exactly_one_row() -> None:
    assert [row.api_key for row in ROWS] == sorted(API_TABLE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api_key.name)
def test_a_row_agrees_with_the_api_table_of_the_wire(row: BrokerApi) -> None:
    spec = API_TABLE[row.api_key]
    assert (row.answered_by is AnsweredBy.CONTROLLER_LISTENER) == ("broker" not in spec.listeners)
    if "broker" in spec.listeners:
        assert (row.answered_by is AnsweredBy.CONTROLLER) == spec.forwardable
    assert not row.is_cluster_action or spec.cluster_action


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api_key.name)
def test_a_row_has_a_handler_if_somebody_answers(row: BrokerApi) -> None:
    assert bool(row.handler_name) == (row.answered_by is not AnsweredBy.CONTROLLER_LISTENER)
    if row.handler_name:
        file, _, function = row.handler_name.partition(".")
        assert inspect.iscoroutinefunction(getattr(importlib.import_module(f"kmirror.server.apis.{file}"), function))


def test_every_handler_of_the_folder_is_in_the_table() -> None:
    folder = Path(inspect.getfile(KafkaApis)).parent / "apis"
    defined = {
        f"{file.stem}.{name}"
        for file in folder.glob("*.py")
        for name, value in vars(importlib.import_module(f"kmirror.server.apis.{file.stem}")).items()
        if name.startswith("handle_") and value.__module__.endswith(f".{file.stem}")
    }
    assert defined == {row.handler_name for row in ROWS if row.handler_name}


def test_everything_of_mirroring_stands_behind_its_gate() -> None:
    assert {row.api_key for row in ROWS if row.gate is MIRRORING} == MIRROR_API_KEYS


@pytest.mark.parametrize("gate", [MIRRORING, TELEMETRY], ids=["mirroring", "telemetry"])
def test_a_setting_closes_its_gate(tmp_path: Path, gate: Gate) -> None:
    assert gate.served_with is not None
    gated = {row.api_key for row in ROWS if row.gate is gate}

    def served(folder: str, value: str) -> set[ApiKeys]:
        (tmp_path / folder).mkdir()
        return {row.api_key for row in BrokerWorld(str(tmp_path / folder), props={gate.served_with or "": value}).apis.served.ranges()}

    assert not gated & served("closed", "false")
    assert gated <= served("open", "true")


def test_what_is_served_is_what_somebody_answers_behind_an_open_gate(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    closed = {row.api_key for row in ROWS if row.gate in (MIRRORING, TELEMETRY)}
    assert {row.api_key for row in world.apis.served.ranges()} == {row.api_key for row in ROWS if row.handler_name} - closed


def watched(world: BrokerWorld, api_key: ApiKeys) -> list[Request]:
    """The requests that come to the API's handler from now on; none is answered."""
    seen: list[Request] = []

    async def note(apis: KafkaApis, request: Request) -> Any:
        seen.append(request)
        return NO_RESPONSE

    world.apis.replace_handlers({api_key: note})
    return seen


@pytest.mark.parametrize("row", BEHIND_A_FEATURE, ids=lambda row: row.api_key.name)
async def test_a_feature_opens_its_gate_and_nothing_passes_before(tmp_path: Path, row: BrokerApi) -> None:
    world = BrokerWorld(str(tmp_path))
    seen = watched(world, row.api_key)
    message, version = API_TABLE[row.api_key].request(), API_TABLE[row.api_key].highest
    response = await world.ask(row.api_key, message, version)
    assert not seen
    assert getattr(response, "error_code", Errors.UNSUPPORTED_VERSION) == Errors.UNSUPPORTED_VERSION
    assert row.gate is not None
    world.apply(FeatureLevelRecord(name=row.gate.feature, feature_level=1))
    assert await world.ask(row.api_key, message, version) is NO_RESPONSE
    assert [request.message for request in seen] == [message]


async def test_consumer_groups_need_their_protocol(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), props={"group.coordinator.rebalance.protocols": "classic"})
    world.apply(FeatureLevelRecord(name="group.version", feature_level=1))
    seen = watched(world, ApiKeys.CONSUMER_GROUP_HEARTBEAT)
    message = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id="g")
    response = await world.ask(ApiKeys.CONSUMER_GROUP_HEARTBEAT, message, 1)
    assert (response.error_code, response.error_message, seen) == (Errors.UNSUPPORTED_VERSION, None, [])


async def test_a_closed_gate_is_told_of_each_group_that_was_asked_about(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    described = await world.ask(
        ApiKeys.CONSUMER_GROUP_DESCRIBE, consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["a", "b"]), 1
    )
    unsupported = Errors.UNSUPPORTED_VERSION
    assert described.groups == [consumer_group_describe.DescribedGroup(group_id=name, error_code=unsupported) for name in ("a", "b")]
    group = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id="s")
    offsets = await world.ask(
        ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS, describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=[group]), 1
    )
    row = describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup
    assert offsets.groups == [row(group_id="s", error_code=unsupported)]


class DenyEverything:
    def authorize(self, context: Any, action: Any) -> bool:
        return False


@pytest.mark.parametrize("row", CLUSTER_ACTIONS, ids=lambda row: row.api_key.name)
async def test_a_cluster_action_without_its_permission_does_not_reach_the_handler(tmp_path: Path, row: BrokerApi) -> None:
    world = BrokerWorld(str(tmp_path))
    world.apply(FeatureLevelRecord(name="mirror.version", feature_level=1))
    world.apis.auth = AuthHelper(DenyEverything())  # type: ignore[arg-type]
    seen = watched(world, row.api_key)
    response = await world.ask(row.api_key, API_TABLE[row.api_key].request(), API_TABLE[row.api_key].highest)
    assert not seen
    assert getattr(response, "error_code", Errors.CLUSTER_AUTHORIZATION_FAILED) == Errors.CLUSTER_AUTHORIZATION_FAILED


async def test_what_a_broker_forwards_reaches_the_controller_as_it_came(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    for row in ROWS:
        if row.handler_name == PLAINLY_FORWARDED and row.gate is None:
            message = API_TABLE[row.api_key].request()
            world.controller.answers[type(message).__name__] = lambda asked: API_TABLE[row.api_key].response()
            await world.ask(row.api_key, message, API_TABLE[row.api_key].highest)
            assert world.controller.forwarded[-1].message is message
