"""What --describe says about configs: which overrides of a mirrored topic stand for defaults of its
source's brokers, and of which topics that is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigEntry, MirrorDescription
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.metadata.mirror_names import MIRROR_SOURCE_DEFAULTS_CONFIG


async def source_defaults(admin: AdminClient, mirrors: Iterable[MirrorDescription]) -> list[str]:
    """Returns a line for each topic that has such overrides, in order, under a heading."""
    topics = sorted({row.topic for mirror in mirrors for row in mirror.partitions})
    try:
        described = await admin.describe_topic_configs(topics)
    except KmirrorError as error:
        return [f"Configs not looked at: {error}"] if topics else []
    lines = [f"  {topic}: {text}" for topic in topics if (text := _told(described.get(topic)))]
    return ["Set here because the source's brokers have other defaults than this cluster's:", *lines] if lines else []


def _told(entries: list[ConfigEntry] | ApiException | None) -> str:
    if entries is None or isinstance(entries, ApiException):
        return f"not looked at: {entries or 'no answer'}"
    values = {entry.name: entry.value or "" for entry in entries}
    names = values.get(MIRROR_SOURCE_DEFAULTS_CONFIG, "")
    return ", ".join(f"{name}={values.get(name, '')}" for name in names.split(",") if name)
