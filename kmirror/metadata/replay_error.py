"""The error of a metadata log that cannot be replayed."""

from __future__ import annotations

from kmirror.common.errors import KmirrorError


class MetadataReplayError(KmirrorError):
    """A record of the metadata log that cannot follow what came before it."""
