"""`kafka-mirrors --add --accept-truncation`: an operator says that a mirror may follow a source that lost its log.

What a broker goes by is a config of the topic, `mirror.max.truncation.records=-1`. It is set before the topic is added and put back when every
partition is MIRRORING: the next loss is another one. Stopped in between, the same command goes on; the config is -1 until then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigOperation, ConfigResourceType, MirrorPartitionDescription
from kmirror.cli.mirrors_tables import topic_list
from kmirror.cli.mirrors_topics import warn
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.metadata.mirror_names import DEFAULT_MAX_TRUNCATION_RECORDS, MIRROR_MAX_TRUNCATION_CONFIG

WITHOUT_LIMIT = "-1"
FAILED = "FAILED"


@dataclass(slots=True)
class TruncationLimits:
    """mirror.max.truncation.records of a mirror and of the topics that have a value of their own; `mirror_limit` -1 is no limit."""

    mirror_limit: int = DEFAULT_MAX_TRUNCATION_RECORDS
    of_topics: dict[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int:
        """What holds for a topic."""
        return self.of_topics.get(topic, self.mirror_limit)

    def refuses(self, topic: str, lost: int, *, has_equal: bool) -> bool:
        """Whether a partition would fail instead of losing so many mirrored records (`mirror.truncation_guard`)."""
        limit = self.of(topic)
        return limit >= 0 and lost > (limit if has_equal else 0)


async def truncation_limits(admin: AdminClient, mirror_name: str, topics: Iterable[str]) -> TruncationLimits:
    """As the destination has them now; without the permission to see them the defaults."""
    limits = TruncationLimits()
    try:
        mirror = await _value(admin, ConfigResourceType.MIRROR, mirror_name)
        limits.mirror_limit = DEFAULT_MAX_TRUNCATION_RECORDS if mirror is None else int(mirror)
        for topic in sorted(topics):
            value = await _value(admin, ConfigResourceType.TOPIC, topic)
            if value is not None:
                limits.of_topics[topic] = int(value)
    except ApiException as error:
        if error.error not in (Errors.TOPIC_AUTHORIZATION_FAILED, Errors.MIRROR_AUTHORIZATION_FAILED):
            raise
    return limits


async def _value(admin: AdminClient, kind: ConfigResourceType, name: str) -> str | None:
    entries = await admin.describe_configs(kind, name)
    return next((entry.value for entry in entries if entry.name == MIRROR_MAX_TRUNCATION_CONFIG and not entry.is_default), None)


def refuse_failed(mirror_name: str, topics: Iterable[str], rows: Iterable[MirrorPartitionDescription]) -> None:
    """A topic that has failed is in its mirror still: nothing leaves FAILED but a removal."""
    failed = sorted({row.topic for row in rows if row.state == FAILED}.intersection(topics))
    if failed:
        raise KmirrorError(f"{topic_list(failed)} in mirror {mirror_name}, and {FAILED}: --remove --wait first, then this command again")


async def with_truncation_accepted(admin: AdminClient, topics: Iterable[str], add: Callable[[], Awaitable[None]]) -> None:
    """Run `add`, which waits until the topics are MIRRORING, while those of them that are here have no limit. What fails leaves it so, and says it."""
    here = sorted(await admin.describe_topics(topics))
    before: Mapping[str, str | None] = {topic: await _value(admin, ConfigResourceType.TOPIC, topic) for topic in here}
    for topic in here:
        await _set(admin, topic, WITHOUT_LIMIT)
    try:
        await add()
    except BaseException:
        if here:
            names = ", ".join(here)
            warn(f"{MIRROR_MAX_TRUNCATION_CONFIG} of {names} is {WITHOUT_LIMIT} until the same command is done")
        raise
    for topic in here:
        value = before[topic]
        await _set(admin, topic, None if value == WITHOUT_LIMIT else value)


async def _set(admin: AdminClient, topic: str, value: str | None) -> None:
    change = (MIRROR_MAX_TRUNCATION_CONFIG, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
    await admin.incremental_alter_configs(ConfigResourceType.TOPIC, topic, [change])
