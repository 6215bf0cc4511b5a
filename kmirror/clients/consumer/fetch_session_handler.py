"""A consumer's half of an incremental fetch session with one broker (KIP-227; Kafka's
`FetchSessionHandler`).

    epoch 0        everything is asked; the answer names a session, or none where the broker's
                   cache is full: then everything is asked again
    epoch 1, 2 ..  only what is asked differently than before, and what is asked no more; the
                   answer holds only what has news
    any error      the next request asks for everything again

FETCH_SESSION_ID_NOT_FOUND: the broker has dropped the session, so the next request names none.
After other errors and lost connections the session may live on there; the next request names it
with epoch 0, which ends it. An answer must fit what was asked: the answer to a full request has
every partition, and an answer to a difference has none that was not asked; otherwise it is not
used.

A session uses topic names or topic ids (Fetch v13 and later), never both: ids are used only if all
topics have one, and a change begins a new session. A topic whose id changed is named as forgotten
under its old id. Below v7 there are no sessions: everything is asked each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1


class PartitionRequest(NamedTuple):
    """What is asked of one partition."""

    topic_id: Uuid
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int


class FetchDifference(NamedTuple):
    """What the next request carries. `forgotten` holds the topic id that was in use."""

    session_id: int
    epoch: int
    to_send: dict[TopicPartition, PartitionRequest]
    forgotten: dict[TopicPartition, Uuid]
    uses_topic_ids: bool


class FetchSessionHandler:
    """One per broker. `build` before a request; `answered`, `refused` or `lost` after it."""

    def __init__(self) -> None:
        self.names: dict[Uuid, str] = {}
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._uses_topic_ids = False
        self._asked: dict[TopicPartition, PartitionRequest] = {}

    @property
    def session_id(self) -> int:
        """0 without a session."""
        return self._id

    def build(self, wanted: Mapping[TopicPartition, PartitionRequest], *, can_use_ids: bool) -> FetchDifference:
        """What the next request has to carry to ask for `wanted`, in its order."""
        uses_ids = can_use_ids and all(request.topic_id for request in wanted.values())
        if uses_ids is not self._uses_topic_ids and wanted:
            self._uses_topic_ids = uses_ids
            self._epoch = INITIAL_EPOCH
        if self._epoch == INITIAL_EPOCH:
            self._asked = dict(wanted)
            self._note_names()
            return FetchDifference(self._id, INITIAL_EPOCH, dict(wanted), {}, self._uses_topic_ids)
        forgotten: dict[TopicPartition, Uuid] = {}
        to_send: dict[TopicPartition, PartitionRequest] = {}
        for partition, before in self._asked.items():
            after = wanted.get(partition)
            if after is None or after.topic_id != before.topic_id:
                forgotten[partition] = before.topic_id
        for partition, request in wanted.items():
            if self._asked.get(partition) != request:
                to_send[partition] = request
        self._asked = {partition: request for partition, request in self._asked.items() if partition not in forgotten} | to_send
        self._note_names()
        return FetchDifference(self._id, self._epoch, to_send, forgotten, self._uses_topic_ids)

    def _note_names(self) -> None:
        self.names = {request.topic_id: partition.topic for partition, request in self._asked.items()}

    def answered(self, session_id: int, partitions: Iterable[TopicPartition]) -> str | None:
        """Takes an answer without an error. Returns what is wrong with it, if anything; then it
        must not be used."""
        answered = set(partitions)
        unasked = sorted(answered - self._asked.keys())
        if unasked:
            self._epoch = INITIAL_EPOCH
            return f"the answer has {unasked[0]}, which was not asked"
        if self._epoch == INITIAL_EPOCH:
            missing = sorted(self._asked.keys() - answered)
            if missing:
                self._id = session_id
                return f"the answer lacks {missing[0]}"
        elif session_id not in (INVALID_SESSION_ID, self._id):
            self._epoch = INITIAL_EPOCH
            return f"the answer is of session {session_id}, not {self._id}"
        if session_id == INVALID_SESSION_ID:
            self._id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return None

    def refused(self, error: Errors) -> None:
        """The answer is an error of the whole request."""
        if error is Errors.FETCH_SESSION_ID_NOT_FOUND:
            self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH

    def lost(self) -> None:
        """No answer came: the broker may have gone on to the next epoch, or not."""
        self._epoch = INITIAL_EPOCH
