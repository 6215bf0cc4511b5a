"""`kafka-mirrors --reverse`: failover and failback as one operation.

The mirror A -> B becomes B -> A, under the same name.

    1 drain      wait until B has all that A has decided, and A is idle (not with --force)
    2 fail over  remove the topics from the mirror at B
    3 stop       wait until B's partitions are STOPPED: from here on B is the one to write to
    4 compare    what would A drop? if it is anything at all, stop here, unless --force is given
    5 create     the mirror of the same name at A, with B as its source (C8: only this name knows
                 the last mirror epochs)
    6 add        the topics to it
    7 mirror     wait until A's partitions are MIRRORING

No state is kept outside the clusters. Before each step, both clusters are asked what is already
done, so the tool may be killed at any point, and the same command continues. With --force the tool
fails over from a dead source. The command then ends with exit code 2 after step 3; given again when
A is back, it continues with step 4. B's own mirror stays, STOPPED: A asks for its last mirror
epochs, and the next --reverse, at A, uses it again. Stop the producers first: what they write to
A after step 1 is found in step 4 and refused.

A follows B's log start. So records at A's front that B no longer has, whatever deleted them there,
would go as well. They are looked for before anything is changed, and again in step 4.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from ipaddress import ip_address

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import ConfigOperation, ConfigResourceType, MirrorPartitionDescription
from kmirror.cli import mirrors_dry_run
from kmirror.cli.mirrors_clients import BOOTSTRAP_SERVERS, SHORT_TIMEOUT_MS, MirrorClients
from kmirror.cli.mirrors_dry_run_text import loss_rows, loss_text
from kmirror.cli.mirrors_fronts import AT_NEW_SOURCE, compare_retention, explain_fronts, shorter_retention
from kmirror.cli.mirrors_losses import DroppedRecords, last_known_lag, total_text
from kmirror.cli.mirrors_source import check_source_cluster, source_ends
from kmirror.cli.mirrors_tables import topic_list
from kmirror.cli.mirrors_topics import add_topics, of_pattern, settle, warn, warn_of_groups
from kmirror.cli.mirrors_truncation import truncation_limits
from kmirror.cli.mirrors_wait import ENDED, MIRRORING, STOPPED, Deadline, MirrorWaiter, NotFinishedError, progress_bar
from kmirror.cli.properties import read_mirror_configs, read_properties
from kmirror.common.addresses import address_text
from kmirror.common.errors import ApiException, ConfigError, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.resource_configs import validate_mirror_configs

STEPS = ("drain", "fail over", "stop", "compare", "create", "add", "mirror")
ALL_TOPICS = ".*"
SOURCE_AWAY = "the source does not answer, so it cannot be drained"
WITHOUT_SOURCE = (
    "To fail over without it: --reverse --force (what the mirror lacks is given up; the same command goes on when "
    "the source is back), or --remove without --wait"
)


async def reverse(clients: MirrorClients) -> int:
    """Returns the exit code. After NotFinishedError the same command, given again, continues."""
    reversal = Reversal(clients)
    if clients.options.dry_run:
        await reversal.show_plan()
    else:
        await reversal.run()
    return 0


class Reversal:
    """One run. `here` is B, the destination now; `there` is A, its source now."""

    def __init__(self, clients: MirrorClients) -> None:
        self._clients = clients
        self._options = clients.options
        self._mirror: str = clients.options.mirror
        self._here = clients.admin
        self._deadline = Deadline(clients.runtime, clients.options.timeout)
        self._steps: list[dict[str, str]] = []
        self._losses: list[DroppedRecords] = []

    # --- the steps --------------------------------------------------------------------------------

    async def run(self) -> None:
        configs = await self.reverse_configs()
        rows = await self._rows_here()
        topics = sorted({row.topic for row in rows})
        there = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
        await self._check_source(there, topics)
        await self._check_fronts(there, topics)
        await self._drain(there, rows, topics)
        await self._fail_over(rows)
        await self._stop(topics)
        reversed_already = await self._compare(there, topics)
        await self._create(there, configs)
        await self._add(there, [topic for topic in topics if topic not in reversed_already])
        await self._until_mirroring(there, topics)
        self._say_result(topics)

    async def _rows_here(self) -> list[MirrorPartitionDescription]:
        described = await self._here.describe_mirrors([self._mirror])
        return of_pattern(self._options.topic or ALL_TOPICS, described[self._mirror].partitions)

    async def _check_source(self, there: AdminClient, topics: list[str]) -> None:
        """Refuse a source that can never be mirrored to, before anything is changed.

        With --force, a dead source is checked later, when it is back.
        """
        try:
            listed = {mirror.mirror_name: mirror.source_cluster_id for mirror in await there.list_mirrors()}
            own = (await self._here.describe_cluster()).cluster_id
            strangers = await mirrors_dry_run.topics_with_another_id(there, self._here, set(topics))
        except NoBrokerError as error:
            if not self._options.force:
                raise NoBrokerError(f"{SOURCE_AWAY}: {error}. {WITHOUT_SOURCE}") from error
            return
        except ApiException as error:
            if error.error is Errors.UNSUPPORTED_VERSION:
                raise KmirrorError("the source has no cluster mirroring, so nothing can be mirrored to it; --remove fails over") from error
            raise
        if listed.get(self._mirror, "") not in ("", own):
            raise KmirrorError(f"the source has a mirror {self._mirror} of another cluster, {listed[self._mirror]}")
        if strangers:
            text = f"{topic_list(strangers)} of the source was made anew and has another id: it cannot be mirrored to it"
            raise KmirrorError(f"{text}; delete it there, or leave it out with --topic")

    async def _check_fronts(self, there: AdminClient, topics: list[str]) -> None:
        """Refuse to begin if A has records before B's log start, unless forced.

        With --force, what a dead source has is looked at later, when it is back.
        """
        if self._options.force:
            return
        mirrored = {row.topic for row in await self._rows_there(there) if row.state not in ENDED}
        names = await _partitions(there, set(topics) - mirrored)
        losses = await mirrors_dry_run.front_losses(there, self._here, names)
        await explain_fronts(self._clients, losses, there, self._here)
        self._refuse_losses([loss for loss in losses if loss.front is not None or loss.unknown is not None])
        for topic in topics:
            found = await shorter_retention(self._here, there, topic)
            if found is not None:
                warn(f"{topic}: {AT_NEW_SOURCE}: {found}")

    def _refuse_losses(self, dropped: list[DroppedRecords]) -> None:
        unknown = [loss for loss in dropped if loss.unknown is not None]
        if unknown:
            raise KmirrorError(f"it is not known what the old source would drop: {unknown[0].topic_partition}: {unknown[0].unknown}")
        if not dropped:
            return
        behind = "They were written to it and not mirrored; " if any(loss.is_cut for loss in dropped) else ""
        before = "This cluster no longer has what lies before its log start; " if any(loss.front for loss in dropped) else ""
        raise KmirrorError(f"the old source would drop {_count(dropped)}. {behind}{before}--dry-run lists them, --force drops them")

    async def _drain(self, there: AdminClient, rows: list[MirrorPartitionDescription], topics: list[str]) -> None:
        if all(row.state in ENDED for row in rows):
            self._say(1, "is done")
        elif self._options.force:
            self._say(1, "is left out (--force)")
        else:
            self._say(1, f"until mirror {self._mirror} has everything of {topic_list(topics)}")
            await check_source_cluster(self._here, there, self._mirror)
            with progress_bar("draining") as progress:
                waiter = MirrorWaiter(self._here, self._mirror, topics, self._deadline, progress)
                await waiter.until_drained(there, without=WITHOUT_SOURCE)

    async def _fail_over(self, rows: list[MirrorPartitionDescription]) -> None:
        running = sorted({row.topic for row in rows if row.state not in ENDED})
        if not running:
            self._say(2, "is done")
            return
        self._say(2, f"{len(running)} topic(s): {topic_list(running)}")
        settle("remove", await self._here.remove_topics_from_mirror(self._mirror, running), may_be_idle=True)

    async def _stop(self, topics: list[str]) -> None:
        with progress_bar(f"until {STOPPED}") as progress:
            rows = await MirrorWaiter(self._here, self._mirror, topics, self._deadline, progress).until_state(STOPPED)
        self._say(3, f"{len(rows)} partition(s) are {STOPPED}: producers can write to this cluster")
        await warn_of_groups(self._here, rows)

    async def _compare(self, there: AdminClient, topics: list[str]) -> set[str]:
        """Returns the topics that A already mirrors.

        Raises KmirrorError when A would lose records of another topic, unless forced.
        """
        try:
            rows = await self._rows_there(there)
            mirrored = {row.topic for row in rows if row.state not in ENDED}
            names = await _partitions(there, set(topics) - mirrored)
            self._losses = await mirrors_dry_run.failback_loss(there, self._here, self._mirror, names)
        except NoBrokerError as error:
            text = f"the topics are failed over; the old source cannot be asked ({error}): give the same command again when it is back"
            raise NotFinishedError(text) from error
        dropped = [loss for loss in self._losses if loss.dropped_count or loss.unknown is not None]
        if not self._options.force:
            self._refuse_losses(dropped)
        self._say(4, f"the old source drops {_count(dropped)}" if dropped else "the old source has no records to drop")
        return mirrored

    async def _rows_there(self, there: AdminClient) -> list[MirrorPartitionDescription]:
        try:
            return (await there.describe_mirrors([self._mirror]))[self._mirror].partitions
        except ApiException as error:
            if error.error is Errors.UNKNOWN_MIRROR:
                return []
            raise

    async def _create(self, there: AdminClient, configs: dict[str, str]) -> None:
        names = {mirror.mirror_name for mirror in await there.list_mirrors()}
        if self._mirror not in names:
            self._say(5, f"mirror {self._mirror} at the old source, from {configs[BOOTSTRAP_SERVERS]}")
            await there.create_mirror(self._mirror, configs)
        elif self._options.reverse_config is not None:
            self._say(5, f"mirror {self._mirror} at the old source gets the configs of --reverse-config")
            changes = [(name, ConfigOperation.SET, value) for name, value in sorted(configs.items())]
            await there.incremental_alter_configs(ConfigResourceType.MIRROR, self._mirror, changes)
        else:
            self._say(5, "is done")

    async def _add(self, there: AdminClient, topics: list[str]) -> None:
        if not topics:
            self._say(6, "is done")
            return
        self._say(6, f"{len(topics)} topic(s): {topic_list(topics)}")
        await add_topics(self._clients, self._mirror, there, self._here, topics, may_be_idle=True)

    async def _until_mirroring(self, there: AdminClient, topics: list[str]) -> None:
        partitions = len(await _partitions(there, set(topics)))
        with progress_bar(f"until {MIRRORING}") as progress:
            waiter = MirrorWaiter(there, self._mirror, topics, self._deadline, progress)
            rows = await waiter.until_state(MIRRORING, partitions=partitions)
        self._say(7, f"{len(rows)} partition(s) of the old source are {MIRRORING}")

    async def reverse_configs(self) -> dict[str, str]:
        """Returns the configs with which A reaches B.

        The passwords of this command belong to an operator; A gets none of them. What A would
        refuse after the failover is refused here, before it.
        """
        file = self._options.reverse_config
        configs = {BOOTSTRAP_SERVERS: self._own_address()} if file is None else read_mirror_configs(file)
        if not configs.get(BOOTSTRAP_SERVERS):
            raise ConfigError(f"{file} has no {BOOTSTRAP_SERVERS}")
        try:
            validate_mirror_configs(configs)
        except ApiException as error:
            hint = "; --reverse-config says how the old source connects to this cluster" if file is None else ""
            raise ConfigError(f"{file or '--bootstrap-server'}: {error.message}{hint}") from error
        if file is None and all(_is_loopback(server.rpartition(":")[0]) for server in configs[BOOTSTRAP_SERVERS].split(",")):
            configs |= await self._advertised()
        return configs

    async def _advertised(self) -> dict[str, str]:
        """Returns this cluster's advertised addresses, unless all of them are loopback.

        At A, a loopback address means another machine. A must be able to reach the addresses that
        this listener's clients are told in any case.
        """
        nodes = (await self._here.describe_cluster()).nodes
        if all(_is_loopback(node.host) for node in nodes):
            return {}
        return {BOOTSTRAP_SERVERS: ",".join(address_text(node.host, node.port) for node in nodes)}

    def _own_address(self) -> str:
        command = {} if self._options.command_config is None else read_properties(self._options.command_config)
        if command.get("security.protocol", "PLAINTEXT") != "PLAINTEXT":
            raise ConfigError("this cluster is secured: --reverse-config must say how the old source connects to it")
        return str(self._options.bootstrap_server)

    # --- output -----------------------------------------------------------------------------------

    def _say(self, number: int, text: str) -> None:
        self._steps.append({"step": STEPS[number - 1], "text": text})
        if not self._options.json:
            print(f"[{number}/{len(STEPS)}] {STEPS[number - 1]}: {text}", flush=True)

    def _say_result(self, topics: list[str]) -> None:
        if self._options.json:
            self._print_json(topics)
        else:
            print(f"Reversed mirror {self._mirror}: {topic_list(topics)}")

    def _print_json(self, topics: list[str]) -> None:
        dry_run = self._options.dry_run
        result = {"action": "reverse", "mirror": self._mirror, "topics": topics, "dryRun": dry_run, "steps": self._steps}
        print(json.dumps(result | {"dropped": loss_rows(self._losses)}, indent=2))

    # --- the plan
    # -----------------------------------------------------------------------------------------------------

    async def show_plan(self) -> None:
        """Print what each step would do, and what either side would drop."""
        configs = await self.reverse_configs()
        rows = await self._rows_here()
        topics = sorted({row.topic for row in rows})
        names = {TopicPartition(row.topic, row.partition) for row in rows}
        running = sorted({row.topic for row in rows if row.state not in ENDED})
        there = await self._clients.source(self._mirror, timeout_ms=SHORT_TIMEOUT_MS)
        try:
            await self._check_source(there, topics)
            rows_there = await self._rows_there(there)
            ends = await source_ends(there, rows)
        except NoBrokerError as error:
            rows_there, ends = [], {}
            hint = "" if WITHOUT_SOURCE in str(error) else f". {WITHOUT_SOURCE}"
            print(f"the source cannot be asked: {error}{hint}", file=sys.stderr)
        mirrored = {row.topic for row in rows_there if row.state not in ENDED}
        here = {TopicPartition(row.topic, row.partition): row.destination_offset for row in rows}
        missing = sum(end.missing(here.get(name, 0)) for name, end in ends.items())
        lacking = f"mirror {self._mirror} lacks {missing} offset(s)" if ends else "it is not known how much the mirror lacks"
        told = {TopicPartition(row.topic, row.partition): last_known_lag(row) for row in rows}
        here_losses = await mirrors_dry_run.failover_loss(self._here, names, ends, told) if running else []
        if self._options.force or not running:
            self._say(1, "is left out (--force)" if running else "is done")
        else:
            self._say(1, f"until mirror {self._mirror} has everything of {topic_list(topics)}; now {lacking}")
            here_losses = [] if ends else here_losses  # what is drained loses nothing
        self._say(2, f"{len(running)} topic(s): {topic_list(running)}" if running else "is done")
        self._say(3, f"until {len(rows)} partition(s) are {STOPPED}")
        self._losses = await self._losses_there(there, set(topics) - mirrored, running, here_losses) if ends else []
        await explain_fronts(self._clients, self._losses, there, self._here)
        await compare_retention(self._losses, self._here, there, AT_NEW_SOURCE)
        dropped = [loss for loss in self._losses if loss.dropped_count or loss.unknown is not None]
        consequence = "" if self._options.force or not dropped else ", so it would stop here"
        self._say(
            4, f"the old source drops {_count(dropped)}{consequence}" if ends else "it is not known which records the old source would drop"
        )
        self._say(5, f"mirror {self._mirror} at the old source, from {configs[BOOTSTRAP_SERVERS]}")
        left = sorted(set(topics) - mirrored)
        self._say(6, f"{len(left)} topic(s): {topic_list(left)}" if left else "is done")
        self._say(7, "until the old source's partitions are MIRRORING")
        if self._options.json:
            self._losses = [*here_losses, *self._losses]
            self._print_json(topics)
            return
        for title, losses in (("this cluster", here_losses), ("the old source", self._losses)):
            if losses:
                print(f"what {title} drops:\n{loss_text(losses)}\n{total_text(losses)}")

    async def _losses_there(
        self, there: AdminClient, topics: set[str], running: list[str], here_losses: list[DroppedRecords]
    ) -> list[DroppedRecords]:
        """Returns what A would drop.

        After a drain this is what is not decided there. After a forced failover it is everything
        behind B's cut. Otherwise it is the same as for --add.
        """
        names = await _partitions(there, topics)
        waiting = {name for name in names if name.topic in running}
        if self._options.force:
            now_ms = self._clients.runtime.clock.time_ms()
            limits = await truncation_limits(there, self._mirror, topics, now_ms, new_mirror=await self.reverse_configs())
            found = await mirrors_dry_run.failback_loss(there, self._here, self._mirror, names - waiting, limits)
            cuts = {loss.topic_partition: loss.cut_offset for loss in here_losses}
            return found + await mirrors_dry_run.divergence_loss(there, self._here, waiting, up_to=cuts, limits=limits)
        found = await mirrors_dry_run.failback_loss(there, self._here, self._mirror, names - waiting)
        return found + await mirrors_dry_run.drained_loss(there, self._here, waiting)


async def _partitions(admin: AdminClient, topics: Iterable[str]) -> set[TopicPartition]:
    described = await admin.describe_topics(topics)
    return {TopicPartition(name, partition.partition) for name, topic in described.items() for partition in topic.partitions}


def _is_loopback(host: str) -> bool:
    host = host.strip().strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _count(losses: list[DroppedRecords]) -> str:
    if not losses:
        return "nothing"
    where = ", ".join(f"{loss.topic_partition} {_where(loss)}" for loss in losses[:3])
    more = f" and {len(losses) - 3} more" if len(losses) > 3 else ""
    unknown = " and what is not known" if any(loss.unknown is not None for loss in losses) else ""
    return f"{sum(loss.dropped_count for loss in losses)} record(s){unknown}: {where}{more}"


def _where(loss: DroppedRecords) -> str:
    if loss.unknown is not None:
        return f"({loss.unknown})"
    why = "" if loss.front_reason is None else f" ({loss.front_reason})"
    parts = [f"before offset {loss.front.offsets.end}{why}"] if loss.front is not None else []
    return " and ".join([*parts, f"from offset {loss.cut_offset}"] if loss.is_cut else parts)
