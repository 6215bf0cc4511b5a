"""What a task does with each of its records, made from its connector's properties. None for a task whose
records go on as they are.
"""

from __future__ import annotations

from typing import NamedTuple

from kmirror.clients.produce_result import ProducerRecord
from kmirror.common.ports import Clock
from kmirror.mirrormaker.connector_config import MirrorConnectorConfig
from kmirror.mirrormaker.error_handling import ErrorCounts, ErrorSettings, RecordErrors
from kmirror.mirrormaker.transforms import Chain, Made, changes_headers, make_chain
from kmirror.mirrormaker.worker_config import WorkerConfig


class Transforming(NamedTuple):
    """`only_tolerates`: records go on as they are, and one by one only where the target refuses some."""

    chain: Chain
    errors: RecordErrors
    only_tolerates: bool = False


def producer_record(made: Made) -> ProducerRecord:
    """A record without a time gets that of the moment."""
    timestamp = None if made.timestamp < 0 else made.timestamp
    return ProducerRecord(made.topic, made.value, made.key, made.headers, made.partition, timestamp)


def transforming(config: MirrorConnectorConfig, worker: WorkerConfig, index: int, counts: ErrorCounts, clock: Clock) -> Transforming | None:
    """Of the task with this number. Records are looked at one by one if there are transformations, if the
    connector's converter of headers changes them, and if one that cannot be written is to be skipped.
    """
    tolerates_all = config.get_string("errors.tolerance") == "all"
    changes = bool(config.get_list("transforms")) or changes_headers(config.originals.get("header.converter"))
    if not changes and not tolerates_all:
        return None
    chain = make_chain(config.originals, worker.header_converter)
    settings = ErrorSettings(tolerates_all, config.get_bool("errors.log.enable"), config.get_bool("errors.log.include.messages"))
    return Transforming(chain, RecordErrors(f"{config.connector_name}-{index}", settings, counts, clock), not changes)
