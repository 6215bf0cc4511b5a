"""The actions of `kafka-reassign-partitions`, over `AdminClient`."""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.reassignments import PartitionReassignment
from kmirror.admin.results import ConfigOperation, ConfigResourceType, Node
from kmirror.cli.json_files import read_text
from kmirror.cli.reassign_partitions_plans import (
    ANY_LOG_DIR,
    Assignment,
    Replica,
    check_plan,
    parse_generate,
    parse_plan,
    propose,
    proposed_moves,
    reassignment_json,
    throttled_replicas,
)
from kmirror.cli.tool_client import with_admin
from kmirror.cli.tool_options import CommandError, print_json
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
MOVE_PAUSE_S = 0.1
EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a new partition "
    "assignment in addition to the existing one. The --additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
RUN_VERIFY = "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
NO_RACKS = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment without rack information."
)


class ReassignPartitionsCommand:
    """One invocation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    def run(self) -> int:
        options = self._options
        action = next(name for name in ("verify", "generate", "execute", "cancel", "list") if getattr(options, name))
        servers = options.bootstrap_server or options.bootstrap_controller
        with_admin(
            servers,
            options.command_config,
            getattr(self, f"_{action}"),
            client_id="reassign-partitions-tool",
            controllers=options.bootstrap_controller is not None,
        )
        return 0

    # --- generate and execute
    # -----------------------------------------------------------------------------------------

    async def _generate(self, admin: AdminClient) -> None:
        options = self._options
        brokers, topics = parse_generate(read_text(options.topics_to_move_json_file), options.broker_list)
        described = await admin.describe_topics(topics)
        for topic in topics:
            if topic not in described:
                raise KmirrorError(f"org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Topic {topic} not found.")
        current = {TopicPartition(topic, row.partition): row.replicas for topic, facts in described.items() for row in facts.partitions}
        nodes = [node for node in (await admin.describe_cluster()).nodes if node.id in brokers]
        proposed = propose(current, self._with_racks(nodes), random.randrange)
        print(f"Current partition replica assignment\n{reassignment_json(current, await _present_log_dirs(admin, current))}\n")
        print(f"Proposed partition reassignment configuration\n{reassignment_json(proposed)}")

    def _with_racks(self, nodes: list[Node]) -> list[Node]:
        if self._options.disable_rack_aware:
            return [replace(node, rack=None) for node in nodes]
        if 0 < sum(node.rack is None for node in nodes) < len(nodes):
            raise KmirrorError(NO_RACKS)
        return nodes

    async def _execute(self, admin: AdminClient) -> None:
        options = self._options
        plan = parse_plan(read_text(options.reassignment_json_file))
        check_plan(plan)
        proposed = dict(plan.partitions)
        ongoing = await admin.list_partition_reassignments()
        if ongoing and not options.additional:
            raise CommandError(EXISTING, on_stdout=True)
        known = {node.id for node in (await admin.describe_cluster()).nodes}
        unknown = sorted({broker for replicas in proposed.values() for broker in replicas} - known)
        if unknown:
            raise KmirrorError(f"Unknown broker id {unknown[0]}")
        current = await _replicas(admin, proposed)
        print(f"Current partition replica assignment\n\n{reassignment_json(current, await _present_log_dirs(admin, current))}\n")
        print("Save this to use as the --reassignment-json-file option during rollback")
        await self._throttle(admin, ongoing, proposed, current, plan.log_dirs)
        allow = not options.disallow_replication_factor_change
        results = await admin.alter_partition_reassignments(proposed, allow_replication_factor_change=allow)
        _raise_failures("Error reassigning partition(s):", results)
        print(f"Successfully started partition reassignment{_s(proposed)} for {_names(proposed)}")
        if plan.log_dirs:
            await self._move_log_dirs(admin, plan.log_dirs)

    async def _throttle(
        self,
        admin: AdminClient,
        ongoing: dict[TopicPartition, PartitionReassignment],
        proposed: Assignment,
        current: Assignment,
        log_dirs: dict[Replica, str],
    ) -> None:
        options = self._options
        if options.throttle < 0 and options.replica_alter_log_dirs_throttle < 0:
            return
        print(RUN_VERIFY)
        if options.throttle >= 0:
            moves = proposed_moves(ongoing, proposed, current)
            for topic, (leaders, followers) in throttled_replicas(moves).items():
                await _set(admin, ConfigResourceType.TOPIC, topic, {LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers})
            rate = str(options.throttle)
            for broker in sorted({broker for move in moves.values() for broker in (*move.sources, *move.destinations)}):
                await _set(admin, ConfigResourceType.BROKER, str(broker), {LEADER_RATE: rate, FOLLOWER_RATE: rate})
            print(f"The inter-broker throttle limit was set to {rate} B/s")
        if options.replica_alter_log_dirs_throttle >= 0:
            rate = str(options.replica_alter_log_dirs_throttle)
            for broker in sorted({broker for _, broker in log_dirs}):
                await _set(admin, ConfigResourceType.BROKER, str(broker), {LOG_DIR_RATE: rate})
            print(f"The replica-alter-dir throttle limit was set to {rate} B/s")

    async def _move_log_dirs(self, admin: AdminClient, wanted: dict[Replica, str]) -> None:
        """Start the moves; while a broker lacks a replica, try again until the time is up."""
        deadline = time.monotonic() + self._options.timeout / 1000
        pending = dict(wanted)
        while True:
            results = await admin.alter_replica_log_dirs(pending)
            for replica in sorted(results, key=_by_broker):
                error = results[replica]
                if error is None:
                    name, broker = replica
                    print(f"Successfully started moving log directory to {pending.pop(replica)} for replica {name} with broker {broker} ")
                elif error.error is not Errors.REPLICA_NOT_AVAILABLE:
                    raise KmirrorError(f"Failed to alter dir for {_replica(replica)}: {error.message}")
            if not pending:
                return
            if time.monotonic() >= deadline:
                names = ",".join(_replica(replica) for replica in sorted(pending, key=_by_broker))
                raise CommandError(f"Timed out before log directory move{_s(pending)} could be started for: {names}", on_stdout=True)
            await asyncio.sleep(MOVE_PAUSE_S)

    # --- verify, cancel and list
    # --------------------------------------------------------------------------------------

    async def _verify(self, admin: AdminClient) -> None:
        plan = parse_plan(read_text(self._options.reassignment_json_file))
        ongoing = await admin.list_partition_reassignments()
        targets = dict(plan.partitions)
        described = await admin.describe_topics({name.topic for name in targets if name not in ongoing})
        current = {TopicPartition(topic, row.partition): row.replicas for topic, facts in described.items() for row in facts.partitions}
        print("Status of partition reassignment:")
        for name in sorted(targets):
            print(_progress(name, targets[name], current.get(name, []), is_ongoing=name in ongoing))
        moves_are_done = await _print_log_dir_moves(admin, plan.log_dirs)
        if not ongoing and moves_are_done and not self._options.preserve_throttles:
            await _clear_throttles(admin, plan.partitions)

    async def _cancel(self, admin: AdminClient) -> None:
        plan = parse_plan(read_text(self._options.reassignment_json_file))
        ongoing = await admin.list_partition_reassignments({name for name, _ in plan.partitions})
        active = sorted(ongoing)
        if active:
            results = await admin.alter_partition_reassignments(dict.fromkeys(active))
            failed = [name for name in sorted(results) if results[name] is not None]
            _raise_failures(f"Error cancelling partition reassignment{_s(failed)} for:", results)
            print(f"Successfully cancelled partition reassignment{_s(active)} for: {_names(active)}")
        else:
            print("None of the specified partition reassignments are active.")
        moving = {replica: where[0] for replica, where in (await _log_dirs(admin, plan.log_dirs)).items() if where[1] is not None}
        if not moving:
            print("None of the specified partition moves are active.", end="")
        else:
            await self._move_log_dirs(admin, {replica: path for replica, path in moving.items() if path is not None})
        if not self._options.preserve_throttles:
            await _clear_throttles(admin, plan.partitions)

    async def _list(self, admin: AdminClient) -> None:
        ongoing = await admin.list_partition_reassignments()
        if self._options.json:
            print_json([_as_json(name, ongoing[name]) for name in sorted(ongoing)])
            return
        if not ongoing:
            print("No partition reassignments found.")
            return
        print("Current partition reassignments:")
        for name in sorted(ongoing):
            row = ongoing[name]
            adding = f" adding: {_ids(row.adding_replicas)}." if row.adding_replicas else ""
            removing = f" removing: {_ids(row.removing_replicas)}." if row.removing_replicas else ""
            print(f"{name}: replicas: {_ids(row.replicas)}.{adding}{removing}")


def _as_json(name: TopicPartition, row: PartitionReassignment) -> dict[str, object]:
    return {
        "topic": name.topic,
        "partition": name.partition,
        "replicas": row.replicas,
        "addingReplicas": row.adding_replicas,
        "removingReplicas": row.removing_replicas,
    }


def _progress(name: TopicPartition, target: list[int], current: list[int], *, is_ongoing: bool) -> str:
    if is_ongoing:
        return f"Reassignment of partition {name} is still in progress."
    if current == target:
        return f"Reassignment of partition {name} is completed."
    return f"There is no active reassignment of partition {name}, but replica set is {_ids(current)} rather than {_ids(target)}."


async def _log_dirs(admin: AdminClient, wanted: dict[Replica, str]) -> dict[Replica, tuple[str | None, str | None]]:
    """Returns where each replica is, and where it is being moved to."""
    found: dict[Replica, tuple[str | None, str | None]] = dict.fromkeys(wanted, (None, None))
    brokers = sorted({broker for _, broker in wanted})
    for broker, log_dirs in (await admin.describe_log_dirs(brokers)).items():
        for log_dir in log_dirs:
            for name, info in log_dir.replica_infos.items():
                if (name, broker) in found:
                    present, future = found[name, broker]
                    found[name, broker] = (present, log_dir.path) if info.is_future else (log_dir.path, future)
    return found


async def _present_log_dirs(admin: AdminClient, assignment: Assignment) -> dict[Replica, str]:
    """Returns where the replicas of live brokers are."""
    live = {node.id for node in (await admin.describe_cluster()).nodes}
    replicas = {(name, broker): ANY_LOG_DIR for name, brokers in assignment.items() for broker in brokers if broker in live}
    return {replica: present for replica, (present, _) in (await _log_dirs(admin, replicas)).items() if present is not None}


async def _print_log_dir_moves(admin: AdminClient, wanted: dict[Replica, str]) -> bool:
    """Print one line per move (an empty line if there is none); returns whether all are done."""
    lines, done = [], True
    places = await _log_dirs(admin, wanted)
    for replica in sorted(wanted, key=_by_broker):
        name, broker = replica
        target, (present, future) = wanted[replica], places[replica]
        if present is None:
            lines.append(
                f"Partition {name} is not found in any live log dir on broker {broker}. There is likely an offline log directory on the broker."
            )
        elif future is not None:
            done = False
            if future == target:
                lines.append(f"Reassignment of replica {_replica(replica)} is still in progress.")
            else:
                lines.append(f"Partition {name} on broker {broker} is being moved to log dir {future} instead of {target}.")
        elif present == target:
            lines.append(f"Reassignment of replica {_replica(replica)} completed successfully.")
        else:
            lines.append(f"Partition {name} on broker {broker} is not being moved from log dir {present} to {target}.")
    print("\n".join(lines))
    return done


async def _clear_throttles(admin: AdminClient, partitions: list[tuple[TopicPartition, list[int]]]) -> None:
    """Clear the throttles of the topics and of every broker.

    It is no longer known which brokers were sources.
    """
    brokers = sorted({node.id for node in (await admin.describe_cluster()).nodes} | {broker for _, rows in partitions for broker in rows})
    print(f"Clearing broker-level throttles on broker{_s(brokers)} {_ids(brokers)}")
    for broker in brokers:
        await _delete(admin, ConfigResourceType.BROKER, str(broker), (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE))
    topics = sorted({name.topic for name, _ in partitions})
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    for topic in topics:
        await _delete(admin, ConfigResourceType.TOPIC, topic, (LEADER_REPLICAS, FOLLOWER_REPLICAS))


async def _replicas(admin: AdminClient, names: Iterable[TopicPartition]) -> Assignment:
    """Returns the present replicas of `names`."""
    wanted = set(names)
    described = await admin.describe_topics({name.topic for name in wanted})
    for topic in sorted({name.topic for name in wanted}):
        if topic not in described:
            raise KmirrorError(f"org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Topic {topic} not found.")
    rows = {TopicPartition(topic, row.partition): row.replicas for topic, facts in described.items() for row in facts.partitions}
    missing = sorted(wanted - rows.keys())
    if missing:
        names_text = ", ".join(map(str, missing))
        raise KmirrorError(f"org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Unable to find partition: {names_text}")
    return {name: rows[name] for name in wanted}


async def _set(admin: AdminClient, kind: ConfigResourceType, name: str, values: dict[str, str]) -> None:
    await admin.incremental_alter_configs(kind, name, [(key, ConfigOperation.SET, value) for key, value in values.items()])


async def _delete(admin: AdminClient, kind: ConfigResourceType, name: str, keys: Sequence[str]) -> None:
    await admin.incremental_alter_configs(kind, name, [(key, ConfigOperation.DELETE, None) for key in keys])


def _raise_failures(text: str, results: dict[TopicPartition, ApiException | None]) -> None:
    failed = {name: error for name, error in results.items() if error is not None}
    if failed:
        raise CommandError("\n".join([text, *(f"{name}: {failed[name].message}" for name in sorted(failed))]), on_stdout=True)


def _by_broker(replica: Replica) -> tuple[int, TopicPartition]:
    return replica[1], replica[0]


def _replica(replica: Replica) -> str:
    """Returns a replica as Kafka prints it."""
    return f"{replica[0]}-{replica[1]}"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _names(names: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(names)))


def _s(things: Sequence[object] | dict[TopicPartition, list[int]] | dict[Replica, str]) -> str:
    return "" if len(things) == 1 else "s"
