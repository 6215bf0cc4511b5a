"""`kafka-mirrors --add --accept-truncation`: lets a mirror follow a source that lost its log.

Brokers go by the topic's config `mirror.max.truncation.records=-1`, and only while the topic is
added. This command sets it before it adds the topic. It restores the old value when every partition
is MIRRORING, so that the next loss is refused again, and when the topic cannot be added. If it is
stopped in between, the same command continues; until then the config stays -1, and a warning says
so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import ConfigEntry, ConfigOperation, ConfigResourceType, MirrorPartitionDescription
from kmirror.cli.mirrors_tables import topic_list
from kmirror.cli.mirrors_topics import warn
from kmirror.cli.mirrors_wait import FAILED, MIRRORING, PAUSED, PAUSING, STOPPED, NotFinishedError
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.metadata.mirror_names import DEFAULT_MAX_TRUNCATION_RECORDS, MIRROR_MAX_TRUNCATION_CONFIG

WITHOUT_LIMIT = "-1"
RUNNING = (MIRRORING, PAUSING, PAUSED)


@dataclass(slots=True)
class TruncationLimits:
    """mirror.max.truncation.records of a mirror, and of the topics with a value of their own.

    `mirror_limit` -1 means no limit.
    """

    mirror_limit: int = DEFAULT_MAX_TRUNCATION_RECORDS
    of_topics: dict[str, int] = field(default_factory=dict)
    oldest_ms: dict[str, int] = field(default_factory=dict)
    """Of topics that delete by age: what is older is deleted here anyway, and does not count."""
    is_known: bool = True
    """Whether the limits could be seen; the defaults are assumed otherwise."""

    def of(self, topic: str) -> int:
        """Returns the limit that applies to a topic."""
        return self.of_topics.get(topic, self.mirror_limit)

    def refuses(self, topic: str, lost: int, *, has_equal: bool) -> bool:
        """Whether a partition would fail rather than lose `lost` mirrored records.

        See `mirror.truncation_guard`.
        """
        limit = self.of(topic)
        return limit >= 0 and lost > (limit if has_equal else 0)


async def truncation_limits(
    admin: AdminClient, mirror_name: str, topics: Iterable[str], now_ms: int, *, new_mirror: Mapping[str, str] | None = None
) -> TruncationLimits:
    """Returns the destination's present limits; the defaults without permission to see them.

    A cluster whose topics have no such config, as one of the KIP's reference implementation, has no
    limit: it drops whatever it is told to. `new_mirror` has the configs of a mirror that is to be
    created; without it, there must be one.
    """
    limits = TruncationLimits()
    try:
        mirror = await _mirror_limit(admin, mirror_name, new_mirror)
        limits.mirror_limit = DEFAULT_MAX_TRUNCATION_RECORDS if mirror is None else int(mirror)
        for topic in sorted(topics):
            entries = {entry.name: entry for entry in await admin.describe_configs(ConfigResourceType.TOPIC, topic)}
            entry = entries.get(MIRROR_MAX_TRUNCATION_CONFIG)
            oldest_ms = _oldest_kept_ms(entries, now_ms)
            if oldest_ms is not None:
                limits.oldest_ms[topic] = oldest_ms
            if entry is None:
                limits.of_topics[topic] = int(WITHOUT_LIMIT)
            elif not entry.is_default and entry.value is not None:
                limits.of_topics[topic] = int(entry.value)
    except ApiException as error:
        if error.error not in (Errors.TOPIC_AUTHORIZATION_FAILED, Errors.MIRROR_AUTHORIZATION_FAILED):
            raise
        limits.is_known = False
    return limits


async def _mirror_limit(admin: AdminClient, mirror_name: str, new_mirror: Mapping[str, str] | None) -> str | None:
    try:
        return await _value(admin, ConfigResourceType.MIRROR, mirror_name)
    except ApiException as error:
        if new_mirror is None or error.error is not Errors.UNKNOWN_MIRROR:
            raise
        return new_mirror.get(MIRROR_MAX_TRUNCATION_CONFIG)


def _oldest_kept_ms(configs: Mapping[str, ConfigEntry], now_ms: int) -> int | None:
    """Returns the timestamp below which a topic's own retention deletes; None if it does not."""
    policy, retention = configs.get("cleanup.policy"), configs.get("retention.ms")
    if policy is None or "delete" not in (policy.value or "") or retention is None or not retention.value:
        return None
    return now_ms - int(retention.value) if int(retention.value) >= 0 else None


async def _entry(admin: AdminClient, kind: ConfigResourceType, name: str) -> ConfigEntry | None:
    entries = await admin.describe_configs(kind, name)
    return next((entry for entry in entries if entry.name == MIRROR_MAX_TRUNCATION_CONFIG), None)


async def _value(admin: AdminClient, kind: ConfigResourceType, name: str) -> str | None:
    entry = await _entry(admin, kind, name)
    return None if entry is None or entry.is_default else entry.value


def refuse_failed(mirror_name: str, topics: Iterable[str], rows: Iterable[MirrorPartitionDescription]) -> None:
    """Raise KmirrorError for topics that are FAILED in their mirror: only removal ends FAILED."""
    failed = sorted({row.topic for row in rows if row.state == FAILED}.intersection(topics))
    if failed:
        raise KmirrorError(f"{topic_list(failed)} in mirror {mirror_name}, and {FAILED}: --remove --wait first, then this command again")


async def with_truncation_accepted(admin: AdminClient, mirror_name: str, topics: Iterable[str], add: Callable[[], Awaitable[None]]) -> None:
    """Run `add` while those of the topics that exist here have no limit.

    `add` waits until the topics are MIRRORING.
    """
    before = await _limits_to_lift(admin, mirror_name, topics)
    lifted: dict[str, str | None] = {}
    try:
        for topic, value in before.items():
            await _set(admin, topic, WITHOUT_LIMIT)
            lifted[topic] = value
        await add()
    except BaseException as error:
        if _goes_on(error):
            _tell_lifted(lifted)
        else:
            await _put_back(admin, lifted)
        raise
    failure = await _put_back(admin, lifted)
    if failure is not None:
        raise failure


async def _limits_to_lift(admin: AdminClient, mirror_name: str, topics: Iterable[str]) -> dict[str, str | None]:
    """Returns the present limit of each topic whose limit is to be lifted.

    A topic that is mirrored already, by this mirror or another one, keeps its limit. But a topic of
    this mirror without a limit is taken as left over from an interrupted command.
    """
    try:
        described = await admin.describe_mirrors()
    except ApiException:  # no permission for other mirrors: adding one of their topics is refused anyway
        described = await admin.describe_mirrors([mirror_name])
    elsewhere = {
        row.topic for name, mirror in described.items() if name != mirror_name for row in mirror.partitions if row.state != STOPPED
    }
    rows = described[mirror_name].partitions if mirror_name in described else []
    running = {row.topic for row in rows} - {row.topic for row in rows if row.state not in RUNNING}
    found: dict[str, str | None] = {}
    for topic in sorted((await admin.describe_topics(topics)).keys() - elsewhere):
        value = await _value(admin, ConfigResourceType.TOPIC, topic)
        if topic not in running or value == WITHOUT_LIMIT:
            found[topic] = value
    return found


def _goes_on(error: BaseException) -> bool:
    """Whether the same command, given again, may continue.

    True when the time ran out, the command was interrupted, or a broker is away.
    """
    if isinstance(error, ApiException):
        return error.error.retriable
    return isinstance(error, (NotFinishedError, NoBrokerError)) or not isinstance(error, KmirrorError)


async def _put_back(admin: AdminClient, lifted: Mapping[str, str | None]) -> KmirrorError | None:
    """Restore the topics' limits, and warn of those that failed; returns the first error."""
    left: dict[str, str | None] = {}
    failure: KmirrorError | None = None
    for topic, value in lifted.items():
        try:
            await _set(admin, topic, None if value == WITHOUT_LIMIT else value)
        except KmirrorError as error:
            left[topic], failure = value, failure or error
        else:
            if value == WITHOUT_LIMIT:
                warn(
                    f"{MIRROR_MAX_TRUNCATION_CONFIG} of {topic} was {WITHOUT_LIMIT} before and has been removed: the mirror's limit applies"
                )
    _tell_lifted(left)
    return failure


def _tell_lifted(topics: Iterable[str]) -> None:
    names = ", ".join(sorted(topics))
    if names:
        warn(f"{MIRROR_MAX_TRUNCATION_CONFIG} of {names} stays {WITHOUT_LIMIT} until the same command has finished")


async def _set(admin: AdminClient, topic: str, value: str | None) -> None:
    change = (MIRROR_MAX_TRUNCATION_CONFIG, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
    await admin.incremental_alter_configs(ConfigResourceType.TOPIC, topic, [change])
