"""Finalized feature levels: which may be chosen, up and down (Kafka's `FeatureControlManager`)."""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.metadata.features import (
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    MIRROR_VERSION,
    supported_features,
    unmet_dependencies,
)
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import VersionRange
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class FeatureControlManager:
    """Decisions about feature levels."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def supported(self) -> dict[str, VersionRange]:
        """What this controller supports."""
        return supported_features(unstable=self._state.config.unstable_feature_versions_enable)

    def update_features(self, request: UpdateFeaturesRequest, version: int) -> ControllerResult[UpdateFeaturesResponse]:
        """All updates or none. Results per feature are sent up to version 1 of the request only."""
        records: list[ApiMessageAndVersion] = []
        levels = dict(self._state.image.features.finalized_levels)
        for update in request.feature_updates:
            levels[update.feature] = update.max_version_level
        for update in request.feature_updates:
            kind = update.upgrade_type if version >= 1 else SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
            try:
                records += self._update(update.feature, update.max_version_level, kind, levels)
            except ApiException as error:
                text = f"The update failed for all features since the following feature had an error: {error.message}"
                return ControllerResult([], UpdateFeaturesResponse(error_code=error.error, error_message=text))
        response = UpdateFeaturesResponse(error_message=None)
        if version <= 1:
            response.results = [UpdatableFeatureResult(feature=update.feature, error_message=None) for update in request.feature_updates]
        return ControllerResult([] if request.validate_only else records, response)

    def _update(self, feature: str, level: int, kind: int, levels: dict[str, int]) -> list[ApiMessageAndVersion]:
        if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise _invalid(feature, level, "The controller does not support the given upgrade type.", request=True)
        present = self._state.image.features.level(feature)
        if level < 0:
            raise _invalid(feature, level, "A feature version cannot be less than 0.")
        self._check_supported(feature, level)
        if level < present:
            self._check_downgrade(feature, level, kind)
        elif level > present and kind != UPGRADE:
            raise _invalid(feature, level, "Can't downgrade to a newer version.")
        for needed, minimum in unmet_dependencies(feature, level, levels):
            raise _invalid(feature, level, f"{feature}={level} depends on {needed} level {minimum}")
        for other, other_level in levels.items():
            for needed, minimum in unmet_dependencies(other, other_level, levels):
                if needed == feature:
                    raise _invalid(feature, level, f"{other}={other_level} depends on {feature} level {minimum}")
        if level == present:
            return []
        return [ApiMessageAndVersion(FeatureLevelRecord(name=feature, feature_level=level), 0)]

    def _check_supported(self, feature: str, level: int) -> None:
        if feature == KRAFT_VERSION:
            raise _invalid(feature, level, "The quorum of this controller has one voter, fixed when it was formatted.")
        node_id = self._state.config.node_id
        ranges = [(f"Local controller {node_id}", self.supported())]
        ranges += [(f"Broker {broker.id}", broker.supported_features) for broker in self._state.image.cluster.brokers.values()]
        for who, supported in ranges:
            if feature not in supported:
                if level != 0:
                    raise _invalid(feature, level, f"{who} does not support this feature.")
            elif level not in supported[feature] and not (level == 0 and feature in FEATURES):
                raise _invalid(feature, level, f"{who} only supports versions {supported[feature]}")

    def _check_downgrade(self, feature: str, level: int, kind: int) -> None:
        if kind == UPGRADE:
            text = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
            raise _invalid(feature, level, text)
        if feature == METADATA_VERSION:
            if kind == UNSAFE_DOWNGRADE:
                raise _invalid(feature, level, "Unsafe metadata downgrade is not supported in this version.")
            name = METADATA_VERSION_NAMES.get(level, str(level))
            text = f"Refusing to perform the requested downgrade to {name} because it might delete metadata information."
            raise _invalid(feature, level, text)
        if feature == MIRROR_VERSION and self._state.image.configs.mirror_names():
            names = ", ".join(self._state.image.configs.mirror_names())
            raise _invalid(feature, level, f"mirrors exist ({names}); delete them first.")


def _invalid(feature: str, level: int, text: str, *, request: bool = False) -> ApiException:
    code = Errors.INVALID_REQUEST if request else Errors.INVALID_UPDATE_VERSION
    return ApiException(code, f"Invalid update version {level} for feature {feature}. {text}")
