"""Which changes to `__mirror_state`, the log of every mirror partition's state, are allowed
(KIP-1279; hazards C1, F9).

A state that is lost, or looked up in the wrong partition, reads as "never mirrored": a mirror is
prepared again, and a topic that was failed over and has been written to is stopped a second time.
So nobody (neither clients, directly or forwarded, nor brokers) may

    add partitions            a state's key is hashed over the partition count, so every state would
                              be looked up in another partition
    lower the replication     below mirror.topic.replication.factor (a lower one may stay as it is);
                              replicas may be moved
    elect uncleanly           an older replica brings back states that have passed
    delete records, or write  (`ReplicaManager` refuses that)
    set some configs          those that delete states or keep new ones out (`REFUSED_VALUES`)
    delete the topic          while there are mirrors, unless the dynamic broker config
                              mirror.topic.deletion.enable allows it: the last resort for a topic
                              that cannot be repaired

A new topic gets `MIRROR_STATE_TOPIC_CONFIGS` unless the request says otherwise, and its config
records the number of partitions that it was created with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.mirror_names import MIRROR_STATE_PARTITIONS_CONFIG
from kmirror.metadata.registrations import PartitionRegistration

MIRROR_STATE_TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "retention.ms": "-1",
    "flush.messages": "1",
    "unclean.leader.election.enable": "false",
}
MIRROR_TOPIC_DELETION_CONFIG = "mirror.topic.deletion.enable"
SMALLEST_MAX_MESSAGE_BYTES = 1_048_588

REFUSED_VALUES: dict[str, tuple[Callable[[str], bool], str]] = {
    "cleanup.policy": (lambda value: value.strip() != "compact", "it must stay compact: any other policy deletes states"),
    "retention.ms": (lambda value: int(value) >= 0, "it must stay -1: a state must be kept however old it is"),
    "retention.bytes": (lambda value: int(value) >= 0, "it must stay -1: no state may be deleted to make room for another"),
    "flush.messages": (lambda value: int(value) != 1, "it must stay 1: after a power loss an older state could be read again"),
    "unclean.leader.election.enable": (
        lambda value: value.strip().lower() == "true",
        "it must stay false: an unclean leader would return older states",
    ),
    "max.message.bytes": (
        lambda value: int(value) < SMALLEST_MAX_MESSAGE_BYTES,
        f"it must be at least {SMALLEST_MAX_MESSAGE_BYTES} bytes: all last mirror epochs of a mirror are in one record",
    ),
}
"""For each config: whether a value is refused, and why. Configs that are not listed can neither
delete a state nor keep one out."""


def is_mirror_state_topic(name: str | None) -> bool:
    return name == MIRROR_STATE_TOPIC_NAME


def new_topic_configs(configs: Mapping[str, str], partitions: int) -> dict[str, str]:
    """Returns the configs of `__mirror_state` when it is created with `configs`; raises
    INVALID_CONFIG if one is refused."""
    complete = {**MIRROR_STATE_TOPIC_CONFIGS, **configs}
    check_configs(complete)
    return {**complete, MIRROR_STATE_PARTITIONS_CONFIG: str(partitions)}


def check_configs(values: Mapping[str, str | None], inherited: Callable[[str], str | None] = lambda name: None) -> None:
    """Raises INVALID_CONFIG if one of `values`, which are about to be in force, is refused. None
    means that the key is removed, and `inherited(key)` is in force. Configs that the topic was
    created with cannot be removed: a default of the brokers may change later, and nobody would then
    check this topic."""
    for name, value in values.items():
        refused, reason = REFUSED_VALUES.get(name, (None, ""))
        if refused is not None and value is None and name in MIRROR_STATE_TOPIC_CONFIGS:
            text = f"{name} of {MIRROR_STATE_TOPIC_NAME} cannot be removed, because the brokers' default would apply: {reason}."
            raise ApiException(Errors.INVALID_CONFIG, text)
        holds = inherited(name) if value is None else value
        if refused is not None and holds is not None and _is(refused, holds):
            raise ApiException(Errors.INVALID_CONFIG, f"{name} of {MIRROR_STATE_TOPIC_NAME} cannot be '{holds}': {reason}.")


def check_no_new_partitions() -> None:
    """Always raises INVALID_PARTITIONS."""
    text = (
        f"{MIRROR_STATE_TOPIC_NAME} keeps the number of partitions that it was created with: "
        "the number determines which partition has the states of a mirror."
    )
    raise ApiException(Errors.INVALID_PARTITIONS, text)


def check_deletion(image: MetadataImage) -> None:
    """Raises POLICY_VIOLATION while there are mirrors and the deletion was not allowed."""
    mirrors = image.configs.mirror_names()
    if mirrors and image.configs.cluster_default().get(MIRROR_TOPIC_DELETION_CONFIG, "false").lower() != "true":
        text = (
            f"{MIRROR_STATE_TOPIC_NAME} holds the states of the mirrors {', '.join(sorted(mirrors))}: delete the mirrors first. "
            f"If it is beyond repair, set {MIRROR_TOPIC_DELETION_CONFIG}=true as a default of all brokers, and delete it."
        )
        raise ApiException(Errors.POLICY_VIOLATION, text)


def check_replication(partition: PartitionRegistration, target: int, configured: int) -> None:
    """Raises INVALID_REPLICATION_FACTOR if `target` replicas are fewer than now and fewer than
    mirror.topic.replication.factor."""
    present = len({*partition.replicas} - {*partition.adding_replicas})
    if target < min(present, configured):
        text = (
            f"{MIRROR_STATE_TOPIC_NAME} cannot go from {present} to {target} replicas: the states of mirrors are kept on "
            f"mirror.topic.replication.factor={configured} brokers. To move a partition, name at least that many brokers."
        )
        raise ApiException(Errors.INVALID_REPLICATION_FACTOR, text)


def check_election() -> None:
    """Always raises POLICY_VIOLATION, for an unclean election."""
    text = (
        f"A partition of {MIRROR_STATE_TOPIC_NAME} cannot be elected uncleanly: older states would return, and "
        "records that were written to topics after their failover would be removed. Bring back a replica of the ISR, or delete the topic."
    )
    raise ApiException(Errors.POLICY_VIOLATION, text)


def _is(refused: Callable[[str], bool], value: str) -> bool:
    try:
        return refused(value)
    except ValueError:
        return False  # not a value of the config's type, which is refused elsewhere
