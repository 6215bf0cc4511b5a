"""What ApiVersions announces is served: each API in each version, and each feature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld
from support.brokers.frame_exchange import exchange

from kmirror.common.errors import Errors
from kmirror.network.request_context import CLOSE
from kmirror.server.broker_api_table import (
    BROKER_API_TABLE,
    ROWS,
    AnsweredBy,
    BrokerApi,
    unserved_features,
)
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord

REFUSED = [row for row in ROWS if row.answered_by is AnsweredBy.REFUSED]
ALL_ON = {
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
}
FEATURES = {
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
    "mirror.version": 1,
}

ANSWERABLE = {
    ApiKeys.PRODUCE: {"acks": 1},
    ApiKeys.DESCRIBE_ACLS: {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    },
}
"""What an empty request needs to be answered, by Kafka, too."""

NOT_IN_A_BROKER_WORLD = (AnsweredBy.REFUSED, AnsweredBy.CONTROLLER, AnsweredBy.MIRROR)


def world_with_all_features(folder: Path) -> BrokerWorld:
    world = BrokerWorld(str(folder), props=ALL_ON)
    for name, level in FEATURES.items():
        world.apply(FeatureLevelRecord(name=name, feature_level=level))
    return world


async def announced_by(world: BrokerWorld) -> Any:
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    return await exchange(world, ApiKeys.API_VERSIONS, 4, request)


def errors_in(message: Any) -> list[int]:
    """The message's own error code, or those of its first list of results."""
    own = getattr(message, "error_code", None)
    if own is not None:
        return [own]
    rows = [getattr(message, name) for name in message.__struct_fields__]
    return [row.error_code for value in rows if isinstance(value, list) for row in value if hasattr(row, "error_code")]


async def test_a_feature_was_announced_whose_clients_wait_for_ever(tmp_path: Path) -> None:
    announced = await announced_by(world_with_all_features(tmp_path))
    assert unserved_features() == {"share.version", "streams.version"}
    names = {row.name for row in [*announced.supported_features, *announced.finalized_features]}
    assert not names & unserved_features()
    assert FEATURES.keys() - names == unserved_features()


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.api_key.name)
async def test_a_client_of_a_refused_api_is_told_so(tmp_path: Path, row: BrokerApi) -> None:
    """librdkafka's share consumer waits without a word if ShareGroupHeartbeat is not announced."""
    world = world_with_all_features(tmp_path)
    announced = {key.api_key: key for key in (await announced_by(world)).api_keys}
    spec = API_TABLE[row.api_key]
    request: Any = spec.request()
    if hasattr(request, "group_ids"):
        request.group_ids = ["g"]
    for version in range(announced[row.api_key].min_version, announced[row.api_key].max_version + 1):
        response = await exchange(world, row.api_key, version, request)
        assert errors_in(response) == [Errors.UNSUPPORTED_VERSION]


async def test_every_announced_version_is_answered(tmp_path: Path) -> None:
    world = world_with_all_features(tmp_path)
    unanswered = []
    for key in (await announced_by(world)).api_keys:
        row = BROKER_API_TABLE[ApiKeys(key.api_key)]
        if row.answered_by in NOT_IN_A_BROKER_WORLD:
            continue
        request: Any = API_TABLE[row.api_key].request()
        for name, value in ANSWERABLE.get(row.api_key, {}).items():
            setattr(request, name, value)
        lowest = max(key.min_version, API_TABLE[row.api_key].lowest)
        for version in range(lowest, key.max_version + 1):
            response = await exchange(world, row.api_key, version, request)
            if response is CLOSE or Errors.UNSUPPORTED_VERSION in errors_in(response):
                unanswered.append((row.api_key.name, version, response))
    assert [row[:2] for row in unanswered] == []
