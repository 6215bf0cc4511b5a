"""Turns the committed metadata log into images and informs publishers (Kafka's `MetadataLoader`,
`MetadataBatchLoader`).

The loader gets what a node fetched (or, in a controller, appended): raw record batches in log
order, or a whole snapshot. Each data record goes through `MetadataDelta.replay`. Batches between
BeginTransactionRecord and EndTransactionRecord take effect together; an AbortTransactionRecord
drops them. Publishers see deltas only at batch ends outside transactions. A publisher that is
installed later gets one delta from the empty image to the present one, so it never needs another
way to start.

Publishers are called synchronously, in the order of their installation; a publisher with long work
starts a task for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from kmirror.common.ports import Buffer
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage, MetadataProvenance
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.wire.messages.abort_transaction_record import AbortTransactionRecord
from kmirror.wire.messages.begin_transaction_record import BeginTransactionRecord
from kmirror.wire.messages.end_transaction_record import EndTransactionRecord
from kmirror.wire.messages.kraft_version_record import KRaftVersionRecord
from kmirror.wire.records import read_metadata_record

_OF_TRANSACTIONS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class LoaderManifestType(Enum):
    LOG_DELTA = "log delta"
    SNAPSHOT = "snapshot"


class LoaderManifest(NamedTuple):
    """Where a delta came from."""

    type: LoaderManifestType
    provenance: MetadataProvenance


class MetadataPublisher(Protocol):
    """Acts on new metadata. It must not raise: an exception of a publisher is fatal to the node, as
    in Kafka."""

    name: str

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """`image` is the image after `delta`, and `delta.image` the one before."""
        ...


class MetadataLoader:
    """Owns the newest image of one node."""

    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY
        self.kraft_version = 0
        self.snapshots_loaded = 0
        self._publishers: list[MetadataPublisher] = []
        self._delta = MetadataDelta(self.image)
        self._pending: list[Any] | None = None
        self._provenance = self.image.provenance

    @property
    def next_offset(self) -> int:
        """The offset that the loader needs next."""
        return self._provenance.last_contained_offset + 1

    def install_publisher(self, publisher: MetadataPublisher) -> None:
        """Adds `publisher` and, if anything was loaded, brings it up to date at once (with one
        snapshot delta)."""
        self._publishers.append(publisher)
        if self.image.highest_offset >= 0:
            delta = delta_from_empty(self.image)
            publisher.on_metadata_update(delta, self.image, LoaderManifest(LoaderManifestType.SNAPSHOT, self.image.provenance))

    def handle_commit(self, records: Buffer) -> None:
        """Loads committed record batches. Batches below `next_offset` are skipped (a Fetch may
        begin before it)."""
        for batch in iter_batches(records):
            if batch.last_offset >= self.next_offset:
                self._load_batch(batch)
        self._maybe_publish(LoaderManifestType.LOG_DELTA)

    def handle_records(self, records: Iterable[Any], provenance: MetadataProvenance) -> None:
        """Loads data records that are already decoded (the controller's own, just committed)."""
        for record in records:
            self._replay(record)
        self._provenance = provenance
        self._maybe_publish(LoaderManifestType.LOG_DELTA)

    def handle_load_snapshot(self, records: Iterable[Any], provenance: MetadataProvenance, *, kraft_version: int | None = None) -> None:
        """Replaces the image by a snapshot's data records, and kraft.version by the value in its
        control records; publishers get the difference."""
        self.snapshots_loaded += 1
        if kraft_version is not None:
            self.kraft_version = kraft_version
        self._pending = None
        self._delta = MetadataDelta(self.image)
        for record in records:
            self._delta.replay(record)
        self._delta.finish_snapshot()
        self._provenance = provenance
        self._maybe_publish(LoaderManifestType.SNAPSHOT)

    def _load_batch(self, batch: RecordBatch) -> None:
        if not batch.is_control:
            for record in batch.records():
                assert record.value is not None, f"metadata record at offset {record.offset} has no value"
                self._replay(read_metadata_record(record.value))
        else:
            self._take_kraft_version(batch)
        self._provenance = MetadataProvenance(batch.last_offset, batch.partition_leader_epoch, batch.max_timestamp)

    def _take_kraft_version(self, batch: RecordBatch) -> None:
        for record in batch.records():
            if ControlRecordType.parse(record.key) is ControlRecordType.KRAFT_VERSION and record.value is not None:
                self.kraft_version = KRaftVersionRecord.read(memoryview(record.value), 0, 0)[0].kraft_version

    def _replay(self, record: Any) -> None:
        if type(record) not in _OF_TRANSACTIONS:
            if self._pending is None:
                self._delta.replay(record)
            else:
                self._pending.append(record)
        elif isinstance(record, BeginTransactionRecord):
            self._pending = []
        elif isinstance(record, EndTransactionRecord):
            pending, self._pending = self._pending or [], None
            for held in pending:
                self._delta.replay(held)
        else:
            self._pending = None

    def _maybe_publish(self, kind: LoaderManifestType) -> None:
        if self._pending is not None or self._provenance == self.image.provenance:
            return
        delta, self.image = self._delta, self._delta.apply(self._provenance)
        self._delta = MetadataDelta(self.image)
        manifest = LoaderManifest(kind, self._provenance)
        for publisher in list(self._publishers):
            publisher.on_metadata_update(delta, self.image, manifest)


def delta_from_empty(image: MetadataImage) -> MetadataDelta:
    """Returns the delta from the empty image to `image`, as if its records had been replayed,
    without making them."""
    delta = MetadataDelta(MetadataImage.EMPTY)
    delta.take_all(image)
    return delta


def replay_all(records: Sequence[Any], provenance: MetadataProvenance, image: MetadataImage = MetadataImage.EMPTY) -> MetadataImage:
    """Returns the image after `records` over `image`, for tests and tools."""
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(provenance)
