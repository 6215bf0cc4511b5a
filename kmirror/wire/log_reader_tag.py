"""Who reads a log as it is: the mark in a Fetch of one that keeps or compares batches, and no leader epochs in a client's metadata.

A broker hides leader epochs above its own from consumers (`replica.client_epochs`). A mirror's fetcher stores what it is sent, and a tool that
compares logs must see what is stored, so both say so in a tagged field of the request. The KIP's schemas do not have it; Kafka's readers
skip it. Below v12 a Fetch has no room for it, and no broker that would hide an epoch is asked in such a version.
"""

from __future__ import annotations

from kmirror.wire.primitives import TaggedFields

LOG_READER_TAG = 1281
FIRST_VERSION_WITH_TAGS = 12
_MARK: TaggedFields = ((LOG_READER_TAG, b""),)


def log_reader_tag(fetch_version: int) -> TaggedFields:
    """The tag section of a Fetch request of that version."""
    return _MARK if fetch_version >= FIRST_VERSION_WITH_TAGS else ()


def is_log_reader(fields: TaggedFields) -> bool:
    """Whether a Fetch request's tag section has the mark."""
    return any(tag == LOG_READER_TAG for tag, _ in fields)
