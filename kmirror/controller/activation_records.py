"""The records that a controller writes when it becomes active for the first time (Kafka's
`ActivationRecordsGenerator`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kmirror.common.ports import FileSystem
from kmirror.controller.controller_config import ControllerConfig
from kmirror.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, LATEST_METADATA_VERSION, METADATA_VERSION, MV_TRANSACTIONS
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.snapshot import BOOTSTRAP_FILE_NAME, decode_snapshot
from kmirror.metadata.topic_configs import default_text, inherited_topic_configs
from kmirror.wire.messages.begin_transaction_record import BeginTransactionRecord
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.end_transaction_record import EndTransactionRecord
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord


def activation_records(
    config: ControllerConfig, files: FileSystem, check_known: Callable[[Mapping[str, int]], None]
) -> list[ApiMessageAndVersion]:
    """Returns the content of `bootstrap.checkpoint` (without one: the newest metadata version), in
    one transaction if the metadata version supports that.

    `check_known` gets the feature levels and raises if this version does not support one.
    """
    path = f"{config.metadata_log_dir}/{BOOTSTRAP_FILE_NAME}"
    records: list[ApiMessageAndVersion] = []
    if files.exists(path):
        records = [ApiMessageAndVersion(r, 0) for r in decode_snapshot(files.read_bytes(path), path).records]
    levels = {r.message.name: r.message.feature_level for r in records if isinstance(r.message, FeatureLevelRecord)}
    if METADATA_VERSION not in levels:
        levels[METADATA_VERSION] = LATEST_METADATA_VERSION
        records.insert(0, ApiMessageAndVersion(FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION), 0))
    check_known(levels)
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1:
        name = "min.insync.replicas"
        value = inherited_topic_configs(config.static_topic_configs).get(name) or default_text(name)
        records.append(ApiMessageAndVersion(ConfigRecord(resource_type=4, resource_name="", name=name, value=value), 0))
    if levels[METADATA_VERSION] < MV_TRANSACTIONS:
        return records
    begin = ApiMessageAndVersion(BeginTransactionRecord(name="Bootstrap records"), 0)
    return [begin, *records, ApiMessageAndVersion(EndTransactionRecord(), 0)]
