"""`quorum-state`: the epoch of a node of the metadata quorum, and the epoch's leader (Kafka's
`QuorumStateStore`).

One line of JSON without a line end, replaced atomically and synced before the node acts on it.
Version 0 (kraft.version 0) lists the voters, version 1 does not. For a quorum of one voter
`votedId` is -1 once it leads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.common.uuid import Uuid
from kmirror.storage.checkpoint_file import write_atomically

QUORUM_STATE_FILE_NAME = "quorum-state"


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The elected leader and its epoch. `voters` are the ids of a static quorum."""

    leader_id: int
    leader_epoch: int
    voters: tuple[int, ...] = ()
    data_version: int = 0

    def to_json(self) -> str:
        state: dict[str, object]
        if self.data_version == 0:
            state = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": -1,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
                "data_version": 0,
            }
        else:
            state = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": -1,
                "votedDirectoryId": str(Uuid.ZERO),
                "data_version": 1,
            }
        return json.dumps(state, separators=(",", ":"))

    def write(self, files: FileSystem, path: str) -> None:
        write_atomically(files, path, self.to_json().encode())


def read_quorum_state(files: FileSystem, path: str) -> QuorumState | None:
    """Returns the state in `path`; None if there is no such file. Raises CorruptFileError if it
    cannot be parsed."""
    if not files.exists(path):
        return None
    data = files.read_bytes(path)
    try:
        state = json.loads(data)
        version = int(state["data_version"])
        voters = tuple(int(voter["voterId"]) for voter in state.get("currentVoters") or ())
        result = QuorumState(int(state["leaderId"]), int(state["leaderEpoch"]), voters, version)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(path, 0, f"not a quorum state: {error}") from error
    if version not in (0, 1):
        raise CorruptFileError(path, 0, f"quorum state version {version} is not supported; only 0 and 1 are")
    return result
