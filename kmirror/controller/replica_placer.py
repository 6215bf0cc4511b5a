"""Where the replicas of new partitions go: striped over racks and brokers from a random start (Kafka's `StripedReplicaPlacer`).

Leaders go round all unfenced brokers; the replicas of one partition take brokers of different racks in turn. A fenced
broker gets replicas only when the unfenced ones do not suffice, and never the first replica.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Random
from kmirror.metadata.registrations import BrokerRegistration


def place_replicas(brokers: list[BrokerRegistration], random: Random, *, partitions: int, replication_factor: int) -> list[list[int]]:
    """Replica lists of `partitions` new partitions; INVALID_REPLICATION_FACTOR with Kafka's text when it cannot be done."""
    _check(brokers, replication_factor)
    order = _stripe(brokers, random)
    fenced = [broker.id for broker in order if broker.fenced]
    unfenced = [broker.id for broker in order if not broker.fenced]
    start = random.randrange(len(unfenced))
    shift = random.randrange(max(1, len(unfenced) - 1))
    assignments = []
    for partition in range(partitions):
        turn, first = divmod(start + partition, len(unfenced))
        ring = unfenced[first + 1 :] + unfenced[:first]
        rotation = (shift + turn) % len(ring) if ring else 0
        followers = (ring[rotation:] + ring[:rotation])[: replication_factor - 1]
        missing = replication_factor - 1 - len(followers)
        assignments.append([unfenced[first], *followers, *fenced[:missing]])
    return assignments


def _check(brokers: list[BrokerRegistration], replication_factor: int) -> None:
    if replication_factor <= 0:
        raise _error(f"Invalid replication factor {replication_factor}: the replication factor must be positive.", replication_factor)
    if all(broker.fenced for broker in brokers):
        raise _error("All brokers are currently fenced.", replication_factor)
    if replication_factor > len(brokers):
        text = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered "
            "or some brokers have all their log directories cordoned."
        )
        raise _error(text, replication_factor)


def _error(text: str, replication_factor: int) -> ApiException:
    return ApiException(Errors.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replication_factor} time(s): {text}")


def _stripe(brokers: list[BrokerRegistration], random: Random) -> list[BrokerRegistration]:
    """Brokers in an order that takes one of each rack in turn; racks and the brokers within them from random starts."""
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", []).append(broker)
    names = sorted(racks)
    first = random.randrange(len(names))
    queues = [racks[name] for name in names[first:] + names[:first]]
    order: list[BrokerRegistration] = []
    for turn in range(max(len(queue) for queue in queues)):
        order += [queue[turn] for queue in queues if turn < len(queue)]
    return order
