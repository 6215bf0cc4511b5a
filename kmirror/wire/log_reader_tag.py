"""The tag of a Fetch whose sender stores or compares batches and so needs them unchanged.

A broker hides leader epochs above its own from consumers (`replica.client_epochs`). A mirror's
fetcher stores the batches that it gets, and a tool that compares logs must see what is stored, so
both mark their requests with this tagged field. The KIP's schemas do not have it; Kafka's readers
skip it. Below v12 a Fetch has no tagged fields, but a broker that would hide an epoch is never
asked in such a version.
"""

from __future__ import annotations

from kmirror.wire.primitives import TaggedFields

LOG_READER_TAG = 1281
FIRST_VERSION_WITH_TAGS = 12
_MARK: TaggedFields = ((LOG_READER_TAG, b""),)


def log_reader_tag(fetch_version: int) -> TaggedFields:
    """Returns the tag section of a Fetch request of that version."""
    return _MARK if fetch_version >= FIRST_VERSION_WITH_TAGS else ()


def is_log_reader(fields: TaggedFields) -> bool:
    """Whether a Fetch request's tag section has this tag."""
    return any(tag == LOG_READER_TAG for tag, _ in fields)
