"""What `kafka-mirrors` checks at a source before it changes anything.

Does it answer, is it another cluster, does it have the same topics, and does it know this cluster's
mirror by the same name? A source that cannot be
reached from here is only a warning: the brokers may have a route, a name or a secret that this
machine lacks, and a mirror may be created before its source is up. What is certain is refused: the
source is this cluster itself, or it has another topic of the same name, which would stay STOPPED or
become FAILED however often it is resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigResourceType, Node
from kmirror.cli.mirrors_clients import BOOTSTRAP_SERVERS, SHORT_TIMEOUT_MS, MirrorClients
from kmirror.cli.mirrors_tables import topic_list
from kmirror.cli.user_errors import one_line
from kmirror.common.addresses import address_text
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime, run_together

DEAD_BROKER_MS = 10_000
"""A little more than broker.session.timeout.ms: after that a source names a dead broker no more."""
PROBE_PAUSE_MS = 500
MIRROR_ONLY_PREFIX = "mirror."
"""Prefix of configs that say nothing about how to reach the source."""


async def check_new_source(
    clients: MirrorClients, mirror_name: str, configs: Mapping[str, str], *, known_cluster_id: str = ""
) -> str | None:
    """Returns a warning, or None if the source answers as it should.

    Raises KmirrorError if the source is this cluster.
    """
    servers = configs.get(BOOTSTRAP_SERVERS)
    if not servers:
        return None  # the broker reports this
    try:
        source = clients.at(servers, configs, mirror_name, timeout_ms=SHORT_TIMEOUT_MS)
        found = (await source.describe_cluster()).cluster_id
    except KmirrorError as error:
        return f"the source of mirror {mirror_name} cannot be asked from here: {one_line(error)}; if the brokers cannot reach it either, nothing is mirrored"
    own = (await clients.admin.describe_cluster()).cluster_id
    if found and found == own:
        raise KmirrorError(f"{BOOTSTRAP_SERVERS}={servers} leads to this cluster itself ({own}): a cluster does not mirror itself")
    unreachable = await unreachable_brokers(clients.runtime, source)
    if unreachable:
        return (
            f"{'; '.join(unreachable)}; if the brokers cannot reach it either, nothing is mirrored: see advertised.listeners of the source"
        )
    if known_cluster_id and found != known_cluster_id:
        return f"cluster {found} is not the source of mirror {mirror_name}, {known_cluster_id}: mirroring stops until bootstrap.servers is changed back"
    return None


async def check_altered_source(clients: MirrorClients, mirror_name: str, changes: Mapping[str, str]) -> str | None:
    """Like `check_new_source`, for a mirror's configs with these changes.

    Returns None when the changes do not concern the source.
    """
    if all(name.startswith(MIRROR_ONLY_PREFIX) for name in changes):
        return None
    try:
        entries = await clients.admin.describe_configs(ConfigResourceType.MIRROR, mirror_name)
        known = {row.mirror_name: row.source_cluster_id for row in await clients.admin.list_mirrors()}.get(mirror_name, "")
    except ApiException:
        entries, known = [], ""  # the permission to alter does not imply the permission to describe
    present = {entry.name: entry.value for entry in entries if entry.value is not None}
    return await check_new_source(clients, mirror_name, {**present, **changes}, known_cluster_id=known)


async def unreachable_brokers(runtime: Runtime, source: AdminClient) -> list[str]:
    """Returns a text for each broker of the source whose advertised address does not answer here:
    the source's bootstrap servers may answer all the same, but mirrors fetch from that address.
    """

    async def problem(node: Node) -> str | None:
        try:
            await source.broker_api_versions(node)
        except KmirrorError as error:
            where = address_text(node.host, node.port)
            return f"the source advertises {where} for its broker {node.id}, which does not answer here: {one_line(error)}"
        return None

    nodes = (await source.describe_cluster()).nodes
    problems = await run_together(runtime, "probe-source", [problem(node) for node in nodes])
    return [text for text in problems if text is not None]


async def ensure_brokers_answer(clients: MirrorClients, mirror_name: str) -> None:
    """KmirrorError if brokers of the source do not answer at the addresses that it advertises, and
    go on not to for as long as it takes a source to notice that a broker is dead.
    """
    source = await clients.source(mirror_name, timeout_ms=SHORT_TIMEOUT_MS)
    deadline_ms = clients.runtime.clock.monotonic_ms() + DEAD_BROKER_MS
    while problems := await unreachable_brokers(clients.runtime, source):
        if clients.runtime.clock.monotonic_ms() >= deadline_ms:
            hint = "mirrors fetch from that address: see advertised.listeners of the source, or add with --force if the brokers reach it"
            raise KmirrorError(f"{'; '.join(problems)}; {hint}")
        await clients.runtime.sleep_ms(PROBE_PAUSE_MS)


async def other_topics(admin: AdminClient, source: AdminClient, topics: Iterable[str]) -> list[str]:
    """Returns problems with topics that the source lacks, or has with another topic id."""
    names = sorted(topics)
    here, there = await admin.describe_topics(names), await source.describe_topics(names)
    problems = [f"the source has no topic {name}" for name in names if name not in there]
    for name in names:
        if name not in here or name not in there or Uuid.ZERO in (here[name].topic_id, there[name].topic_id):
            continue
        if here[name].topic_id != there[name].topic_id:
            problems.append(f"the source has another topic {name}, with the id {there[name].topic_id}; here it is {here[name].topic_id}")
    return problems


def refuse_other_topics(problems: list[str]) -> None:
    if problems:
        what = "to mirror what the source has now, delete the topic here and add it again"
        raise KmirrorError(f"{'; '.join(problems)}: it would not be mirrored; {what}")


async def epochs_under_another_name(admin: AdminClient, source: AdminClient, mirror_name: str, topics: set[str] | None) -> list[str]:
    """Returns a warning for each other mirror name under which the source holds last mirror epochs.

    They are looked up by the mirror's name (C8). `topics` None means all topics.
    """
    warnings = []
    for name, held in sorted((await _epochs_by_mirror(admin, source, mirror_name)).items()):
        shown = sorted(held if topics is None else held & topics)
        if shown:
            text = f"the source knows last mirror epochs of {topic_list(shown)} under the mirror name {name}, not {mirror_name}"
            what = "keeps what is identical to the source's log from its beginning on, and drops the rest"
            warnings.append(f"{text}: with this name none is found, and a failback {what} (--add --dry-run shows it)")
    return warnings


async def _epochs_by_mirror(admin: AdminClient, source: AdminClient, mirror_name: str) -> dict[str, set[str]]:
    """Returns the topics with last mirror epochs at the source, by the mirror's name there.

    Only mirrors of this cluster count. Topics that have an epoch under `mirror_name` are left out.
    Empty when the source has no mirrors or cannot be asked.
    """
    try:
        own = (await admin.describe_cluster()).cluster_id
        listed = {mirror.mirror_name for mirror in await source.list_mirrors() if mirror.source_cluster_id == own}
        described = await source.describe_mirrors()
    except KmirrorError:
        return {}
    held = {name: {row.topic for row in described[name].partitions if row.last_mirror_epoch >= 0} for name in listed & described.keys()}
    own_topics = held.pop(mirror_name, set())
    return {name: topics - own_topics for name, topics in held.items()}
