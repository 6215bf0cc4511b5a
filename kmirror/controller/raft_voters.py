"""Changes of the metadata quorum's voters, answered by a controller whose quorum has one voter
(KIP-853).

The voter was fixed when the node was formatted and stays the only one: no other can be added, it
cannot be removed, and it may update its own registration. Checks and texts are Kafka's, in Kafka's
order: cluster id, voter, kraft.version, voter set.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.controller.quorum_controller import QuorumController
from kmirror.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kmirror.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kmirror.wire.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse

FIRST_KRAFT_VERSION_WITH_VOTERS = 1


class RaftVoters:
    """Answers AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter."""

    def __init__(self, controller: QuorumController) -> None:
        self._controller = controller

    async def add(self, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
        try:
            self._check_cluster(request.cluster_id)
            if not request.voter_directory_id or request.voter_id < 0:
                raise ApiException(Errors.INVALID_REQUEST, "Add voter request didn't include a valid voter")
            self._check_kraft_version("adding")
            if request.voter_id == self._controller.config.node_id:
                asked = _replica_key(request.voter_id, request.voter_directory_id)
                raise ApiException(
                    Errors.DUPLICATE_VOTER, f"The voter id for {asked} is already part of the set of voters [{self._voter()}]."
                )
            raise ApiException(Errors.INVALID_REQUEST, "The quorum of this controller has one voter, fixed when it was formatted.")
        except ApiException as error:
            return AddRaftVoterResponse(error_code=error.error, error_message=error.message)

    async def remove(self, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
        try:
            self._check_cluster(request.cluster_id)
            if not request.voter_directory_id or request.voter_id < 0:
                raise ApiException(Errors.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
            self._check_kraft_version("removing")
            asked = _replica_key(request.voter_id, request.voter_directory_id)
            raise ApiException(Errors.VOTER_NOT_FOUND, f"Cannot remove voter {asked} from the set of voters [{self._voter()}]")
        except ApiException as error:
            return RemoveRaftVoterResponse(error_code=error.error, error_message=error.message)

    async def update(self, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
        controller = self._controller
        error = Errors.NONE
        if request.cluster_id is not None and request.cluster_id != controller.config.cluster_id:
            error = Errors.INCONSISTENT_CLUSTER_ID
        elif request.current_leader_epoch < controller.epoch:
            error = Errors.FENCED_LEADER_EPOCH
        elif request.current_leader_epoch > controller.epoch:
            error = Errors.UNKNOWN_LEADER_EPOCH
        elif request.voter_id != controller.config.node_id:
            error = Errors.VOTER_NOT_FOUND
        endpoint = controller.config.listeners[0] if controller.config.listeners else None
        leader = CurrentLeader(
            leader_id=controller.config.node_id,
            leader_epoch=controller.epoch,
            host="" if endpoint is None else endpoint.host,
            port=0 if endpoint is None else endpoint.port,
        )
        return UpdateRaftVoterResponse(error_code=error, current_leader=leader)

    def _check_cluster(self, cluster_id: str | None) -> None:
        own = self._controller.config.cluster_id
        if cluster_id is not None and cluster_id != own:
            raise ApiException(Errors.INCONSISTENT_CLUSTER_ID, f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"')

    def _check_kraft_version(self, what: str) -> None:
        version = self._controller.log.kraft_version
        if version < FIRST_KRAFT_VERSION_WITH_VOTERS:
            text = f"Cluster doesn't support {what} voter because the kraft.version feature is {version}"
            raise ApiException(Errors.UNSUPPORTED_VERSION, text)

    def _voter(self) -> str:
        config = self._controller.config
        return _replica_key(config.node_id, Uuid.from_string(config.directory_id) if config.directory_id else Uuid.ZERO)


def _replica_key(voter_id: int, directory_id: Uuid) -> str:
    return f"ReplicaKey(id={voter_id}, directoryId={directory_id if directory_id else '<undefined>'})"
