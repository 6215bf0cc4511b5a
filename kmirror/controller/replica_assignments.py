"""Which brokers get the partitions of a new topic, or new partitions of an existing one: those that
the request names, or the placer's choice."""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.replica_placer import place_replicas
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.wire.messages import create_topics as ct


class ReplicaAssignments:
    """Raises ApiException with Kafka's texts for impossible assignments."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def of_new_topic(self, topic: ct.CreatableTopic) -> list[PartitionRegistration]:
        return self._manual_assignment(topic) if topic.assignments else self._automatic_assignment(topic)

    def check_all_active(self, topic: ct.CreatableTopic, partitions: list[PartitionRegistration]) -> None:
        """Checks that no replica is fenced or in controlled shutdown: a mirror topic begins with
        replicas that can all truncate."""
        inactive = sorted({replica for p in partitions for replica in p.replicas if not self._state.is_active(replica)})
        if inactive:
            code = Errors.INVALID_REPLICA_ASSIGNMENT if topic.assignments else Errors.INVALID_REPLICATION_FACTOR
            raise ApiException(
                code, f"All replicas of a mirror topic must be active; brokers {inactive} are fenced or in controlled shutdown."
            )

    def _manual_assignment(self, topic: ct.CreatableTopic) -> list[PartitionRegistration]:
        if topic.replication_factor != -1:
            raise ApiException(
                Errors.INVALID_REQUEST, "A manual partition assignment was specified, but replication factor was not set to -1."
            )
        if topic.num_partitions != -1:
            raise ApiException(Errors.INVALID_REQUEST, "A manual partition assignment was specified, but numPartitions was not set to -1.")
        chosen: dict[int, list[int]] = {}
        for assignment in topic.assignments:
            if assignment.partition_index in chosen:
                text = f"Found multiple manual partition assignments for partition {assignment.partition_index}"
                raise ApiException(Errors.INVALID_REPLICA_ASSIGNMENT, text)
            self.check_replicas(assignment.broker_ids, None if not chosen else len(next(iter(chosen.values()))))
            chosen[assignment.partition_index] = list(assignment.broker_ids)
        if sorted(chosen) != list(range(len(chosen))):
            raise ApiException(Errors.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
        return [self.manual_partition(number, chosen[number]) for number in sorted(chosen)]

    def check_replicas(self, replicas: Sequence[int], replication_factor: int | None) -> None:
        text = ""
        if not replicas:
            text = "The manual partition assignment includes an empty replica list."
        ordered = sorted(replicas)
        for previous, replica in zip([None, *ordered], ordered, strict=False):
            if replica not in self._state.image.cluster.brokers:
                text = text or f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            elif replica == previous:
                text = text or f"The manual partition assignment includes the broker {replica} more than once."
        if not text and replication_factor is not None and len(replicas) != replication_factor:
            text = (
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not consistent with "
                f"previous partitions, which have {replication_factor} replica(s)."
            )
        if text:
            raise ApiException(Errors.INVALID_REPLICA_ASSIGNMENT, text)

    def manual_partition(self, number: int, replicas: list[int]) -> PartitionRegistration:
        isr = [replica for replica in replicas if self._state.is_active(replica)]
        if not isr:
            text = f"All brokers specified in the manual partition assignment for partition {number} are fenced or in controlled shutdown."
            raise ApiException(Errors.INVALID_REPLICA_ASSIGNMENT, text)
        return self._new_partition(replicas, isr)

    def _automatic_assignment(self, topic: ct.CreatableTopic) -> list[PartitionRegistration]:
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            text = "Replication factor must be larger than 0, or -1 to use the default value."
            raise ApiException(Errors.INVALID_REPLICATION_FACTOR, text)
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise ApiException(Errors.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        count = self._state.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        factor = self._state.config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        return self.placed(count, factor)

    def placed(self, count: int, replication_factor: int) -> list[PartitionRegistration]:
        brokers = list(self._state.image.cluster.brokers.values())
        result = []
        for replicas in place_replicas(brokers, self._state.random, partitions=count, replication_factor=replication_factor):
            isr = [replica for replica in replicas if self._state.is_active(replica)]
            if not isr:
                text = f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced or in controlled shutdown."
                raise ApiException(Errors.INVALID_REPLICATION_FACTOR, text)
            result.append(self._new_partition(replicas, isr))
        return result

    def _new_partition(self, replicas: list[int], isr: list[int]) -> PartitionRegistration:
        directories = tuple(self._state.default_directory(replica) for replica in replicas)
        return PartitionRegistration(replicas=tuple(replicas), isr=tuple(isr), leader=isr[0], directories=directories)
