"""A broker's whole mirroring (`MirrorManager`: coordinator, drivers, fetchers). There are no
sockets, and time passes only when the test advances it.

`MirrorMachine` is broker 1 of a cluster, with real logs. Its controller applies every request to
the metadata at once. Its source is a `ScriptedSource` that also lists its own mirrors. Other
brokers exist only in the metadata; a test fetches for them (`follow`). `settle` runs everything
that need not wait, and `advance` lets time pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.common.replica_log import ReplicaManagerLog
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataProvenance
from kmirror.mirror.coordination.mirror_records import MirrorStateRecord, read_record
from kmirror.mirror.logs.local_log import batch_headers
from kmirror.mirror.logs.log_alignment import AlignmentHeader
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.partition.mirror_partition import MirrorPartition
from kmirror.mirror.ports import MirrorConfig
from kmirror.network.client import DisconnectError
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.replica.replica_types import FetchParams, FetchPartition
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import bump_leader_epochs, describe_mirrors, incremental_alter_configs, list_mirrors
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.topic_record import TopicRecord
from support.brokers.broker_doubles import NOW_MS, BrokerWorld
from support.mirrors.mirror_world import ScriptedClient
from support.mirrors.scripted_source import NEWEST, ScriptedSource

OWN_CLUSTER_ID = "own-cluster"
MIRROR = "m"
WITH_MIRRORS = {**NEWEST, ApiKeys.LIST_MIRRORS: 0, ApiKeys.DESCRIBE_MIRRORS: 0}
T0 = TopicPartition("t", 0)
REFRESH_MS = 30_000


class MachineController:
    """The controller, which applies each broker request to the metadata at once.

    If `fail` returns an exception for a request, that is raised instead.
    """

    def __init__(self, machine: MirrorMachine) -> None:
        self._machine = machine
        self.requests: list[Any] = []
        self.fail: Callable[[Any], Exception | None] = lambda request: None

    async def send(self, message: Any) -> Any:
        self.requests.append(message)
        await asyncio.sleep(0)
        error = self.fail(message)
        if error is not None:
            raise error
        if isinstance(message, bump_leader_epochs.BumpLeaderEpochsRequest):
            return self._bump(message)
        assert isinstance(message, incremental_alter_configs.IncrementalAlterConfigsRequest), message
        for resource in message.resources:
            self._machine.apply(
                *(
                    ConfigRecord(
                        resource_type=resource.resource_type, resource_name=resource.resource_name, name=config.name, value=config.value
                    )
                    for config in resource.configs
                )
            )
        return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[])

    def _bump(self, message: Any) -> Any:
        response = bump_leader_epochs.BumpLeaderEpochsResponse()
        records = []
        for topic in message.topics:
            image = self._machine.cache.image.topics.topic_by_id(topic.topic_id)
            rows = []
            for state in topic.partitions:
                registration = image.partitions[state.partition_index]
                rows.append(bump_leader_epochs.PartitionDetail(partition_index=state.partition_index, error_code=0))
                if registration.leader_epoch <= state.min_leader_epoch:
                    records.append(
                        self._machine.partition_record(
                            image.id, state.partition_index, registration.replicas, registration.isr, registration.leader,
                            epoch=state.min_leader_epoch + 1, partition_epoch=registration.partition_epoch + 1,
                            recovering=bool(registration.leader_recovery_state),
                        )
                    )  # fmt: skip
            response.topics.append(bump_leader_epochs.TopicPartitions(topic_name=image.name, partitions=rows))
        self._machine.apply(*records)
        return response


class _NoPeers:
    """The other brokers, which do not answer unless a test sets `answer`."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.answer: Callable[[int, Any], Any] | None = None

    async def send(self, broker_id: int, message: Any, **options: Any) -> Any:
        self.sent.append((broker_id, message))
        await asyncio.sleep(0)
        if self.answer is None:
            raise DisconnectError(f"broker {broker_id} is down")
        return self.answer(broker_id, message)


class MirrorMachine(BrokerWorld):
    """Broker 1 with its mirroring.

    `others` are further brokers in the metadata. `source_mirrors` are the mirrors at the source:
    name -> (its source's cluster id, (state, last mirror epoch) by partition).
    """

    def __init__(
        self,
        log_dir: str,
        *,
        others: tuple[int, ...] = (),
        versions: dict[ApiKeys, int] | None = None,
        source_brokers: int = 1,
        state_partitions: int = 1,
        state_leader: int = 1,
        safeguards: MirrorSafeguards = ALL_SAFEGUARDS,
        props: dict[str, str] | None = None,
    ) -> None:
        self._mirror: MirrorManager | None = None
        super().__init__(log_dir, others=others, props=props)
        self.source = ScriptedSource(self.runtime, versions or WITH_MIRRORS, brokers=source_brokers)
        self.source.override = self._answer_mirrors
        self.source_mirrors: dict[str, tuple[str, dict[TopicPartition, tuple[str, int]]]] = {}
        self.refusing: dict[str, Errors] = {}
        self.clients: list[ScriptedClient] = []
        self.mirror_controller = MachineController(self)
        self.peers = _NoPeers()
        self._mirror = MirrorManager(
            self.runtime,
            MirrorConfig(broker_id=1, mirror_metadata_refresh_interval_ms=REFRESH_MS),
            cluster_id=OWN_CLUSTER_ID,
            replica_manager=self.replica_manager,
            log=ReplicaManagerLog(self.runtime, self.replica_manager),
            controller=self.mirror_controller,
            brokers=self.peers,
            group_coordinator=None,  # no groups here
            share_groups=None,
            create_group_metadata_topic=lambda: None,
            create_state_topic=lambda: None,
            client_factory=self.make_client,
            safeguards=safeguards,
        )
        self.followers: set[int] = set()
        """The brokers that catch up with every leader each time that time passes."""
        self.apply(FeatureLevelRecord(name="mirror.version", feature_level=1))
        self._make_state_topic(state_partitions, state_leader)
        bootstrap = ",".join(f"{host}:{port}" for host, port in self.source.addresses.values())
        self.apply(ConfigRecord(resource_type=64, resource_name=MIRROR, name="bootstrap.servers", value=bootstrap))

    @property
    def mirror(self) -> MirrorManager:
        assert self._mirror is not None, "the machine's broker is still being made"
        return self._mirror

    def make_client(self, client_id: str, mirror_configs: dict[str, str]) -> Any:
        client = ScriptedClient(self.source, client_id, mirror_configs)
        self.clients.append(client)
        return client

    # --- metadata
    # -----------------------------------------------------------------------------------------------------

    def apply(self, *records: Any) -> None:
        if not records:
            return
        delta = MetadataDelta(self.cache.image)
        for record in records:
            delta.replay(record)
        self._offset += len(records)
        image = delta.apply(MetadataProvenance(self._offset, 1, NOW_MS))
        self.cache.set_image(image)
        self.replica_manager.apply_delta(delta, image)
        if self._mirror is not None:
            self._mirror.on_metadata_update(delta, image)

    @staticmethod
    def partition_record(
        topic_id: Uuid,
        number: int,
        replicas: Any,
        isr: Any,
        leader: int,
        *,
        epoch: int = 0,
        partition_epoch: int = 0,
        recovering: bool = False,
    ) -> PartitionRecord:
        return PartitionRecord(
            partition_id=number, topic_id=topic_id, replicas=list(replicas), isr=list(isr), leader=leader, leader_epoch=epoch,
            partition_epoch=partition_epoch, leader_recovery_state=int(recovering),
        )  # fmt: skip

    def _make_state_topic(self, partitions: int, leader: int) -> None:
        topic_id = Uuid.random(self.runtime.random)
        records: list[Any] = [TopicRecord(name=MIRROR_STATE_TOPIC_NAME, topic_id=topic_id)]
        records += [self.partition_record(topic_id, number, (leader,), (leader,), leader) for number in range(partitions)]
        self.apply(*records)

    def topic(
        self,
        name: str = "t",
        value: str | None = MIRROR,
        *,
        partitions: int = 1,
        replicas: tuple[int, ...] = (1,),
        leader: int | None = None,
        epoch: int = 0,
        at_source: bool = True,
        recovering: bool = False,
        **configs: str,
    ) -> Uuid:
        """Creates the topic here and, with the same id, at the source.

        `value` is the topic's `mirror.name`. Returns the topic id.
        """
        if at_source and name not in self.source.topic_ids:
            self.source.create(name, partitions=partitions)
        topic_id = self.source.topic_ids.get(name) or Uuid.random(self.runtime.random)
        records: list[Any] = [TopicRecord(name=name, topic_id=topic_id)]
        leader = replicas[0] if leader is None else leader
        records += [
            self.partition_record(topic_id, number, replicas, replicas, leader, epoch=epoch, recovering=recovering)
            for number in range(partitions)
        ]
        named = {key.replace("_", "."): text for key, text in configs.items()}
        if value is not None:
            named["mirror.name"] = value
        self.apply(*records, *self.config_records(name, named))
        return topic_id

    def name(self, value: str | None, topic: str = "t") -> None:
        """Sets the topic's `mirror.name`, as an operator's request does."""
        self.set_configs(topic, {"mirror.name": value})

    def change(self, number: int = 0, topic: str = "t", *, bump: int = 1, recovering: bool = False, **what: Any) -> None:
        """Changes a partition's registration (`leader`, `isr`, `replicas`).

        The leader epoch rises by `bump`.
        """
        image = self.cache.image.topics.topic(topic)
        old = image.partitions[number]
        self.apply(
            self.partition_record(
                image.id, number, what.get("replicas", old.replicas), what.get("isr", old.isr), what.get("leader", old.leader),
                epoch=old.leader_epoch + bump, partition_epoch=old.partition_epoch + 1, recovering=recovering,
            )
        )  # fmt: skip

    def registration(self, topic: str = "t", number: int = 0) -> Any:
        return self.cache.image.topics.partition(topic, number)

    # --- the source's mirrors
    # -----------------------------------------------------------------------------------------

    def _answer_mirrors(self, request: Any) -> Any:
        if isinstance(request, list_mirrors.ListMirrorsRequest):
            rows = [
                list_mirrors.ListedMirror(mirror_name=name, source_bootstrap="", source_cluster_id=source_id)
                for name, (source_id, _) in self.source_mirrors.items()
            ]
            return list_mirrors.ListMirrorsResponse(mirrors=rows)
        if isinstance(request, describe_mirrors.DescribeMirrorsRequest):
            return describe_mirrors.DescribeMirrorsResponse(
                mirrors=[self._described(name) for name in request.mirror_names or self.source_mirrors]
            )
        return None

    def _described(self, name: str) -> Any:
        if name in self.refusing:
            return describe_mirrors.DescribedMirror(error_code=self.refusing[name], mirror_name=name)
        if name not in self.source_mirrors:
            return describe_mirrors.DescribedMirror(error_code=Errors.UNKNOWN_MIRROR, mirror_name=name)
        topics: dict[str, list[Any]] = {}
        for (topic, number), (state, epoch) in self.source_mirrors[name][1].items():
            row = describe_mirrors.PartitionDetail(partition_index=number, state=state, last_mirror_epoch=epoch)
            topics.setdefault(topic, []).append(row)
        rows = [describe_mirrors.TopicPartitions(topic_name=topic, partitions=found) for topic, found in topics.items()]
        return describe_mirrors.DescribedMirror(mirror_name=name, topics=rows)

    # --- time
    # ---------------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Runs everything that can run without time passing."""
        for _ in range(120):
            await asyncio.sleep(0)

    async def advance(self, ms: int, *, step_ms: int = 100) -> None:
        await self.settle()
        for _ in range(0, ms, step_ms):
            self.runtime.advance(min(step_ms, ms))
            await self._follow_all()
            await self.settle()

    async def reach(self, state: str, topic: str = "t", number: int = 0, *, within_ms: int = 20_000) -> MirrorPartition:
        """Lets time pass until the partition is in `state`, and returns its driver."""
        waited = 0
        await self.settle()
        while self.state(topic, number) != state:
            assert waited < within_ms, f"{topic}-{number} is {self.state(topic, number)}: {self.driver(topic, number).status.reason}"
            self.runtime.advance(100)
            waited += 100
            await self._follow_all()
            await self.settle()
        return self.driver(topic, number)

    async def mirroring(self, *batches: bytes, **topic: Any) -> None:
        """Creates topic t, with these batches at the source, and waits until it is mirrored to its
        end.
        """
        self.source.create("t")
        self.at_source(*batches)
        self.topic(**topic)
        await self.reach("MIRRORING")
        await self.advance(600)
        assert self.log().log_end_offset == self.source.log("t").decided

    async def close(self) -> None:
        await self.mirror.shutdown()

    # --- looking
    # ------------------------------------------------------------------------------------------------------

    def driver(self, topic: str = "t", number: int = 0) -> MirrorPartition:
        driver = self.mirror.driver(TopicPartition(topic, number))
        assert driver is not None, f"{topic}-{number} is not mirrored here"
        return driver

    def state(self, topic: str = "t", number: int = 0) -> str:
        return self.driver(topic, number).status.state.name

    def log(self, topic: str = "t", number: int = 0) -> Any:
        return self.partition(topic, number).leader_log

    def headers(self, topic: str = "t", number: int = 0) -> list[AlignmentHeader]:
        log = self.log(topic, number)
        return list(batch_headers(log, log.log_start_offset))

    def state_records(self, number: int = 0) -> list[MirrorStateRecord]:
        """Returns every record in a partition of `__mirror_state`."""
        log = self.partition(MIRROR_STATE_TOPIC_NAME, number).leader_log
        data = log.read(0, 1 << 24, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes()
        return [
            read_record(CoordinatorRecord(bytes(record.key), None if record.value is None else bytes(record.value)))
            for batch in iter_batches(memoryview(data))
            for record in batch.records()
        ]

    def states_written(self, number: int = 0) -> list[str]:
        """Returns the names of the states in a `__mirror_state` partition, in order."""
        return [record.state.name for record in self.state_records(number) if hasattr(record, "state")]

    # --- what happens to logs
    # -----------------------------------------------------------------------------------------

    def produce(self, *batches: bytes, topic: str = "t", number: int = 0) -> Errors:
        """Appends a client's batches one after the other, and returns the first error."""
        for data in batches:
            try:
                self.partition(topic, number).append_records_to_leader(bytearray(data), origin=AppendOrigin.CLIENT, required_acks=1)
            except ApiException as error:
                return error.error
            self.replica_manager.complete_delayed(TopicPartition(topic, number))
        return Errors.NONE

    def local(self, *batches: bytes, topic: str = "t", number: int = 0, epoch: int = 1 << 30) -> None:
        """Appends batches with their own offsets and epochs, as if they were in the log already."""
        for data in batches:
            self.partition(topic, number).local_log.append_as_follower(bytearray(data), leader_epoch=epoch)

    def at_source(self, *batches: bytes, topic: str = "t", number: int = 0) -> None:
        log = self.source.log(topic, number)
        log.batches.extend(batches)
        log.epoch = max([log.epoch, *(RecordBatch(data).partition_leader_epoch for data in batches)])
        self.source.notify()

    async def _follow_all(self) -> None:
        for broker_id in sorted(self.followers):
            for (topic, number), partition in list(self.replica_manager.partitions.items()):
                if partition.is_leader and broker_id in partition.assigned_replicas:
                    await self.follow(broker_id, topic=topic, number=number)

    async def follow(self, broker_id: int, offset: int | None = None, *, topic: str = "t", number: int = 0) -> bytes:
        """Fetches for a follower that has everything below `offset` (by default the leader's end).

        Returns the bytes that the follower gets.
        """
        partition = self.partition(topic, number)
        wanted = partition.leader_log.log_end_offset if offset is None else offset
        params = FetchParams(broker_id, 0, 1, 1 << 20, FetchIsolation.LOG_END)
        info = FetchPartition(partition.topic_id, wanted, 0, 1 << 20, partition.leader_epoch, None)
        results = await self.replica_manager.fetch_messages(params, [(TopicIdPartition(partition.topic_id, topic, number), info)])
        await self.settle()
        records = results[0][1].records
        return b"" if records is None else bytes(records.to_bytes())


def states(*names: str) -> list[MirrorPartitionState]:
    return [MirrorPartitionState[name] for name in names]
