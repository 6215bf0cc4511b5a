"""The actions of `kafka-mirrors`, over `AdminClient`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigOperation, ConfigResourceType, NewTopic, TopicResults
from kmirror.cli import mirrors_dry_run
from kmirror.cli.mirrors_tables import describe_json, describe_table, list_json, list_table, topic_list
from kmirror.cli.properties import read_properties
from kmirror.cli.tool_client import open_admin
from kmirror.cli.user_errors import USER_ERRORS, one_line
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

BOOTSTRAP_SERVERS = "bootstrap.servers"
ADD_TIMEOUT_MS = 30_000
ADD_PAUSE_MS = 100
MAX_CHAIN_LENGTH = 16


def run_action(action: str, options: argparse.Namespace) -> int:
    """Run it; errors are one line on stderr and exit code 1."""
    try:
        return run(lambda runtime: _run(runtime, action, options))
    except USER_ERRORS as error:
        print(f"kafka-mirrors: {one_line(error)}", file=sys.stderr)
        return 1


async def _run(runtime: Runtime, action: str, options: argparse.Namespace) -> int:
    command = MirrorCommand(runtime, options)
    try:
        text = await getattr(command, f"do_{action}")()
    finally:
        command.close()
    print(text)
    return 0


class MirrorCommand:
    """One invocation. Each action returns what to print."""

    def __init__(self, runtime: Runtime, options: argparse.Namespace) -> None:
        self._runtime = runtime
        self._options = options
        properties = {} if options.command_config is None else read_properties(options.command_config)
        self._admin = open_admin(runtime, options.bootstrap_server, properties, client_id="kafka-mirrors")
        self._opened: list[AdminClient] = [self._admin]
        self._source_configs: dict[str, str] = {}

    def close(self) -> None:
        for client in self._opened:
            client.close()

    async def do_create(self) -> str:
        await self._admin.create_mirror(self._options.mirror, read_properties(self._options.mirror_config))
        return f"Created mirror {self._options.mirror}"

    async def do_alter(self) -> str:
        changes = [(name, ConfigOperation.SET, value) for name, value in sorted(read_properties(self._options.mirror_config).items())]
        await self._admin.incremental_alter_configs(ConfigResourceType.MIRROR, self._options.mirror, changes)
        return f"Altered mirror {self._options.mirror}"

    async def do_delete(self) -> str:
        await self._admin.delete_mirror(self._options.mirror)
        return f"Deleted mirror {self._options.mirror}"

    async def do_list(self) -> str:
        mirrors = await self._admin.list_mirrors()
        return list_json(mirrors) if self._options.json else list_table(mirrors)

    async def do_describe(self) -> str:
        described = await self._admin.describe_mirrors([self._options.mirror] if self._options.mirror else [])
        return describe_json(described.values()) if self._options.json else describe_table(described.values())

    async def do_pause(self) -> str:
        topics = await self._topics_of_mirror()
        _raise_failures(await self._admin.pause_mirror_topics(self._options.mirror, topics))
        return f"Paused mirroring for {len(topics)} topic(s) in mirror {self._options.mirror}: {topic_list(topics)}"

    async def do_resume(self) -> str:
        topics = await self._topics_of_mirror()
        _raise_failures(await self._admin.resume_mirror_topics(self._options.mirror, topics))
        return f"Resumed mirroring for {len(topics)} topic(s) in mirror {self._options.mirror}: {topic_list(topics)}"

    async def do_remove(self) -> str:
        described = (await self._admin.describe_mirrors([self._options.mirror]))[self._options.mirror]
        matching = [
            row for row in described.partitions if row.topic in _matching(self._options.topic, {row.topic for row in described.partitions})
        ]
        if self._options.dry_run:
            losses = await mirrors_dry_run.failover_loss(self._admin, {TopicPartition(row.topic, row.partition) for row in matching})
            return mirrors_dry_run.loss_json(losses) if self._options.json else mirrors_dry_run.loss_text(losses)
        for row in matching:
            if row.state == "PREPARING":
                _warn(f"{row.topic}-{row.partition} is PREPARING: its log may have been cut already; it ends at {row.destination_offset}")
        topics = await self._remove({row.topic for row in matching})
        return f"Removed {len(topics)} topic(s) from mirror {self._options.mirror}: {topic_list(topics)}"

    async def _remove(self, topics: Iterable[str]) -> list[str]:
        """The topics that this removed. Those that were removed before are an error only when there is nothing else: a pattern
        that is used again after it half worked must work. (A STOPPED topic may still have to be removed: B5.)"""
        result = await self._admin.remove_topics_from_mirror(self._options.mirror, topics)
        failures = {topic: error for topic, error in result.failed.items() if error.error is not Errors.TOPIC_NOT_IN_MIRROR}
        if failures or not result.succeeded:
            _raise_failures(result)
        return sorted(result.succeeded)

    async def do_add(self) -> str:
        source = await self._source()
        names = _matching(self._options.topic, await source.list_topics())
        if self._options.dry_run:
            local = await self._admin.describe_topics(names)
            partitions = {TopicPartition(name, partition.partition) for name, topic in local.items() for partition in topic.partitions}
            losses = await mirrors_dry_run.failback_loss(self._admin, source, self._options.mirror, partitions)
            return mirrors_dry_run.loss_json(losses) if self._options.json else mirrors_dry_run.loss_text(losses)
        await self._check_chain(source, names)
        await self._create_topics(source, names)
        await self._add_until_known(names)
        return f"Added {len(names)} topic(s) to mirror {self._options.mirror}: {topic_list(names)}"

    async def _topics_of_mirror(self) -> list[str]:
        """B43: the pattern is matched against the mirror's own topics only."""
        described = (await self._admin.describe_mirrors([self._options.mirror]))[self._options.mirror]
        return _matching(self._options.topic, {row.topic for row in described.partitions})

    async def _source(self) -> AdminClient:
        """A client of the mirror's source: --mirror-config where given, else the mirror's own configs (never its secrets, C22).

        A source that asks for a password needs --mirror-config.
        """
        if self._options.mirror_config is not None:
            configs = read_properties(self._options.mirror_config)
        else:
            entries = await self._admin.describe_configs(ConfigResourceType.MIRROR, self._options.mirror)
            configs = {entry.name: entry.value for entry in entries if entry.value is not None}
        if not configs.get(BOOTSTRAP_SERVERS):
            raise ApiException(Errors.UNKNOWN_MIRROR, "The mirror does not exist.")
        self._source_configs = configs
        return self._client(configs[BOOTSTRAP_SERVERS])

    def _client(self, bootstrap_servers: str) -> AdminClient:
        """A client of the source, or of a cluster behind it, which is taken to be secured alike."""
        try:
            client = open_admin(self._runtime, bootstrap_servers, self._source_configs, client_id="kafka-mirrors")
        except ConfigError as error:
            hint = "" if self._options.mirror_config is not None else " (a mirror's secrets are not told: give them with --mirror-config)"
            raise ConfigError(f"mirror {self._options.mirror}: {error}{hint}") from error
        self._opened.append(client)
        return client

    async def _check_chain(self, source: AdminClient, names: Iterable[str]) -> None:
        """A topic that comes back to us over a chain of mirrors would empty every cluster of the ring: refuse it."""
        own = (await self._admin.describe_cluster()).cluster_id
        wanted, client = set(names), source
        path: list[str] = []
        for _ in range(MAX_CHAIN_LENGTH):
            cluster = await client.describe_cluster()
            if cluster.cluster_id == own:
                raise KmirrorError(f"a ring of mirrors: {' <- '.join([str(own), *path])} leads back to this cluster; nothing was added")
            path.append(str(cluster.cluster_id))
            following = await _mirrored_from(client, wanted)
            if following is None:
                return
            client = self._client(following)

    async def _create_topics(self, source: AdminClient, names: Iterable[str]) -> None:
        """Topics that are not here yet, with the source's id and partition count."""
        existing = await self._admin.describe_topics(names)
        described = await source.describe_topics([name for name in names if name not in existing])
        factor = -1 if self._options.replication_factor is None else self._options.replication_factor
        topics = [
            NewTopic(name, len(topic.partitions), factor, mirror_topic_id=topic.topic_id if topic.topic_id != Uuid.ZERO else None)
            for name, topic in sorted(described.items())
        ]
        if not topics:
            return
        for name, error in (await self._admin.create_topics(topics)).failed.items():
            if error.error is not Errors.TOPIC_ALREADY_EXISTS:
                raise KmirrorError(f"topic {name} could not be created: {error.message}")

    async def _add_until_known(self, names: list[str]) -> None:
        """C21: a topic that was just created may not be known everywhere yet."""
        deadline_ms = self._runtime.clock.monotonic_ms() + ADD_TIMEOUT_MS
        while True:
            result = await self._admin.add_topics_to_mirror(self._options.mirror, names)
            unknown = [name for name, error in result.failed.items() if error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION]
            if not unknown or len(unknown) < len(result.failed) or self._runtime.clock.monotonic_ms() >= deadline_ms:
                _raise_failures(result)
                return
            names = unknown
            await self._runtime.sleep_ms(ADD_PAUSE_MS)


async def _mirrored_from(client: AdminClient, topics: set[str]) -> str | None:
    """The bootstrap servers that a cluster mirrors any of `topics` from; None when it does not, or cannot tell."""
    try:
        listed = await client.list_mirrors()
        described = await client.describe_mirrors()
    except ApiException as error:
        if error.error is Errors.UNSUPPORTED_VERSION:
            return None
        raise
    for mirror in listed:
        rows = described[mirror.mirror_name].partitions if mirror.mirror_name in described else []
        if any(row.topic in topics and row.state != "STOPPED" for row in rows):
            return mirror.source_bootstrap
    return None


def _matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Topics equal to the pattern, or matched by it as a whole; KmirrorError when there is none."""
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--topic {pattern}: not a regular expression: {error}") from error
    found = sorted(topic for topic in topics if topic == pattern or regex.fullmatch(topic) is not None)
    if not found:
        raise KmirrorError(f"No topics matching pattern '{pattern}' found")
    return found


def _raise_failures(result: TopicResults) -> None:
    if result.failed:
        raise KmirrorError("; ".join(f"{topic}: {error.message}" for topic, error in sorted(result.failed.items())))


def _warn(text: str) -> None:
    print(f"Warning: {text}", file=sys.stderr)
