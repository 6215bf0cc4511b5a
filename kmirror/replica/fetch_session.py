"""Incremental fetch sessions (KIP-227): the broker remembers what a fetcher asked for, so that
requests and responses carry only changes.

A full fetch (epoch 0) opens a session when the cache has room; the response carries its id. From
then on requests carry only partitions that changed or are forgotten, with the epoch counted up by
one each time, and responses only partitions that have records, an error, a new high watermark or
log start, or something else to say. A partition that was answered with records goes to the end of
the session's order, so that those behind it get their turn. Epoch -1 closes the session.

Errors of the session, as Kafka's: an unknown id FETCH_SESSION_ID_NOT_FOUND, an epoch out of step
INVALID_FETCH_SESSION_EPOCH, a session opened with topic names used with ids (or the reverse)
FETCH_SESSION_TOPIC_ID_ERROR.

In a follower's session only the partitions that `follower_session` names are read and answered; in
any other session, all of them.

The cache has `max.incremental.fetch.session.cache.slots` slots. A new session takes a free one, or
that of the session idle for longer than two minutes, or that of a smaller (or unprivileged) one
older than that; followers are privileged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct, field

from kmirror.common.errors import Errors
from kmirror.common.metrics import Meter, MetricName, MetricsRegistry
from kmirror.common.ports import Clock, Random
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.delayed_follower_fetch import FollowedPartitions
from kmirror.replica.follower_session import FollowerSession, PartitionChanges, PartitionKey
from kmirror.replica.replica_types import FetchInfos, FetchPartition, FetchPartitionData, FetchResults

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MIN_EVICTION_MS = 120_000
_MAX_EPOCH = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Counts 1, 2 … and wraps to 1; 0 and -1 are reserved."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_EPOCH else epoch + 1


def _key(topic: TopicIdPartition) -> PartitionKey:
    return (topic.topic_id or topic.topic, topic.partition)


class CachedPartition(Struct):
    """A partition of a session: what was asked last, and what was last answered."""

    topic: TopicIdPartition
    fetch: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    mirror_leader_epoch: int = -1

    def note_answer(self, data: FetchPartitionData) -> bool:
        """Remembers what is answered; returns whether there is anything to answer."""
        must_respond = (
            data.size_in_bytes > 0
            or self.high_watermark != data.high_watermark
            or self.log_start_offset != data.log_start_offset
            or self.mirror_leader_epoch != data.mirror_leader_epoch
            or data.preferred_read_replica >= 0
        )
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        self.mirror_leader_epoch = data.mirror_leader_epoch
        if data.error is not Errors.NONE or data.diverging_epoch is not None:
            self.high_watermark = -1  # so that the partition is answered again when this is over
            return True
        return must_respond


class FetchSession(Struct):
    """One session, which owns its partitions. `partitions` is ordered: the next to be read comes
    first.
    """

    id: int
    privileged: bool
    uses_topic_ids: bool
    creation_ms: int
    last_used_ms: int
    partitions: dict[PartitionKey, CachedPartition] = field(default_factory=dict)
    epoch: int = 1
    cached_size: int = 0
    follower: FollowerSession | None = None
    nameless: dict[PartitionKey, None] = field(default_factory=dict)

    def update(self, changed: FetchInfos, forgotten: Iterable[TopicIdPartition]) -> None:
        for topic, fetch in changed:
            key = _key(topic)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(topic, fetch)
                if not topic.topic:
                    self.nameless[key] = None
            else:
                cached.fetch = fetch
            if self.follower is not None:
                self.follower.unsettle(key)
        for topic in forgotten:
            key = _key(topic)
            cached = self.partitions.pop(key, None)
            self.nameless.pop(key, None)
            if self.follower is not None and cached is not None:
                self.follower.forget(key, cached.topic)

    def name_topics(self, names: Mapping[Uuid, str]) -> None:
        """Fills in topic names that were not known when the partitions were added."""
        for key in list(self.nameless):
            cached = self.partitions[key]
            if cached.topic.topic_id in names:
                cached.topic = cached.topic._replace(topic=names[cached.topic.topic_id])
                del self.nameless[key]
                if self.follower is not None:
                    self.follower.unsettle(key)


class FetchSelection(Struct):
    """What a fetch answers: an error of the session, its id, and the partitions to send."""

    error: Errors
    session_id: int
    results: FetchResults


class FetchContext(Protocol):
    """One request's view of its session. `followed` is set for a follower's."""

    followed: FollowedPartitions | None

    def fetch_infos(self, topic_names: Mapping[Uuid, str]) -> FetchInfos:
        """What to read, in order. A topic with an unknown id has the name ""."""
        ...

    def select(self, results: FetchResults) -> FetchSelection:
        """Selects what to send from what was read, and remembers it as sent."""
        ...

    def throttled(self) -> FetchSelection:
        """The answer while a quota throttles: nothing is sent, and nothing remembered."""
        ...


class SessionErrorContext:
    """The session is not usable: nothing is read, and only the error is sent."""

    followed: FollowedPartitions | None = None

    def __init__(self, error: Errors) -> None:
        self.error = error

    def fetch_infos(self, topic_names: Mapping[Uuid, str]) -> FetchInfos:
        return []

    def select(self, results: FetchResults) -> FetchSelection:
        return FetchSelection(self.error, INVALID_SESSION_ID, [])

    def throttled(self) -> FetchSelection:
        return self.select([])


class SessionlessFetchContext:
    """A fetch without a session (it closes one)."""

    followed: FollowedPartitions | None = None

    def __init__(self, fetch_infos: FetchInfos) -> None:
        self._fetch_infos = fetch_infos

    def fetch_infos(self, topic_names: Mapping[Uuid, str]) -> FetchInfos:
        return self._fetch_infos

    def select(self, results: FetchResults) -> FetchSelection:
        return FetchSelection(Errors.NONE, INVALID_SESSION_ID, results)

    def throttled(self) -> FetchSelection:
        return FetchSelection(Errors.NONE, INVALID_SESSION_ID, [])


class FullFetchContext(SessionlessFetchContext):
    """A full fetch: everything is answered, and a session opened if there is room."""

    def __init__(self, cache: FetchSessionCache, fetch_infos: FetchInfos, *, privileged: bool, uses_topic_ids: bool) -> None:
        super().__init__(fetch_infos)
        self._cache = cache
        self._privileged = privileged
        self._uses_topic_ids = uses_topic_ids

    def select(self, results: FetchResults) -> FetchSelection:
        partitions: dict[PartitionKey, CachedPartition] = {}
        requested = {_key(topic): fetch for topic, fetch in self._fetch_infos}
        for topic, data in results:
            key = _key(topic)
            cached = CachedPartition(topic, requested[key])
            cached.note_answer(data)
            partitions[key] = cached
        session_id = self._cache.maybe_create(partitions, privileged=self._privileged, uses_topic_ids=self._uses_topic_ids)
        return FetchSelection(Errors.NONE, session_id, results)


class IncrementalFetchContext:
    """The next fetch of a session."""

    def __init__(self, session: FetchSession, now_ms: int) -> None:
        self._session = session
        self._epoch = session.epoch
        self._now_ms = now_ms
        self.followed: FollowedPartitions | None = None if session.follower is None else FollowedSession(session, session.follower)

    def fetch_infos(self, topic_names: Mapping[Uuid, str]) -> FetchInfos:
        session = self._session
        session.name_topics(topic_names)
        partitions = session.partitions
        if session.follower is None:
            return [(cached.topic, cached.fetch) for cached in partitions.values()]
        wanted = [partitions[key] for key in session.follower.collect(partitions, partitions, self._now_ms) if key in partitions]
        return [(cached.topic, cached.fetch) for cached in wanted]

    def select(self, results: FetchResults) -> FetchSelection:
        session = self._session
        if session.epoch != self._epoch:
            return FetchSelection(Errors.INVALID_FETCH_SESSION_EPOCH, INVALID_SESSION_ID, [])
        selected: FetchResults = []
        for topic, data in results:
            key = _key(topic)
            cached = session.partitions.get(key)
            if cached is None:
                continue
            if cached.note_answer(data):
                selected.append((topic, data))
            if session.follower is not None:
                _place(session.follower, key, data)
            elif data.size_in_bytes > 0:
                session.partitions[key] = session.partitions.pop(key)
        return FetchSelection(Errors.NONE, session.id, selected)

    def throttled(self) -> FetchSelection:
        return self.select([])


def _place(follower: FollowerSession, key: PartitionKey, data: FetchPartitionData) -> None:
    """Settles or unsettles a partition after an answer."""
    if data.is_settled:
        follower.settle(key)
    elif data.size_in_bytes > 0 or key not in follower.to_look:
        follower.unsettle(key)


class FollowedSession:
    """`FollowedPartitions` of a session."""

    def __init__(self, session: FetchSession, follower: FollowerSession) -> None:
        self._session = session
        self.follower = follower

    def info(self, key: PartitionKey) -> tuple[TopicIdPartition, FetchPartition] | None:
        cached = self._session.partitions.get(key)
        return None if cached is None or not cached.topic.topic else (cached.topic, cached.fetch)


class FetchSessionCache:
    """Owns the sessions by id, least recently used first. If `changes` is given, followers'
    sessions read only what changed.
    """

    def __init__(
        self, max_entries: int, clock: Clock, random: Random, *, eviction_ms: int = MIN_EVICTION_MS, changes: PartitionChanges | None = None
    ) -> None:
        self.max_entries = max_entries
        self.eviction_meter: Meter | None = None
        self._clock = clock
        self._random = random
        self._eviction_ms = eviction_ms
        self._changes = changes
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def total_partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def touch(self, session: FetchSession) -> None:
        """Marks the session as used now, by moving it behind all others."""
        session.last_used_ms = self._clock.monotonic_ms()
        session.cached_size = len(session.partitions)
        self._sessions[session.id] = self._sessions.pop(session.id)

    def maybe_create(self, partitions: dict[PartitionKey, CachedPartition], *, privileged: bool, uses_topic_ids: bool) -> int:
        """The new session's id, or INVALID_SESSION_ID when there is no room."""
        if len(self._sessions) >= self.max_entries and not self._try_evict(len(partitions), privileged=privileged):
            return INVALID_SESSION_ID
        session_id = self._new_id()
        now_ms = self._clock.monotonic_ms()
        session = FetchSession(session_id, privileged, uses_topic_ids, now_ms, now_ms, partitions, cached_size=len(partitions))
        session.nameless = {key: None for key, cached in partitions.items() if not cached.topic.topic}
        if privileged and uses_topic_ids and self._changes is not None:
            session.follower = FollowerSession(self._changes, partitions)
        self._sessions[session_id] = session
        return session_id

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._random.randrange(_MAX_EPOCH - 1)
            if session_id not in self._sessions:
                return session_id

    def _try_evict(self, size: int, *, privileged: bool) -> bool:
        if not self._sessions:
            return False
        now_ms = self._clock.monotonic_ms()
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            return self._evict(oldest)
        old_enough = [session for session in self._sessions.values() if now_ms - session.creation_ms > self._eviction_ms]
        if not old_enough:
            return False
        smallest = min(old_enough, key=lambda session: (session.privileged, session.cached_size, session.id))
        if (smallest.privileged, smallest.cached_size) < (privileged, size):
            return self._evict(smallest)
        return False

    def _evict(self, session: FetchSession) -> bool:
        if self.eviction_meter is not None:
            self.eviction_meter.mark()
        self.remove(session.id)
        return True


class FetchManager:
    """Makes the context of each fetch request; owns the cache and its metrics."""

    def __init__(self, cache: FetchSessionCache, metrics: MetricsRegistry) -> None:
        self.cache = cache
        metrics.gauge(MetricName("kafka.server", "FetchSessionCache", "NumIncrementalFetchSessions"), lambda: len(cache))
        metrics.gauge(
            MetricName("kafka.server", "FetchSessionCache", "NumIncrementalFetchPartitionsCached"), lambda: cache.total_partitions
        )
        cache.eviction_meter = metrics.meter(MetricName("kafka.server", "FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec"))

    def new_context(
        self,
        *,
        session_id: int,
        session_epoch: int,
        is_from_follower: bool,
        uses_topic_ids: bool,
        fetch_infos: FetchInfos,
        forgotten: list[TopicIdPartition],
    ) -> FetchContext:
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                self.cache.remove(session_id)
            if session_epoch == FINAL_EPOCH:
                return SessionlessFetchContext(fetch_infos)
            return FullFetchContext(self.cache, fetch_infos, privileged=is_from_follower, uses_topic_ids=uses_topic_ids)
        session = self.cache.get(session_id)
        if session is None:
            return SessionErrorContext(Errors.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != session_epoch:
            return SessionErrorContext(Errors.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return SessionErrorContext(Errors.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(fetch_infos, forgotten)
        if not session.partitions:
            self.cache.remove(session.id)
            return SessionlessFetchContext(fetch_infos)
        self.cache.touch(session)
        session.epoch = next_epoch(session.epoch)
        return IncrementalFetchContext(session, session.last_used_ms)
