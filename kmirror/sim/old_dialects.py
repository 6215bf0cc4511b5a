"""Sources that answer mirrors as older versions of Kafka would, with fewer APIs and lower versions.

    2.1   no topic ids, no diverging epochs in fetches, a leader's epoch only from OffsetForLeaderEpoch
    2.8   topic ids in Metadata, but not in fetches
    3.9   all of these, but none of the mirror APIs

Only clients of a mirror see the lower versions; the cluster's brokers and other clients do not. The
APIs that copy records are capped. Groups, configs and ACLs are still asked for in today's versions.
`refuse` makes a source take a mirror's permissions away for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kmirror.server.apis.api_versions import handle_api_versions
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.request import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS

DIALECTS: Mapping[str, Mapping[ApiKeys, int]] = {
    "2.1": {ApiKeys.FETCH: 10, ApiKeys.METADATA: 7, ApiKeys.LIST_OFFSETS: 4, ApiKeys.OFFSET_FOR_LEADER_EPOCH: 2},
    "2.8": {ApiKeys.FETCH: 12, ApiKeys.METADATA: 11, ApiKeys.LIST_OFFSETS: 6, ApiKeys.OFFSET_FOR_LEADER_EPOCH: 4},
    "3.9": {ApiKeys.FETCH: 17, ApiKeys.METADATA: 12, ApiKeys.LIST_OFFSETS: 9, ApiKeys.OFFSET_FOR_LEADER_EPOCH: 4},
}
OF_A_MIRROR = "-mirror-"
"""A part of the client ids of all clients that work for a mirror."""


def speak(apis: KafkaApis, dialect: str) -> None:
    """Makes a broker answer mirrors in this dialect from now on."""
    highest = DIALECTS[dialect]

    async def answer(apis: KafkaApis, request: Request) -> ApiVersionsResponse:
        response = await handle_api_versions(apis, request)
        if OF_A_MIRROR in (request.client_id or ""):
            response.api_keys = [_capped(row, highest) for row in response.api_keys if row.api_key not in MIRROR_API_KEYS]
        return response

    apis.replace_handlers({ApiKeys.API_VERSIONS: answer})


def refuse(apis: KafkaApis, is_refused: Callable[[], bool]) -> None:
    """Makes a broker deny mirrors every permission while `is_refused()`."""
    authorize = apis.authorize

    def ask(request: Request, *question: Any) -> bool:
        return not (OF_A_MIRROR in (request.client_id or "") and is_refused()) and authorize(request, *question)

    vars(apis)["authorize"] = ask


def _capped(row: ApiVersion, highest: Mapping[ApiKeys, int]) -> ApiVersion:
    cap = highest.get(ApiKeys(row.api_key), row.max_version)
    return ApiVersion(row.api_key, row.min_version, min(row.max_version, cap))
