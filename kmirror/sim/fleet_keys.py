"""A compacted topic beside the one of the story: its keys are set and deleted, cleaners clean it,
and at the end the rule "keys" must hold.

Only `KeyedWriter` writes the topic, one request after the other. So it is known for each key which
write was acknowledged last, and which writes may have been carried out since. The value of a key
says how often it was written. Checkers do not follow these logs batch by batch, since cleaners
rewrite them. They are read from the disks when everything has settled (`read_keys`):

    keys   on every replica in sync, at the source and at its mirror, a key has its last acknowledged value, or one with an unknown
           outcome that was sent later, or shortly before (`LATE_US`) and was overtaken. A key whose deletion was acknowledged last has no
           value, unless a replica may have been away for longer than tombstones live (`KeysRead.may_lack_tombstones`): there, as in
           Kafka, an older value may stay

The topic is rolled and cleaned within fractions of a second (`COMPACTED`, `CLEANING`), and its
tombstones are kept no longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.sim.checkers import Violation
from kmirror.sim.events import Event, History
from kmirror.sim.fleet_clients import NAMES_ONLY_VERSION, FleetClient, produce_request
from kmirror.sim.server import SimServer
from kmirror.sim.workload import Pace

KEYED = TopicPartition("keys", 0)
KEYS = 4
WRITES_PER_KEY = 5
LATE_US = 6_000_000
DELETED_PERCENT = 35
COMPACTED = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "200",
    "segment.ms": "150",
    "min.cleanable.dirty.ratio": "0.01",
    "min.insync.replicas": "1",
}
CLEANING = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "150",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


@dataclass(slots=True)
class KeyWritten(Event):
    """The outcome of the `version`-th write of a key: acknowledged, or otherwise unknown."""

    cluster: str
    key: bytes
    version: int
    deleted: bool
    acknowledged: bool


@dataclass(slots=True)
class KeysRead(Event):
    """The live keys on a host at the end, with their values.

    `written_to` is the cluster that the writer wrote to.
    """

    host: str
    written_to: str
    live: dict[bytes, bytes]
    may_lack_tombstones: bool = False


class KeyedWriter:
    """Sets and deletes keys at one cluster while `writing` is true.

    It writes a few keys several times, and then moves on to the next ones.
    """

    def __init__(self, client: FleetClient, history: History) -> None:
        self.writing = True
        self._client = client
        self._history = history
        self._pace = Pace(20, 80)
        self._versions: dict[bytes, int] = {}
        self._writes = 0

    async def run(self) -> None:
        while True:
            await self._client.pause(self._pace)
            if self.writing:
                random = self._client.random
                number = self._writes // WRITES_PER_KEY + random.randrange(KEYS)
                await self.write(b"key-%d" % number, deleted=random.randrange(100) < DELETED_PERCENT)
                self._writes += 1

    async def write(self, key: bytes, *, deleted: bool) -> bool:
        """Writes the key once, and returns whether that was acknowledged."""
        version = self._versions[key] = self._versions.get(key, 0) + 1
        value = None if deleted else b"%s=%d" % (key, version)
        batch = build_batch([Record(0, self._client.runtime.clock.time_ms(), key, value, [])], base_offset=0)
        response = await self._client.ask_leader(KEYED, produce_request(KEYED, batch), max_version=NAMES_ONLY_VERSION)
        error = None if response is None else Errors.for_code(response.responses[0].partition_responses[0].error_code)
        if error is not Errors.NONE:
            self._client.forget(KEYED)
        written = KeyWritten(self._client.loop.now_us, self._client.cluster, key, version, deleted, error is Errors.NONE)
        self._history.add(written)
        return written.acknowledged


def keyed_records(server: SimServer) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yields offset, key and value of every record of the compacted topic on the server's disk, in
    log order.
    """
    data_dir = server.watch.data_dir_of(KEYED)
    if data_dir is None:
        return
    folder, disk = f"{data_dir}/{KEYED.topic}-{KEYED.partition}", server.node.disk
    for name in disk.names(folder):
        if name.endswith(".log"):
            for batch in iter_batches(disk.contents(f"{folder}/{name}")):
                for record in () if batch.is_control else batch.records():
                    yield record.offset, bytes(record.key or b""), None if record.value is None else bytes(record.value)


def live_keys(server: SimServer) -> dict[bytes, bytes]:
    """Returns the last value of each key whose last record is no tombstone."""
    last = {key: value for _, key, value in keyed_records(server)}
    return {key: value for key, value in sorted(last.items()) if value is not None}


def last_offset(server: SimServer) -> int:
    """Returns the offset of the log's last record, or -1 if there is none."""
    return max((offset for offset, _, _ in keyed_records(server)), default=-1)


def read_keys(history: History, now_us: int, servers: list[SimServer], *, written_to: str, may_lack_tombstones: bool = False) -> None:
    """Records the live keys of these hosts, for the rule "keys"."""
    for server in servers:
        history.add(KeysRead(now_us, server.name, written_to, live_keys(server), may_lack_tombstones))


def check_keys(history: History) -> Iterator[Violation]:
    """Yields the violations of the rule "keys"; none where there is no compacted topic."""
    written: dict[tuple[str, bytes], list[KeyWritten]] = {}
    for event in history.events:
        if isinstance(event, KeyWritten):
            written.setdefault((event.cluster, event.key), []).append(event)
        elif isinstance(event, KeysRead):
            for (cluster, key), writes in written.items():
                if cluster == event.written_to:
                    yield from _check_key(event, key, writes)


def _check_key(event: KeysRead, key: bytes, writes: list[KeyWritten]) -> Iterator[Violation]:
    last = max((index for index, write in enumerate(writes) if write.acknowledged), default=-1)
    may_be = {None if write.deleted else b"%s=%d" % (key, write.version) for write in writes[max(last, 0) :]}
    if last < 0:
        may_be.add(None)
    late = (write for write in writes[: max(last, 0)] if not write.acknowledged and write.now_us > writes[last].now_us - LATE_US)
    may_be.update(None if write.deleted else b"%s=%d" % (key, write.version) for write in late)
    if None in may_be and event.may_lack_tombstones:
        may_be.update(b"%s=%d" % (key, write.version) for write in writes if not write.deleted)
    found = event.live.get(key)
    if found not in may_be:
        expected = " or ".join(sorted("none" if value is None else value.decode() for value in may_be))
        text = f"{event.host} has {'none' if found is None else found.decode()} as the value of {key.decode()}, which has {expected}"
        yield Violation("keys", event.now_us, text)
