"""What a mirror fetcher does when it cannot go on with one partition.

The fetcher's other partitions go on.

    delay       it stays, and is asked for again after mirror.fetch.backoff.ms (a refused authorization, an unfit answer, a first damaged batch)
    give back   its target finds the source's leader anew (the source's broker failed, our log was cut, what nobody expected)
    reject      the source's data or answer is unusable for good: the partition fails (D3-16)
    disk        a disk of ours failed: the target hears it, and nothing is said of the source (D3-37)

A partition that was removed or added again in the meantime is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.mirror.fetch.fetched_mirror_partition import FetchedMirrorPartition
from kmirror.mirror.fetch.fetcher_partitions import FetcherPartitions
from kmirror.mirror.source.source_cluster import SourceError
from kmirror.runtime.api import Runtime
from kmirror.storage.log_append import OffsetsOutOfOrderError

REFUSED = "the source refuses to let us read the topic"
CORRUPT_ANSWERS_UNTIL_FAILED = 2
LEADER_ERRORS = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.KAFKA_STORAGE_ERROR,
    }
)
"""Another broker leads the partition, or this one cannot serve it now."""
_CORRUPT_ERRORS = frozenset({Errors.CORRUPT_MESSAGE, Errors.INVALID_RECORD, Errors.MESSAGE_TOO_LARGE})


class FetchFailures:
    """The failure handling of one fetcher; `name` is the fetcher's. It owns no state."""

    def __init__(self, runtime: Runtime, partitions: FetcherPartitions, name: str, *, backoff_ms: int) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._name = name
        self._backoff_ms = backoff_ms

    def delay(self, partition: FetchedMirrorPartition, reason: str) -> None:
        self._partitions.delay(partition, until_ms=self._runtime.clock.monotonic_ms() + self._backoff_ms)
        partition.target.on_delay(reason)

    def give_back(self, partition: FetchedMirrorPartition, reason: str | None) -> None:
        if self._partitions.is_current(partition):
            self._partitions.remove(partition.topic_partition)
            partition.target.on_fetcher_gone(reason)

    def reject(self, partition: FetchedMirrorPartition, reason: str) -> None:
        if self._partitions.is_current(partition):
            self._partitions.remove(partition.topic_partition)
            partition.target.on_rejected(reason)

    @contextmanager
    def of(self, partition: FetchedMirrorPartition) -> Iterator[None]:
        """Keeps an error of one partition from the fetcher's other partitions."""
        try:
            yield
        except SourceError as error:
            self.give_back(partition, str(error))
        except ApiException as error:
            if self._partitions.is_current(partition):
                self._refused_by_our_log(partition, error)
        except KmirrorError as error:
            self.give_back(partition, str(error))
        except OSError as error:
            if self._partitions.is_current(partition):
                self._disk_failed(partition, error)
        except Exception as error:  # noqa: BLE001 - reported: a mistake over one partition must not stop the others
            self._runtime.report_failure(f"[{self._name}] Unexpected error over partition {partition.topic_partition}", error)
            self.give_back(partition, repr(error))

    def _refused_by_our_log(self, partition: FetchedMirrorPartition, error: ApiException) -> None:
        if error.error is Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            self.reject(partition, f"the source's log cannot be mirrored as it is: {error.message}")
        elif error.error in _CORRUPT_ERRORS or isinstance(error, OffsetsOutOfOrderError):
            self._corrupt(partition, error)
        elif error.error is Errors.KAFKA_STORAGE_ERROR:
            self._disk_failed(partition, error)
        else:
            self.give_back(partition, str(error))

    def _disk_failed(self, partition: FetchedMirrorPartition, error: Exception) -> None:
        self._partitions.remove(partition.topic_partition)
        partition.target.on_storage_error(str(error))

    def _corrupt(self, partition: FetchedMirrorPartition, error: ApiException) -> None:
        partition.corrupt_answers += 1
        reason = f"malformed batch from the source: {error.message}"
        if partition.corrupt_answers >= CORRUPT_ANSWERS_UNTIL_FAILED:
            self.reject(partition, reason)
        else:
            self.delay(partition, reason)
