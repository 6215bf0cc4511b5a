"""The actions of `kafka-mirrors`, over `AdminClient`; longer ones have files: `mirrors_reverse`, `mirrors_watch`, `mirrors_verify`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import ConfigOperation, ConfigResourceType, MirrorDescription, MirrorPartitionDescription, NewTopic, TopicResults
from kmirror.cli import mirrors_dry_run
from kmirror.cli.mirrors_clients import BOOTSTRAP_SERVERS, SHORT_TIMEOUT_MS, MirrorClients
from kmirror.cli.mirrors_dry_run_text import loss_json, loss_text
from kmirror.cli.mirrors_groups import groups_beyond
from kmirror.cli.mirrors_source import SourceEnd, source_ends_if_reachable
from kmirror.cli.mirrors_tables import SourceEnds, describe_json, describe_table, list_json, list_table, topic_list
from kmirror.cli.mirrors_wait import MIRRORING, PAUSED, STOPPED, Deadline, MirrorWaiter, NotFinishedError, progress_bar
from kmirror.cli.properties import read_properties
from kmirror.cli.tool_options import closed_pipe
from kmirror.cli.user_errors import USER_ERRORS, one_line
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.mirror_names import topic_name_problem
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

ADD_TIMEOUT_MS = 30_000
ADD_PAUSE_MS = 100
NOT_FINISHED = 2
MAX_NAMED = 5
ALREADY = {
    "add": (Errors.TOPIC_ALREADY_IN_MIRROR,),
    "remove": (Errors.TOPIC_NOT_IN_MIRROR,),
    "pause": (Errors.MIRROR_TOPIC_ALREADY_PAUSED, Errors.MIRROR_TOPIC_BEING_REMOVED),
    "resume": (Errors.MIRROR_TOPIC_NOT_PAUSED, Errors.MIRROR_TOPIC_BEING_REMOVED),
}
"""Errors of topics for which there is nothing to do. They count only when there is no other topic: a pattern that is used again, after
it half worked or when topics were made since, must work."""


def run_action(action: str, options: argparse.Namespace) -> int:
    """Run it; errors are one line on stderr and exit code 1, or 2 when it is only not finished."""
    try:
        return run(lambda runtime: _run(runtime, action, options))
    except NotFinishedError as error:
        print(f"kafka-mirrors: {error}", file=sys.stderr)
        return NOT_FINISHED
    except BrokenPipeError:
        return closed_pipe()
    except USER_ERRORS as error:
        print(f"kafka-mirrors: {one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0 if action == "watch" else 130


async def _run(runtime: Runtime, action: str, options: argparse.Namespace) -> int:
    clients = MirrorClients(runtime, options)
    try:
        if action == "watch":
            from kmirror.cli.mirrors_watch import watch

            return await watch(clients)
        if action == "reverse":
            from kmirror.cli.mirrors_reverse import reverse

            return await reverse(clients)
        await getattr(MirrorCommand(clients), f"{'dry_run' if options.dry_run else 'do'}_{action}")()
    finally:
        clients.close()
    return 0


class MirrorCommand:
    """One invocation. Each action prints its result when it has it: what may take long after that is warnings."""

    def __init__(self, clients: MirrorClients) -> None:
        self._clients = clients
        self._options = clients.options
        self._admin = clients.admin
        self._mirror: str = clients.options.mirror
        self._deadline = Deadline(clients.runtime, clients.options.timeout)

    # --- mirrors ------------------------------------------------------------------------------------------------------

    async def do_create(self) -> None:
        configs = read_properties(self._options.mirror_config)
        await self._admin.create_mirror(self._mirror, configs)
        self._done(f"Created mirror {self._mirror}", "create")
        await self._warn_of_another_name(await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS), None)

    async def do_alter(self) -> None:
        configs = read_properties(self._options.mirror_config)
        changes = [(name, ConfigOperation.SET, value) for name, value in sorted(configs.items())]
        await self._admin.incremental_alter_configs(ConfigResourceType.MIRROR, self._mirror, changes)
        self._done(f"Altered mirror {self._mirror}", "alter")

    async def dry_run_alter(self) -> None:
        self._print_losses(await self._alteration_loss(read_properties(self._options.mirror_config)))

    async def do_delete(self) -> None:
        await self._admin.delete_mirror(self._mirror)
        self._done(f"Deleted mirror {self._mirror}", "delete")

    async def dry_run_delete(self) -> None:
        rows = await self._rows()
        ends, problem = await self._source_ends(rows)
        self._print_losses(mirrors_dry_run.deletion_loss(rows, ends, problem))

    async def do_list(self) -> None:
        mirrors = await self._admin.list_mirrors()
        print(list_json(mirrors) if self._options.json else list_table(mirrors))

    async def do_describe(self) -> None:
        described = await self._admin.describe_mirrors([self._mirror] if self._mirror else [])
        rows = list(described.values()) if not self._options.topic else of_topics(described.values(), self._options.topic)
        ends = await verbose_ends(self._clients, rows) if self._options.verbose else None
        print(describe_json(rows, ends) if self._options.json else describe_table(rows, ends))

    async def _alteration_loss(self, configs: dict[str, str]) -> list[mirrors_dry_run.DroppedRecords]:
        """What the first fetch from the altered source would cut. Another cluster is never fetched from (B36)."""
        rows = [row for row in await self._rows() if row.state == MIRRORING]
        if not configs.get(BOOTSTRAP_SERVERS):
            return [mirrors_dry_run.nothing_dropped(row, "the source stays the same") for row in rows]
        source = await self._clients.source(self._mirror)
        listed = {mirror.mirror_name: mirror.source_cluster_id for mirror in await self._admin.list_mirrors()}
        known, altered = listed.get(self._mirror, ""), (await source.describe_cluster()).cluster_id
        if known and known != altered:
            reason = f"cluster {altered} is not the mirror's source {known}: mirroring halts until that is altered back"
            return [mirrors_dry_run.nothing_dropped(row, reason) for row in rows]
        return await mirrors_dry_run.divergence_loss(self._admin, source, {TopicPartition(row.topic, row.partition) for row in rows})

    # --- topics -------------------------------------------------------------------------------------------------------

    async def do_pause(self) -> None:
        topics = await self._change("pause", self._admin.pause_mirror_topics, PAUSED)
        self._done(f"Paused mirroring for {len(topics)} topic(s) in mirror {self._mirror}: {topic_list(topics)}", "pause", topics)

    async def do_resume(self) -> None:
        topics = await self._change("resume", self._admin.resume_mirror_topics, MIRRORING)
        self._done(f"Resumed mirroring for {len(topics)} topic(s) in mirror {self._mirror}: {topic_list(topics)}", "resume", topics)

    async def _change(self, action: str, change: Callable[[str, Iterable[str]], Awaitable[TopicResults]], state: str) -> list[str]:
        """B43: the pattern is matched against the mirror's own topics only. With --wait: until those that are not removed are in `state`."""
        rows = of_pattern(self._options.topic, await self._rows())
        changed = settle(action, await change(self._mirror, {row.topic for row in rows}), may_be_idle=self._options.wait)
        await self._wait_for_state({row.topic for row in rows if row.state != STOPPED}, state)
        return changed

    async def do_remove(self) -> None:
        rows = of_pattern(self._options.topic, await self._rows())
        topics = {row.topic for row in rows}
        if self._options.wait:
            source = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
            with progress_bar("draining") as progress:
                await MirrorWaiter(self._admin, self._mirror, topics, self._deadline, progress).until_drained(source)
        for row in rows:
            if row.state == "PREPARING":
                warn(f"{row.topic}-{row.partition} is PREPARING: its log may have been cut already; it ends at {row.destination_offset}")
        result = await self._admin.remove_topics_from_mirror(self._mirror, topics)
        removed = settle("remove", result, may_be_idle=self._options.wait)
        text = f"Removed {len(removed)} topic(s) from mirror {self._mirror}: {topic_list(removed)}"
        stopped = await self._wait_for_state(topics, STOPPED)
        if stopped is not None:
            await self._failover_report(text, removed, stopped)
        else:
            self._done(text, "remove", removed)
        await self._warn_of_groups({TopicPartition(row.topic, row.partition): row.destination_offset for row in stopped or rows})

    async def dry_run_remove(self) -> None:
        rows = of_pattern(self._options.topic, await self._rows())
        ends, _ = await self._source_ends(rows)
        partitions = {TopicPartition(row.topic, row.partition) for row in rows}
        self._print_losses(await mirrors_dry_run.failover_loss(self._admin, partitions, ends))

    async def _failover_report(self, text: str, topics: list[str], rows: list[MirrorPartitionDescription]) -> None:
        """After --wait: where the partitions end, and what the source has besides."""
        ends, problem = await self._source_ends(rows)
        missing = {
            name: ends[name].missing(row.destination_offset - 1)
            for row in rows
            if (name := TopicPartition(row.topic, row.partition)) in ends
        }
        partitions = [
            {
                "topic": row.topic,
                "partition": row.partition,
                "state": row.state,
                "logEndOffset": row.destination_offset,
                "notMirrored": missing.get(TopicPartition(row.topic, row.partition)),
            }
            for row in rows
        ]
        rest = (
            f"{sum(missing.values())} offset(s) of the source are not mirrored"
            if problem is None
            else f"the source does not answer: {problem}"
        )
        self._done(f"{text}\nAll {len(rows)} partition(s) are {STOPPED}; {rest}", "remove", topics, partitions=partitions)

    async def do_add(self) -> None:
        try:
            source = await self._clients.source(self._mirror)
        except ConfigError as error:
            await self._add_unseen(error)
            return
        names = matching(self._options.topic, await source.list_topics())
        await self._warn_of_another_name(source, set(names))
        added = await add_topics(self._clients, self._mirror, self._admin, source, names, may_be_idle=self._options.wait)
        await self._wait_for_state(names, MIRRORING)
        self._done(f"Added {len(added)} topic(s) to mirror {self._mirror}: {topic_list(added)}", "add", added)

    async def dry_run_add(self) -> None:
        source = await self._clients.source(self._mirror)
        names = matching(self._options.topic, await source.list_topics())
        local = await self._admin.describe_topics(names)
        partitions = {TopicPartition(name, partition.partition) for name, topic in local.items() for partition in topic.partitions}
        self._print_losses(await mirrors_dry_run.failback_loss(self._admin, source, self._mirror, partitions))

    async def _add_unseen(self, error: ConfigError) -> None:
        """C22: without the source's secrets its topics cannot be listed, but one that is named can be added: the broker, which has them,
        makes it (B17)."""
        name = self._options.topic
        if topic_name_problem(name) is not None:
            raise error
        warn(f"{error}; so only topic '{name}' itself is added, and whether it comes back here over other clusters is not checked")
        runtime, may_be_idle = self._clients.runtime, self._options.wait
        added = await _add_until_known(runtime, self._admin, self._mirror, [name], may_be_idle=may_be_idle)
        await self._wait_for_state([name], MIRRORING)
        self._done(f"Added {len(added)} topic(s) to mirror {self._mirror}: {topic_list(added)}", "add", added)

    # --- what they share ----------------------------------------------------------------------------------------------

    async def _rows(self) -> list[MirrorPartitionDescription]:
        return (await self._admin.describe_mirrors([self._mirror]))[self._mirror].partitions

    async def _source_ends(self, rows: Iterable[MirrorPartitionDescription]) -> tuple[dict[TopicPartition, SourceEnd], str | None]:
        """The source's ends, or why there are none: it may be down, or want a password."""
        try:
            source = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
        except KmirrorError as error:
            return {}, str(error)
        return await source_ends_if_reachable(source, rows)

    async def _wait_for_state(self, topics: Collection[str], state: str) -> list[MirrorPartitionDescription] | None:
        """With --wait: until every partition of `topics` is in `state`."""
        if not self._options.wait:
            return None
        described = await self._admin.describe_topics(topics)
        partitions = sum(len(topic.partitions) for topic in described.values())
        with progress_bar(f"until {state}") as progress:
            return await MirrorWaiter(self._admin, self._mirror, topics, self._deadline, progress).until_state(state, partitions=partitions)

    async def _warn_of_another_name(self, source: AdminClient, topics: set[str] | None) -> None:
        """C8: last mirror epochs are asked for by the name of the mirror. `topics` None: any."""
        for name, held in sorted((await _epochs_by_mirror(self._admin, source, self._mirror)).items()):
            shown = sorted(held if topics is None else held & topics)
            if shown:
                text = f"the source knows last mirror epochs of {topic_list(shown)} under the mirror name {name}, not {self._mirror}"
                warn(f"{text}: with this name a failback starts from scratch")

    async def _warn_of_groups(self, ends: dict[TopicPartition, int]) -> None:
        """C32: after the failover, which must not wait for it."""
        try:
            for group in await groups_beyond(self._admin, ends):
                warn(f"{group}: auto.offset.reset decides where its consumers go on")
        except (ApiException, NoBrokerError) as error:
            warn(f"whether groups have read further is not known: {one_line(error)}")

    def _print_losses(self, losses: list[mirrors_dry_run.DroppedRecords]) -> None:
        print(loss_json(losses) if self._options.json else loss_text(losses))

    def _done(self, text: str, action: str, topics: Iterable[str] | None = None, **facts: Any) -> None:
        """The KIP's message, or the same as JSON."""
        if self._options.json:
            named = {} if topics is None else {"topics": sorted(topics)}
            text = json.dumps({"action": action, "mirror": self._mirror, **named, **facts}, indent=2)
        print(text, flush=True)


async def add_topics(
    clients: MirrorClients, mirror_name: str, destination: AdminClient, source: AdminClient, names: list[str], *, may_be_idle: bool
) -> list[str]:
    """Create what is missing at the destination and add it; those that this added."""
    await clients.check_chain(mirror_name, destination, source, names)
    factor = clients.options.replication_factor
    await _create_topics(destination, source, names, -1 if factor is None else factor)
    return await _add_until_known(clients.runtime, destination, mirror_name, names, may_be_idle=may_be_idle)


async def _create_topics(admin: AdminClient, source: AdminClient, names: Iterable[str], replication_factor: int) -> None:
    """Topics that are not here yet, with the source's id and partition count."""
    existing = await admin.describe_topics(names)
    described = await source.describe_topics([name for name in names if name not in existing])
    topics = [
        NewTopic(name, len(topic.partitions), replication_factor, mirror_topic_id=topic.topic_id if topic.topic_id != Uuid.ZERO else None)
        for name, topic in sorted(described.items())
    ]
    if not topics:
        return
    for name, error in (await admin.create_topics(topics)).failed.items():
        if error.error is not Errors.TOPIC_ALREADY_EXISTS:
            raise KmirrorError(f"topic {name} could not be created: {error.message}")


async def _add_until_known(runtime: Runtime, admin: AdminClient, mirror_name: str, names: list[str], *, may_be_idle: bool) -> list[str]:
    """C21: a topic that was just created may not be known everywhere yet."""
    deadline_ms = runtime.clock.monotonic_ms() + ADD_TIMEOUT_MS
    errors: dict[str, ApiException | None] = {}
    while True:
        errors |= (await admin.add_topics_to_mirror(mirror_name, names)).errors
        names = [name for name, error in errors.items() if error is not None and error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION]
        if not names or runtime.clock.monotonic_ms() >= deadline_ms:
            return settle("add", TopicResults(errors), may_be_idle=may_be_idle)
        await runtime.sleep_ms(ADD_PAUSE_MS)


async def verbose_ends(
    clients: MirrorClients, mirrors: Iterable[MirrorDescription], tell: Callable[[str], None] | None = None
) -> SourceEnds:
    """What each mirror's source says of its partitions; nothing of one that cannot be asked, which `tell` (a warning) is told of."""
    tell = warn if tell is None else tell
    found: dict[tuple[str, TopicPartition], SourceEnd] = {}
    for mirror in mirrors:
        try:
            source = await clients.source(mirror.mirror_name, timeout_ms=SHORT_TIMEOUT_MS)
        except (ApiException, KmirrorError) as error:
            tell(f"mirror {mirror.mirror_name}: {one_line(error)}")
            continue
        ends, problem = await source_ends_if_reachable(source, mirror.partitions, now_ms=clients.runtime.clock.time_ms())
        if problem is not None:
            tell(f"mirror {mirror.mirror_name}: the source does not answer: {problem}")
        found |= {(mirror.mirror_name, name): end for name, end in ends.items()}
    return found


async def _epochs_by_mirror(admin: AdminClient, source: AdminClient, mirror_name: str) -> dict[str, set[str]]:
    """Topics of which the source has last mirror epochs, by the mirror's name there; only mirrors of this cluster, and none if the
    name in question has any, or the source has no mirrors or cannot be asked."""
    try:
        own = (await admin.describe_cluster()).cluster_id
        listed = {mirror.mirror_name for mirror in await source.list_mirrors() if mirror.source_cluster_id == own}
        described = await source.describe_mirrors()
    except (ApiException, KmirrorError):
        return {}
    held = {name: {row.topic for row in described[name].partitions if row.last_mirror_epoch >= 0} for name in listed & described.keys()}
    own_topics = held.pop(mirror_name, set())
    return {name: topics - own_topics for name, topics in held.items()}


def of_pattern(pattern: str, rows: Iterable[MirrorPartitionDescription]) -> list[MirrorPartitionDescription]:
    """The partitions of the topics that match; KmirrorError when none does."""
    found = list(rows)
    names = set(matching(pattern, {row.topic for row in found}))
    return [row for row in found if row.topic in names]


def of_topics(mirrors: Iterable[MirrorDescription], pattern: str) -> list[MirrorDescription]:
    listed = list(mirrors)
    names = set(matching(pattern, {row.topic for mirror in listed for row in mirror.partitions}))
    return [MirrorDescription(mirror.mirror_name, [row for row in mirror.partitions if row.topic in names]) for mirror in listed]


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Topics equal to the pattern, or matched by it as a whole; KmirrorError when there is none."""
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--topic {pattern}: not a regular expression: {error}") from error
    found = sorted(topic for topic in topics if topic == pattern or regex.fullmatch(topic) is not None)
    if not found:
        raise KmirrorError(f"No topics matching pattern '{pattern}' found")
    return found


def settle(action: str, result: TopicResults, *, may_be_idle: bool = False) -> list[str]:
    """The topics that were changed. A failure raises, but where there was nothing to do it is a warning beside those that were;
    `may_be_idle`: also where there are none, as when a command with --wait is given again."""
    idle = {topic: error for topic, error in result.failed.items() if error.error in ALREADY[action]}
    if len(idle) < len(result.failed) or not (result.succeeded or may_be_idle):
        raise KmirrorError("; ".join(f"{topic}: {error.message}" for topic, error in sorted(result.failed.items())))
    for reason in sorted({error.message for error in idle.values()}):
        topics = sorted(topic for topic, error in idle.items() if error.message == reason)
        more = f" and {len(topics) - MAX_NAMED} more" if len(topics) > MAX_NAMED else ""
        warn(f"left as it was: {', '.join(topics[:MAX_NAMED])}{more}: {reason}")
    return sorted(result.succeeded)


def warn(text: str) -> None:
    print(f"Warning: {text}", file=sys.stderr)
