"""The numbers of KIP-1279, with one row per revision of the proposal.

Its API keys, error codes and state bytes collide with later Apache releases and were renumbered
between revisions. `kip-2026-04` is the KIP text and the default; `ri-2026-07` is a later revision
of its reference implementation, for reading what that one wrote. Everything else in kmirror takes
these numbers from here, or from `Errors` and the schemas, which speak the default revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kmirror.common.errors import KmirrorError
from kmirror.wire.api_keys import API_TABLE, ApiKeys

DEFAULT_REVISION: Final = "kip-2026-04"


class MirrorDialect(Struct, frozen=True, kw_only=True):
    """The numbers of one revision."""

    revision: str
    api_names: Mapping[int, str]
    error_names: Mapping[int, str]
    state_names: Mapping[int, str]
    """State byte -> name, for the states that are stored in `__mirror_state`."""
    no_state_bytes: tuple[int, ...]
    """State bytes that mean "no state"; the first is the one to send."""
    bumped_versions: Mapping[int, int]
    """API key -> the version that mirroring adds to an API of Kafka 4.3, always its highest one."""

    def state_name(self, state: int) -> str:
        """Returns the upper-case name of a state byte, or UNKNOWN for "no state"; raises
        KmirrorError for a byte without meaning."""
        if state in self.no_state_bytes:
            return "UNKNOWN"
        if state not in self.state_names:
            raise KmirrorError(f"mirror state {state} does not exist in revision {self.revision}")
        return self.state_names[state]

    def highest_version(self, api_key: ApiKeys, *, mirroring: bool) -> int:
        """Returns the highest version to advertise and accept, with or without cluster
        mirroring."""
        return API_TABLE[api_key].highest if mirroring or api_key not in self.bumped_versions else self.bumped_versions[api_key] - 1


_KIP_2026_04 = MirrorDialect(
    revision="kip-2026-04",
    api_names={
        94: "CreateMirror",
        95: "AddTopicsToMirror",
        96: "RemoveTopicsFromMirror",
        98: "ListMirrors",
        99: "DescribeMirrors",
        100: "ReadMirrorStates",
        101: "WriteMirrorStates",
        102: "PauseMirrorTopics",
        103: "ResumeMirrorTopics",
        104: "DeleteMirror",
        105: "BumpLeaderEpochs",
    },
    error_names={
        134: "READ_ONLY_TOPIC",
        135: "INVALID_MIRROR_NAME",
        136: "UNKNOWN_MIRROR",
        137: "TOPIC_ALREADY_IN_MIRROR",
        138: "TOPIC_NOT_IN_MIRROR",
        139: "MIRROR_TOPIC_ALREADY_PAUSED",
        140: "MIRROR_TOPIC_NOT_PAUSED",
        141: "MIRROR_TOPIC_BEING_REMOVED",
        142: "MIRROR_NOT_EMPTY",
        143: "MIRROR_AUTHORIZATION_FAILED",
    },
    state_names={0: "PREPARING", 1: "MIRRORING", 2: "PAUSING", 3: "PAUSED", 4: "STOPPING", 5: "STOPPED", 6: "FAILED"},
    no_state_bytes=(16, -1),
    bumped_versions={
        ApiKeys.FETCH: 19,
        ApiKeys.CREATE_TOPICS: 8,
        ApiKeys.FIND_COORDINATOR: 7,
        ApiKeys.DESCRIBE_CONFIGS: 5,
        ApiKeys.INCREMENTAL_ALTER_CONFIGS: 2,
    },
)

_RI_2026_07 = MirrorDialect(
    revision="ri-2026-07",
    api_names={
        94: "CreateClusterMirror",
        95: "StartMirrorTopics",
        96: "StopMirrorTopics",
        98: "ListClusterMirrors",
        99: "DescribeClusterMirrors",
        100: "ReadMirrorStates",
        101: "WriteMirrorStates",
        102: "PauseMirrorTopics",
        103: "ResumeMirrorTopics",
        104: "DeleteClusterMirror",
        105: "BumpLeaderEpochs",
    },
    error_names={
        134: "READ_ONLY_TOPIC",
        136: "CLUSTER_MIRROR_ALREADY_EXISTS",
        137: "UNKNOWN_CLUSTER_MIRROR",
        138: "TOPIC_ALREADY_IN_CLUSTER_MIRROR",
        139: "TOPIC_NOT_IN_CLUSTER_MIRROR",
        140: "MIRROR_TOPIC_ALREADY_PAUSED",
        141: "MIRROR_TOPIC_NOT_PAUSED",
        142: "MIRROR_TOPIC_BEING_STOPPED",
        143: "CLUSTER_MIRROR_NOT_EMPTY",
        144: "CLUSTER_MIRROR_AUTHORIZATION_FAILED",
        145: "INVALID_CLUSTER_MIRROR_STATES",
        146: "MIRROR_TOPIC_NOT_STOPPED",
    },
    state_names={
        0: "LOG_TRUNCATION",
        1: "EPOCH_FENCING",
        2: "MIRRORING",
        3: "PAUSING",
        4: "PAUSED",
        5: "STOPPING",
        6: "STOPPED",
        7: "FAILED",
    },
    no_state_bytes=(-1,),
    bumped_versions={ApiKeys.FETCH: 19, ApiKeys.CREATE_TOPICS: 8},
)

DIALECTS: Final[Mapping[str, MirrorDialect]] = {dialect.revision: dialect for dialect in (_KIP_2026_04, _RI_2026_07)}
MIRROR_API_KEYS: Final = frozenset(ApiKeys(key) for key in _KIP_2026_04.api_names)


def mirror_dialect(revision: str = DEFAULT_REVISION) -> MirrorDialect:
    """Returns the numbers of `revision`; raises KmirrorError if there is no such revision."""
    if revision not in DIALECTS:
        raise KmirrorError(f"unknown mirror revision {revision!r}; known are {', '.join(DIALECTS)}")
    return DIALECTS[revision]
