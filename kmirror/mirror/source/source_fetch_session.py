"""A fetcher's half of an incremental fetch session with a source broker (KIP-227; FEA9).

    epoch 0        everything is asked; the answer names a session, or none where the source's cache is full: then all is asked again
    epoch 1, 2 ..  only what is asked differently than before, and what is asked no more; the answer holds only what has news
    any error      the next request asks for everything again, under a new session

FETCH_SESSION_ID_NOT_FOUND: the source has dropped the session (its cache was full, it was
restarted). INVALID_FETCH_SESSION_EPOCH, topic id errors of the session and lost connections: the
session may live on there, so the next request names it with epoch 0, which ends it. An answer must
fit what was asked: the answer to a full request has every partition, and the answer to a difference
has none that was not asked. Otherwise it is not used, and a new session begins.

A session uses topic names or topic ids (Fetch v13 and later), never both: a change begins a new
one. Below v7 there are no sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
FIRST_VERSION_WITH_SESSIONS = 7

SESSION_ERRORS = frozenset(
    (
        Errors.FETCH_SESSION_ID_NOT_FOUND,
        Errors.INVALID_FETCH_SESSION_EPOCH,
        Errors.FETCH_SESSION_TOPIC_ID_ERROR,
        Errors.INCONSISTENT_TOPIC_ID,
        Errors.UNKNOWN_TOPIC_ID,
    )
)
"""Top-level errors after which asking for everything again may help."""


class FetchPosition(NamedTuple):
    """Where to fetch a partition from.

    Epochs are -1 when not known; the topic id is zero where the source has none.
    """

    topic_id: Uuid
    offset: int
    source_epoch: int
    last_fetched_epoch: int


class FetchRequestData(NamedTuple):
    """What a request carries: the session, and the partitions added, changed or forgotten."""

    session_id: int
    epoch: int
    changed: dict[TopicPartition, FetchPosition]
    forgotten: dict[TopicPartition, FetchPosition]


class SourceFetchSession:
    """One per connection of a fetcher; owns the session's id and epoch, and what was asked last.

    `difference` before a request; `answered`, `refused` or `lost` after it.
    """

    def __init__(self) -> None:
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._uses_topic_ids: bool | None = None
        self._sent: dict[TopicPartition, FetchPosition] = {}
        self.names: dict[Uuid, str] = {}
        """The names of the topics asked, by id."""

    @property
    def is_full(self) -> bool:
        """Whether the next request asks for everything."""
        return self._epoch == INITIAL_EPOCH

    @property
    def id(self) -> int:
        """The id of the session that the source keeps; 0 without one."""
        return self._id

    def difference(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        touched: Collection[TopicPartition] | None,
        *,
        uses_topic_ids: bool,
        sessions: bool,
    ) -> FetchRequestData:
        """What the next request has to carry to ask for `positions`. `touched`: the partitions that
        may differ from before; None: all.
        """
        if self._uses_topic_ids is not uses_topic_ids:
            self._epoch = INITIAL_EPOCH
            self._uses_topic_ids = uses_topic_ids
        if self.is_full or not sessions:
            self._sent = dict(positions)
            self.names = {position.topic_id: topic.topic for topic, position in positions.items()}
            return FetchRequestData(self._id, INITIAL_EPOCH if sessions else FINAL_EPOCH, self._sent, {})
        changed: dict[TopicPartition, FetchPosition] = {}
        forgotten: dict[TopicPartition, FetchPosition] = {}
        for topic_partition in list({**self._sent, **positions}) if touched is None else touched:
            sent, position = self._sent.get(topic_partition), positions.get(topic_partition)
            if position is None:
                if sent is not None:
                    forgotten[topic_partition] = sent
            elif sent != position:
                changed[topic_partition] = position
                if sent is not None and sent.topic_id != position.topic_id:
                    forgotten[topic_partition] = sent
        for topic_partition in forgotten:
            del self._sent[topic_partition]
        for topic_partition, position in changed.items():
            self._sent[topic_partition] = position
            self.names[position.topic_id] = topic_partition.topic
        return FetchRequestData(self._id, self._epoch, changed, forgotten)

    def answered(self, session_id: int, partitions: Iterable[TopicPartition]) -> str | None:
        """Takes the source's answer.

        Returns what is wrong with it, if anything; then it must not be used.
        """
        answered = set(partitions)
        if self.is_full and answered != self._sent.keys():
            self._begin_anew(INVALID_SESSION_ID if session_id == INVALID_SESSION_ID else session_id)
            return f"it has {len(answered)} partitions, but {len(self._sent)} were requested"
        unasked = answered - self._sent.keys()
        if unasked:
            self._begin_anew(self._id)
            return f"it has {min(unasked)}, which was not requested"
        if session_id == INVALID_SESSION_ID:
            self._begin_anew(INVALID_SESSION_ID)
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return None

    def refused(self, error: Errors) -> None:
        """The source answered with an error of the whole request."""
        self._begin_anew(INVALID_SESSION_ID if error is Errors.FETCH_SESSION_ID_NOT_FOUND else self._id)

    def lost(self) -> None:
        """No answer: the source may have gone on to the next epoch, or not."""
        self._begin_anew(self._id)

    def _begin_anew(self, session_id: int) -> None:
        self._id = session_id
        self._epoch = INITIAL_EPOCH
