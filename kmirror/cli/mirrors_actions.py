"""The actions of `kafka-mirrors`, over `AdminClient`.

Longer actions have files of their own: `mirrors_reverse`, `mirrors_watch`, `mirrors_verify`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import (
    ConfigOperation,
    ConfigResourceType,
    DescribeMirrorsOptions,
    MirrorPartitionDescription,
    TopicResults,
)
from kmirror.cli import mirrors_dry_run
from kmirror.cli.mirrors_clients import BOOTSTRAP_SERVERS, SHORT_TIMEOUT_MS, MirrorClients
from kmirror.cli.mirrors_configs import source_defaults
from kmirror.cli.mirrors_dry_run_text import loss_json, loss_text
from kmirror.cli.mirrors_fronts import AT_NEW_SOURCE, compare_retention, explain_fronts, fronts_of, missing_fronts
from kmirror.cli.mirrors_leaderless import topics_without_leader, with_leaderless
from kmirror.cli.mirrors_list import health_lines, health_of
from kmirror.cli.mirrors_losses import DroppedRecords, last_known_lag, total_text
from kmirror.cli.mirrors_reverse import reverse
from kmirror.cli.mirrors_source import SourceEnd, another_cluster, check_source_cluster, source_ends_if_reachable, unseen, verbose_ends
from kmirror.cli.mirrors_source_check import (
    check_altered_source,
    check_new_source,
    ensure_brokers_answer,
    epochs_under_another_name,
    other_topics,
    refuse_other_topics,
)
from kmirror.cli.mirrors_tables import describe_json, described_text, failover_rows, list_json, list_table, terminal_columns, topic_list
from kmirror.cli.mirrors_topics import (
    ALREADY,
    add_topics,
    add_until_known,
    matching_at_source,
    of_pattern,
    of_topics,
    settle,
    warn,
    warn_of_groups,
)
from kmirror.cli.mirrors_truncation import refuse_failed, truncation_limits, with_truncation_accepted
from kmirror.cli.mirrors_wait import MIRRORING, PAUSED, PAUSING, STOPPED, Deadline, MirrorWaiter, NotFinishedError, answered, progress_bar
from kmirror.cli.mirrors_watch import watch
from kmirror.cli.properties import read_mirror_configs
from kmirror.cli.user_errors import one_line
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError, unknown_mirror
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.mirror_names import topic_name_problem
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

FAILOVER_TIMEOUT_MS = 15_000
"""Longer than a dead broker keeps its leaderships (broker.session.timeout.ms)."""
NOT_FINISHED = 2
WITHOUT_WAIT = (
    "To fail over without the source, give the same command without --wait; with --dry-run it says what is last known of the "
    "source. --reverse --force fails over, and back when the source is there again"
)


def run_action(action: str, options: argparse.Namespace) -> int:
    """Run the action and return the exit code; 2 when it only ran out of time."""
    try:
        return run(lambda runtime: _run(runtime, action, options))
    except NotFinishedError as error:
        print(f"kafka-mirrors: {error}", file=sys.stderr)
        return NOT_FINISHED
    except KeyboardInterrupt:
        if action == "watch":
            return 0
        if (options.wait or options.accept_truncation or action == "reverse") and not options.dry_run:
            print("kafka-mirrors: interrupted; the same command goes on where this one ended", file=sys.stderr)
        raise


async def _run(runtime: Runtime, action: str, options: argparse.Namespace) -> int:
    clients = MirrorClients(runtime, options)
    try:
        if action == "watch":
            return await watch(clients)
        if action == "reverse":
            return await reverse(clients)
        await getattr(MirrorCommand(clients), f"{'dry_run' if options.dry_run else 'do'}_{action}")()
    finally:
        clients.close()
    return 0


class MirrorCommand:
    """One invocation.

    Each action prints its result as soon as it has it. Anything slow after that is only warnings.
    """

    def __init__(self, clients: MirrorClients) -> None:
        self._clients = clients
        self._options = clients.options
        self._admin = clients.admin
        self._mirror: str = clients.options.mirror
        self._deadline = Deadline(clients.runtime, clients.options.timeout)

    # --- mirrors
    # ------------------------------------------------------------------------------------------------------

    async def do_create(self) -> None:
        configs = read_mirror_configs(self._options.mirror_config)
        problem = await check_new_source(self._clients, self._mirror, configs)
        await self._admin.create_mirror(self._mirror, configs)
        self._done(f"Created mirror {self._mirror}", "create")
        if problem is not None:
            warn(problem)
            return
        try:
            source = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
        except KmirrorError as error:  # the mirror is created; the brokers may have what this machine lacks
            warn(f"could not check whether the source has last mirror epochs under another mirror name: {one_line(error)}")
            return
        await self._warn_of_another_name(source, None)

    async def do_alter(self) -> None:
        configs = read_mirror_configs(self._options.mirror_config)
        changes = [(name, ConfigOperation.SET, value) for name, value in sorted(configs.items())]
        problem = await check_altered_source(self._clients, self._mirror, configs)
        await self._admin.incremental_alter_configs(ConfigResourceType.MIRROR, self._mirror, changes)
        self._done(f"Altered mirror {self._mirror}", "alter")
        if problem is not None:
            warn(problem)

    async def dry_run_alter(self) -> None:
        self._print_losses(await self._alteration_loss(read_mirror_configs(self._options.mirror_config)))

    async def do_delete(self) -> None:
        await self._admin.delete_mirror(self._mirror)
        self._done(f"Deleted mirror {self._mirror}", "delete")

    async def dry_run_delete(self) -> None:
        rows = await self._rows()
        ends, problem = await self._source_ends(rows)
        self._print_losses(mirrors_dry_run.deletion_loss(rows, ends, problem))

    async def do_list(self) -> None:
        mirrors = await self._admin.list_mirrors()
        if self._mirror:
            mirrors = [mirror for mirror in mirrors if mirror.mirror_name == self._mirror]
            if not mirrors:
                raise unknown_mirror(self._mirror)
        health = await health_of(self._clients, mirrors)
        if self._options.json:
            print(list_json(mirrors, health))
        elif not mirrors and self._clients.user is not None:
            print(f"No mirrors found that user {self._clients.user} may describe")
        else:
            print("\n".join([list_table(mirrors, terminal_columns()), *health_lines(health)]))

    async def do_describe(self) -> None:
        described = list((await self._admin.describe_mirrors([self._mirror] if self._mirror else [])).values())
        for problem in await topics_without_leader(self._admin, described):
            warn(problem)
        described = await with_leaderless(self._admin, described)
        rows = described if not self._options.topic else of_topics(described, self._options.topic)
        ends = await verbose_ends(self._clients, rows, warn) if self._options.verbose else None
        fronts = await fronts_of(self._clients, rows)
        if self._options.json:
            print(describe_json(rows, ends, fronts))
        else:
            configs = await source_defaults(self._admin, rows)
            print(described_text(rows, ends, configs, fronts, terminal_columns()))

    async def _alteration_loss(self, configs: dict[str, str]) -> list[DroppedRecords]:
        """Returns what the first fetch from the altered source would cut.

        Another cluster is never fetched from (B36).
        """
        rows = [row for row in await self._rows() if row.state == MIRRORING]
        if not configs.get(BOOTSTRAP_SERVERS):
            return [mirrors_dry_run.nothing_dropped(row, "the source stays the same") for row in rows]
        source = await self._clients.source(self._mirror)
        listed = {mirror.mirror_name: mirror.source_cluster_id for mirror in await self._admin.list_mirrors()}
        known, altered = listed.get(self._mirror, ""), (await source.describe_cluster()).cluster_id
        if known and known != altered:
            reason = f"cluster {altered} is not the mirror's source {known}: mirroring stops until bootstrap.servers is changed back"
            return [mirrors_dry_run.nothing_dropped(row, reason) for row in rows]
        return await mirrors_dry_run.divergence_loss(self._admin, source, {TopicPartition(row.topic, row.partition) for row in rows})

    # --- topics
    # -------------------------------------------------------------------------------------------------------

    async def do_pause(self) -> None:
        topics = await self._change("pause", self._admin.pause_mirror_topics, PAUSED)
        self._done(f"Paused mirroring for {len(topics)} topic(s) in mirror {self._mirror}: {topic_list(topics)}", "pause", topics)

    async def do_resume(self) -> None:
        await self._check_topics_to_resume()
        topics = await self._change("resume", self._admin.resume_mirror_topics, MIRRORING)
        self._done(f"Resumed mirroring for {len(topics)} topic(s) in mirror {self._mirror}: {topic_list(topics)}", "resume", topics)

    async def _check_topics_to_resume(self) -> None:
        """Refuse topics that the source does not have, or no longer has.

        Resuming them changes nothing, however often it is done. Nothing is refused when the source
        cannot be asked.
        """
        rows = of_pattern(self._options.topic, await self._rows())
        try:
            source = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
            if await another_cluster(self._admin, source, self._mirror) is not None:
                return
            problems = await other_topics(self._admin, source, {row.topic for row in rows})
        except KmirrorError:
            return
        refuse_other_topics(problems)

    async def _change(self, action: str, change: Callable[[str, Iterable[str]], Awaitable[TopicResults]], state: str) -> list[str]:
        """Apply `change` to the mirror's own topics that match the pattern (B43).

        With --wait, wait until the topics that this command changed, now or when it was given
        before, are in `state`. Returns the topics that were changed now.
        """
        rows = of_pattern(self._options.topic, await self._rows())
        result = await change(self._mirror, {row.topic for row in rows})
        changed = settle(action, result, may_be_idle=self._options.wait)
        stopped = {row.topic for row in rows if row.state == STOPPED}
        before = {topic for topic, error in result.failed.items() if error.error is ALREADY[action][0]} - stopped
        await self._wait_for_state(before.union(changed), state)
        return changed

    async def do_remove(self) -> None:
        rows = await self._rows_to_remove()
        topics = {row.topic for row in rows} or {self._options.topic}
        if self._options.wait:
            source = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
            await check_source_cluster(self._admin, source, self._mirror)
            with progress_bar("draining") as progress:
                waiter = MirrorWaiter(self._admin, self._mirror, topics, self._deadline, progress)
                await waiter.until_drained(source, without=WITHOUT_WAIT)
        for row in rows:
            if row.state == "PREPARING":
                warn(f"{row.topic}-{row.partition} is PREPARING: its log may have been cut already; it ends at {row.destination_offset}")
        result = await self._admin.remove_topics_from_mirror(self._mirror, topics)
        removed = settle("remove", result, may_be_idle=self._options.wait)
        text = f"Removed {len(removed)} topic(s) from mirror {self._mirror}: {topic_list(removed)}"
        if not (self._options.json and self._options.wait):
            self._done(text, "remove", removed)
        stopped = await self._wait_for_state(topics, STOPPED)
        if stopped is not None:
            await self._failover_report(removed, stopped)
        await warn_of_groups(self._admin, stopped or rows)

    async def dry_run_remove(self) -> None:
        rows = of_pattern(self._options.topic, await self._rows())
        ends, problem = await self._source_ends(rows)
        if problem is not None:
            warn(f"it is not known how much the mirror lacks: the source does not report its end offsets: {problem}")
        for name in unseen(ends, rows):
            warn(f"{name} is not there, or has no leader: {ends[name].high_watermark} offset(s) of the source may not be mirrored")
        told = {TopicPartition(row.topic, row.partition): last_known_lag(row) for row in rows}
        losses = await mirrors_dry_run.failover_loss(self._admin, told, ends, told)
        if ends:
            source = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
            await explain_fronts(self._clients, losses, self._admin, source)
            await compare_retention(losses, self._admin, source)
        losses += [mirrors_dry_run.not_here(name, ends[name]) for name in unseen(ends, rows)]
        self._print_losses(losses)

    async def _rows_to_remove(self) -> list[MirrorPartitionDescription]:
        """Returns the rows of the topics to remove, without waiting for a broker that hangs.

        A topic that cannot be described can still be removed by its name; then there are no rows.
        """
        request = DescribeMirrorsOptions(timeout_ms=FAILOVER_TIMEOUT_MS)
        try:
            described = (await self._admin.describe_mirrors([self._mirror], request))[self._mirror]
        except (ApiException, NoBrokerError) as error:
            if isinstance(error, ApiException) and not error.error.retriable:
                raise
            if topic_name_problem(self._options.topic) is not None:
                raise KmirrorError(f"{one_line(error)}; a topic can still be removed if --topic is its full name") from error
            warn(f"{one_line(error)}; topic '{self._options.topic}' is removed without a check")
            return []
        return of_pattern(self._options.topic, described.partitions)

    async def _failover_report(self, topics: list[str], rows: list[MirrorPartitionDescription]) -> None:
        """After --wait: print where the partitions end, and how much of the source is missing."""
        ends, problem = await self._source_ends(rows)
        partitions = failover_rows(rows, ends)
        rest = (
            f"{sum(row['notMirrored'] or 0 for row in partitions)} offset(s) of the source are not mirrored"
            if problem is None
            else f"the source does not report its end offsets: {problem}"
        )
        fronts = await missing_fronts(self._admin, ends, [TopicPartition(row.topic, row.partition) for row in rows])
        if fronts:
            count = sum(offsets.end - offsets.start for offsets in fronts.values())
            rest += f"; {count} offset(s) before the log starts here are only at the source"
        self._done(f"All {len(rows)} partition(s) are {STOPPED}; {rest}", "remove", topics, partitions=partitions)

    async def do_add(self) -> None:
        try:
            source = await self._clients.source(self._mirror)
        except ConfigError as error:
            if self._options.mirror_config is not None:
                raise  # the user said how to reach the source: an error in that is not worked around
            await self._add_unseen(error)
            return
        names = matching_at_source(self._options.topic, await source.list_topics())
        if not self._options.force:
            await ensure_brokers_answer(self._clients, self._mirror)
            refuse_other_topics(await other_topics(self._admin, source, names))
        await self._warn_of_another_name(source, set(names))
        await self._add(names, lambda: add_topics(self._clients, self._mirror, self._admin, source, names, may_be_idle=self._waits))

    async def _add(self, names: list[str], add: Callable[[], Awaitable[list[str]]]) -> None:
        added: list[str] = []

        async def add_and_wait() -> None:
            added.extend(await add())
            await self._wait_until_mirroring(names, added)

        if self._options.accept_truncation:
            refuse_failed(self._mirror, names, await self._rows())
            await with_truncation_accepted(self._admin, self._mirror, names, add_and_wait)
        else:
            await add_and_wait()
        self._done(f"Added {len(added)} topic(s) to mirror {self._mirror}: {topic_list(added)}", "add", added)

    async def dry_run_add(self) -> None:
        source = await self._clients.source(self._mirror)
        names = matching_at_source(self._options.topic, await source.list_topics())
        local = await self._admin.describe_topics(names)
        partitions = {TopicPartition(name, partition.partition) for name, topic in local.items() for partition in topic.partitions}
        now_ms = self._clients.runtime.clock.time_ms()
        limits = None if self._options.accept_truncation else await truncation_limits(self._admin, self._mirror, local, now_ms)
        states = await self._states()
        losses = await mirrors_dry_run.failback_loss(self._admin, source, self._mirror, partitions, limits, states)
        await explain_fronts(self._clients, losses, self._admin, source)
        await compare_retention(losses, source, self._admin, AT_NEW_SOURCE)
        self._print_losses(losses)

    async def _states(self) -> dict[TopicPartition, str]:
        """Returns the states of the mirror's partitions; none without permission to see them."""
        try:
            return {TopicPartition(row.topic, row.partition): row.state for row in await self._rows()}
        except ApiException as error:
            if error.error is not Errors.MIRROR_AUTHORIZATION_FAILED:
                raise
            return {}

    async def _add_unseen(self, error: ConfigError) -> None:
        """Add one topic by its name, without looking at the source (C22).

        Without the source's secrets its topics cannot be listed. The broker has the secrets and
        creates the topic (B17).
        """
        name = self._options.topic
        if topic_name_problem(name) is not None:
            raise error
        warn(f"{error}; so only topic '{name}' itself is added, and whether it comes back here over other clusters is not checked")
        runtime = self._clients.runtime
        await self._add([name], lambda: add_until_known(runtime, self._admin, self._mirror, [name], may_be_idle=self._waits))

    @property
    def _waits(self) -> bool:
        """Whether the action ends only when the partitions are in their new state."""
        return bool(self._options.wait or self._options.accept_truncation)

    # --- helpers of several actions ---------------------------------------------------------------

    async def _rows(self) -> list[MirrorPartitionDescription]:
        return (await self._admin.describe_mirrors([self._mirror]))[self._mirror].partitions

    async def _source_ends(self, rows: Iterable[MirrorPartitionDescription]) -> tuple[dict[TopicPartition, SourceEnd], str | None]:
        """Returns the source's ends, or why there are none: it may be down, or need a password."""
        try:
            source = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
        except KmirrorError as error:
            return {}, one_line(error)
        return await source_ends_if_reachable(self._admin, source, self._mirror, rows)

    async def _wait_until_mirroring(self, names: Collection[str], added: Collection[str]) -> None:
        """With --wait, after --add: wait until the topics are MIRRORING.

        These are all of `names` that are in this mirror, including those that were in it before.
        """
        if not self._waits:
            return
        topics, idle = set(added), set(names).difference(added)
        if idle:
            rows, _ = await answered(self._rows(), passing=Errors.UNKNOWN_MIRROR)  # a broker may not have heard of the mirror yet
            found = {row.topic: row.state for row in rows or [] if row.topic in idle}
            paused = [topic for topic, state in found.items() if state in (PAUSING, PAUSED)]
            if paused:
                raise KmirrorError(f"{topic_list(paused)} in mirror {self._mirror} already, and paused: --resume starts them again")
            topics |= idle if rows is None else found.keys()
        if not topics:
            raise KmirrorError(f"{topic_list(names)} in another mirror")
        await self._wait_for_state(topics, MIRRORING)

    async def _wait_for_state(self, topics: Collection[str], state: str) -> list[MirrorPartitionDescription] | None:
        """With --wait: wait until every partition of `topics` is in `state`.

        Returns None without --wait or without topics.
        """
        if not self._waits or not topics:
            return None
        described = await self._admin.describe_topics(topics)
        partitions = sum(len(topic.partitions) for topic in described.values())
        with progress_bar(f"until {state}") as progress:
            return await MirrorWaiter(self._admin, self._mirror, topics, self._deadline, progress).until_state(state, partitions=partitions)

    async def _warn_of_another_name(self, source: AdminClient, topics: set[str] | None) -> None:
        for text in await epochs_under_another_name(self._admin, source, self._mirror, topics):
            warn(text)

    def _print_losses(self, losses: list[DroppedRecords]) -> None:
        print(loss_json(losses) if self._options.json else f"{loss_text(losses)}\n{total_text(losses)}")

    def _done(self, text: str, action: str, topics: Iterable[str] | None = None, **facts: Any) -> None:
        """Print the KIP's message, or the same as JSON."""
        if self._options.json:
            named = {} if topics is None else {"topics": sorted(topics)}
            text = json.dumps({"action": action, "mirror": self._mirror, **named, **facts}, indent=2)
        print(text, flush=True)
