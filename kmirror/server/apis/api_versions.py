"""ApiVersions (key 18). Served: v0-v4 (v3 client software, features; v4 features of minimum 0).

The broker advertises what it serves by its table of APIs, in the versions that `served_versions`
gives. A request in a version above ours is answered (by `request_frames`) in version 0 with
UNSUPPORTED_VERSION and our own range of this API, so that the client can step down. A client
software name that is not `[a-zA-Z0-9](?:[a-zA-Z0-9\\-.]*[a-zA-Z0-9])?` is INVALID_REQUEST
(KIP-511). Features with minimum level 0 are left out below v4, whose clients cannot read them.
A feature that is finalized and whose clients this broker refuses is not announced: neither as
supported nor as finalized.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kmirror.common.errors import Errors
from kmirror.metadata.features import supported_features
from kmirror.server.broker_api_table import unserved_features
from kmirror.server.request import Request
from kmirror.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

FIRST_VERSION_WITH_CLIENT_SOFTWARE = 3
FIRST_VERSION_WITH_ZERO_LEVELS = 4
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle_api_versions(apis: KafkaApis, request: Request) -> ApiVersionsResponse:
    message: ApiVersionsRequest = request.message
    if request.api_version >= FIRST_VERSION_WITH_CLIENT_SOFTWARE:
        names = (message.client_software_name, message.client_software_version)
        if not all(_SOFTWARE_NAME.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=Errors.INVALID_REQUEST)
        request.client_information.software_name, request.client_information.software_version = names
    unserved = unserved_features()
    supported = [
        SupportedFeatureKey(name=name, min_version=levels.min, max_version=levels.max)
        for name, levels in sorted(supported_features(unstable=apis.config.unstable_feature_versions_enable).items())
        if name not in unserved
        if levels.min > 0 or request.api_version >= FIRST_VERSION_WITH_ZERO_LEVELS
    ]
    image = apis.metadata_cache.image
    return ApiVersionsResponse(
        api_keys=[ApiVersion(served.api_key, served.advertised_lowest, served.highest) for served in apis.served.ranges()],
        supported_features=supported,
        finalized_features_epoch=image.highest_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(apis.metadata_cache.finalized_features().items())
            if name not in unserved
        ],
    )
