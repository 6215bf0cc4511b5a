"""Elections that somebody asks for, and those that the controller holds from time to time."""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.leader_updates import builder_for, leader_and_isr_updates, partitions
from kmirror.controller.mirror_state_topic import check_election, is_mirror_state_topic
from kmirror.controller.partition_change_builder import Election
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.wire.messages import elect_leaders as el

ELECTION_PREFERRED, ELECTION_UNCLEAN = 0, 1


class LeaderElections:
    """Decides who leads, where that is not a consequence of a broker's coming and going."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def elect_leaders(self, request: el.ElectLeadersRequest) -> ControllerResult[el.ElectLeadersResponse]:
        is_known = request.election_type in (ELECTION_PREFERRED, ELECTION_UNCLEAN)
        if not is_known and request.topic_partitions != []:
            raise ApiException(Errors.INVALID_REQUEST, f"Unknown election type {request.election_type}")
        records: list[ApiMessageAndVersion] = []
        response = el.ElectLeadersResponse()
        everything = request.topic_partitions is None
        wanted = request.topic_partitions or [
            el.TopicPartitions(topic=topic.name, partitions=sorted(topic.partitions))
            for topic in self._state.image.topics.by_name.values()
            if everything
        ]
        for topic in wanted:
            results = []
            for partition_id in topic.partitions:
                result = el.PartitionResult(partition_id=partition_id, error_message=None)
                try:
                    records += self._elect(topic.topic, partition_id, request.election_type)
                except ApiException as error:
                    result.error_code, result.error_message = error.error, error.message
                if not (everything and result.error_code == Errors.ELECTION_NOT_NEEDED):
                    results.append(result)
            response.replica_election_results.append(el.ReplicaElectionResult(topic=topic.topic, partition_result=results))
        return ControllerResult(records, response)

    def _elect(self, name: str, partition_id: int, election_type: int) -> list[ApiMessageAndVersion]:
        topic = self._state.image.topics.by_name.get(name)
        if topic is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        partition = topic.partitions.get(partition_id)
        if partition is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{partition_id}")
        preferred = election_type == ELECTION_PREFERRED
        if partition.leader == partition.preferred_replica if preferred else partition.has_leader:
            raise ApiException(Errors.ELECTION_NOT_NEEDED, Errors.ELECTION_NOT_NEEDED.message)
        if is_mirror_state_topic(name) and not preferred:
            check_election()
        builder = builder_for(self._state, name, topic.id, partition_id, partition)
        builder.election = Election.PREFERRED if preferred else Election.UNCLEAN
        record = builder.build()
        if record is None or (preferred and record.message.leader != partition.preferred_replica):
            code = Errors.PREFERRED_LEADER_NOT_AVAILABLE if preferred else Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
            raise ApiException(code, code.message)
        return [record]

    def elect_unclean(self) -> ControllerResult[int]:
        """Elects a leader for every leaderless partition whose topic allows unclean elections and
        that has a replica alive; the response is how many."""
        leaderless = partitions(self._state, lambda partition: not partition.has_leader)
        enabled = (ref for ref in leaderless if self._state.unclean_election_enabled(ref[0]))
        records = leader_and_isr_updates(self._state, enabled)
        return ControllerResult(records, len(records))

    def balance_leaders(self) -> ControllerResult[int]:
        """Gives partitions back to their preferred replicas if those may lead; the response is how
        many."""
        records = []
        for topic in self._state.image.topics.by_name.values():
            for partition_id, partition in topic.partitions.items():
                if partition.leader != partition.preferred_replica:
                    builder = builder_for(self._state, topic.name, topic.id, partition_id, partition)
                    builder.election = Election.PREFERRED
                    record = builder.build()
                    if record is not None:
                        records.append(record)
        return ControllerResult(records, len(records))
