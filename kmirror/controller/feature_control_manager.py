"""Finalized feature levels: which upgrades and downgrades are allowed (Kafka's
`FeatureControlManager`).

Updates are checked one by one, in the order of the request; if one is refused, all are. Every node
must support the level. In addition, a level may depend on other features' levels (those after the
request); metadata.version can be lowered only across versions that changed no record; kraft.version
can never be lowered, and is a record of the log itself, not of the image.

Switching eligible.leader.replicas.version on fixes min.insync.replicas, which decides about
eligible replicas, to one value for the cluster: the controller's own is written as the cluster's
default if there is none, and brokers' own values are removed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.controller.configuration_control_manager import ConfigurationControlManager
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURES,
    KRAFT_VERSION,
    METADATA_CHANGING_VERSIONS,
    METADATA_VERSION,
    MIRROR_VERSION,
    supported_features,
    unmet_dependencies,
)
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import VersionRange
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.messages.no_op_record import NoOpRecord
from kmirror.wire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_DISABLED = VersionRange(0, 0)


class FeatureControlManager:
    """Decides about feature levels."""

    def __init__(self, state: ControllerState, configuration: ConfigurationControlManager) -> None:
        self._state = state
        self._configuration = configuration

    def supported(self) -> dict[str, VersionRange]:
        """Returns the levels that this controller supports."""
        return supported_features(unstable=self._state.config.unstable_feature_versions_enable)

    def check_known(self, levels: Mapping[str, int]) -> None:
        """Raises KmirrorError unless this controller supports the levels that were finalized before
        it started, e.g. mirror.version 1."""
        for name, level in levels.items():
            supported = self.supported().get(name, _DISABLED)
            if level not in supported:
                raise KmirrorError(
                    f"Tried to apply FeatureLevelRecord(name='{name}', featureLevel={level}), but this controller only supports versions "
                    f"{supported}"
                )

    def finalized(self) -> dict[str, int]:
        """Returns every finalized level above 0, including kraft.version's."""
        levels = dict(self._state.image.features.finalized_levels)
        return levels | {KRAFT_VERSION: self._state.kraft_version} if self._state.kraft_version > 0 else levels

    def update_features(self, request: UpdateFeaturesRequest, version: int) -> ControllerResult[UpdateFeaturesResponse]:
        """Applies all updates or none. The response has a result per feature only up to version 1
        of the request."""
        records: list[ApiMessageAndVersion] = []
        kraft_version: int | None = None
        levels = dict(self._state.image.features.finalized_levels)
        updates = {update.feature: update for update in request.feature_updates}
        for update in updates.values():
            levels[update.feature] = update.max_version_level
        for update in updates.values():
            kind = update.upgrade_type if version >= 1 else SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
            try:
                self._check(update.feature, update.max_version_level, kind, levels)
            except ApiException as error:
                text = f"The update failed for all features since the following feature had an error: {error.message}"
                return ControllerResult([], UpdateFeaturesResponse(error_code=error.error, error_message=text))
            if update.feature == KRAFT_VERSION:
                if update.max_version_level > self._state.kraft_version:
                    kraft_version = update.max_version_level
                    records.append(ApiMessageAndVersion(NoOpRecord(), 0))
            else:
                records += self._records(update.feature, update.max_version_level)
        response = UpdateFeaturesResponse(error_message=None)
        if version <= 1:
            response.results = [
                UpdatableFeatureResult(feature=feature, error_message=Errors.NONE.name)
                for feature in (update.feature for update in request.feature_updates)
            ]
        return ControllerResult([], response) if request.validate_only else ControllerResult(records, response, kraft_version)

    def _check(self, feature: str, level: int, kind: int, levels: dict[str, int]) -> None:
        """Raises ApiException with Kafka's text unless `feature` may go to `level`."""
        if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise _invalid(feature, level, "The controller does not support the given upgrade type.")
        present = self._state.kraft_version if feature == KRAFT_VERSION else self._present(feature)
        if level < 0:
            raise _invalid(feature, level, "A feature version cannot be less than 0.")
        self._check_supported(feature, level)
        if level < present and kind == UPGRADE:
            text = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
            raise _invalid(feature, level, text)
        if level > present and kind != UPGRADE:
            raise _invalid(feature, level, "Can't downgrade to a newer version.")
        if feature == METADATA_VERSION:
            _check_metadata_version(present, level, kind)
        elif feature == KRAFT_VERSION:
            if level < present:
                raise _invalid(feature, level, "Can't downgrade the version of this feature.")
        else:
            self._check_dependencies(feature, level, levels)

    def _present(self, feature: str) -> int:
        features = self._state.image.features
        return features.metadata_version if feature == METADATA_VERSION else features.level(feature)

    def _check_supported(self, feature: str, level: int) -> None:
        image = self._state.image.cluster
        ranges = [(f"Local controller {self._state.config.node_id}", self.supported())]
        ranges += [(f"Broker {broker.id}", broker.supported_features) for broker in image.brokers.values()]
        ranges += [
            (f"Controller {node.id}", node.supported_features)
            for node in image.controllers.values()
            if node.id != self._state.config.node_id
        ]
        for who, features in ranges:
            supported = features.get(feature, _DISABLED)
            if level not in supported:
                text = "does not support this feature." if supported.max == 0 else f"only supports versions {supported}"
                raise _invalid(feature, level, f"{who} {text}")

    def _check_dependencies(self, feature: str, level: int, levels: dict[str, int]) -> None:
        if feature not in FEATURES:
            raise _invalid(feature, level, f"Feature {feature} not found.")
        for needed, minimum in unmet_dependencies(feature, level, levels):
            raise _invalid(feature, level, f"{feature} could not be set to {level} because it depends on {needed} level {minimum}")
        if feature == MIRROR_VERSION and level < self._present(feature) and self._state.image.configs.mirror_names():
            names = ", ".join(self._state.image.configs.mirror_names())
            raise _invalid(feature, level, f"mirrors exist ({names}); delete them first.")

    def _records(self, feature: str, level: int) -> list[ApiMessageAndVersion]:
        records: list[ApiMessageAndVersion] = []
        if feature == ELIGIBLE_LEADER_REPLICAS_VERSION and level > 0 and not self._state.elr_enabled:
            records += self._configuration.elr_safety_records()
        return [*records, ApiMessageAndVersion(FeatureLevelRecord(name=feature, feature_level=level), 0)]


def _check_metadata_version(present: int, level: int, kind: int) -> None:
    """Refuses a downgrade across a version that added records or fields, since their content would
    be lost."""
    if level >= present or not any(level < version <= present for version in METADATA_CHANGING_VERSIONS):
        return
    text = f"Unsupported metadata.version downgrade from {present} to {level}. "
    if kind == UNSAFE_DOWNGRADE:
        text += "Unsafe metadata downgrade is not supported in this version."
    else:
        text += "Refusing to perform the requested downgrade because it might delete metadata information."
    raise ApiException(Errors.INVALID_UPDATE_VERSION, text)


def _invalid(feature: str, level: int, text: str) -> ApiException:
    return ApiException(Errors.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {feature}. {text}")
