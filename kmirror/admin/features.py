"""AdminClient calls about features: what is finalized, what is supported, and changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from kmirror.admin.admin_requests import AdminRequests, error_of, raise_for
from kmirror.common.errors import ApiException
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


class UpgradeType(IntEnum):
    """`FeatureUpdate.UpgradeType`."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Levels by feature; `finalized_features_epoch` is -1 when it is not known."""

    finalized_features: dict[str, int]
    finalized_features_epoch: int
    supported_features: dict[str, tuple[int, int]]


async def describe_features(cluster: AdminRequests, *, node_id: int | None = None) -> FeatureMetadata:
    """Returns the features as one broker knows them: the given one, or any."""
    request = ApiVersionsRequest(client_software_name="kmirror", client_software_version="1")
    response = await cluster.ask_node(node_id, request)
    raise_for(response.error_code, None)
    return FeatureMetadata(
        {row.name: row.max_version_level for row in response.finalized_features},
        response.finalized_features_epoch,
        {row.name: (row.min_version, row.max_version) for row in response.supported_features},
    )


async def update_features(
    cluster: AdminRequests, updates: Mapping[str, tuple[int, UpgradeType]], *, validate_only: bool = False
) -> dict[str, ApiException | None]:
    """Sets the level of each feature (0 disables it); returns the outcome of each."""
    request = UpdateFeaturesRequest(
        timeout_ms=cluster.timeout_ms,
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=int(kind)) for name, (level, kind) in updates.items()
        ],
        validate_only=validate_only,
    )
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)
    errors: dict[str, ApiException | None] = dict.fromkeys(updates)
    return errors | {row.feature: error_of(row.error_code, row.error_message) for row in response.results}
