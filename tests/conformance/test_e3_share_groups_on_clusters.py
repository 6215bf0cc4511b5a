"""Share groups in metadata sync, on whole clusters (SYN15): three brokers on each side,
coordinators that move, a failover, and what a broker that comes back still knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    numbered,
    produce,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror.admin.admin_client import AdminClient
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster

CONFIG = FAST_MIRROR | {
    "default.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}
PARTITIONS = [TopicPartition("t", number) for number in range(3)]
GROUPS = [f"workers-{number}" for number in range(4)]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    with (
        EmbeddedCluster(brokers=3, mirroring=True, config=CONFIG) as source,
        EmbeddedCluster(brokers=3, mirroring=True, config=CONFIG) as here,
    ):
        yield source, here


def begins(cluster: EmbeddedCluster, group: str) -> dict[int, int]:
    """Start offsets of the group in t."""
    found = call(cluster.bootstrap_servers, lambda admin: admin.list_share_group_offsets(group))
    return {tp.partition: row.start_offset for tp, row in found.items() if row is not None}


def wait_until_it_begins(cluster: EmbeddedCluster, group: str, offsets: dict[int, int]) -> None:
    wait_for(f"{group} begins at {offsets}", lambda: begins(cluster, group) == offsets)


def alter(cluster: EmbeddedCluster, group: str, *offsets: int) -> None:
    wanted = dict(zip(PARTITIONS, offsets, strict=False))
    errors = call(cluster.bootstrap_servers, lambda admin: admin.alter_share_group_offsets(group, wanted))
    assert errors == dict.fromkeys(wanted), errors


def test_syn15_share_groups_move_with_the_topic_at_failover(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    source, here = clusters
    create_topic(source.bootstrap_servers, "t", 3, replication_factor=3)
    for partition in range(3):
        produce(source.bootstrap_servers, "t", numbered("v", 20), partition=partition)
    for number, group in enumerate(GROUPS):
        alter(source, group, number, 5, 7)
    create_mirror(here.bootstrap_servers, "m", source.bootstrap_servers)
    add(here.bootstrap_servers, "m", "t")
    wait_caught_up(here.bootstrap_servers, source.bootstrap_servers, "m")
    for number, group in enumerate(GROUPS):
        wait_until_it_begins(here, group, {0: number, 1: 5, 2: 7})
    listed = call(here.bootstrap_servers, lambda admin: admin.list_groups(types=["share"]))
    assert [(row.group_id, row.state, row.type) for row in listed] == [(group, "Empty", "Share") for group in GROUPS]

    here.kill_node(2)
    alter(source, GROUPS[0], 11, 12, 13)
    wait_until_it_begins(here, GROUPS[0], {0: 11, 1: 12, 2: 13})
    here.start_node(2)

    remove(here.bootstrap_servers, "m", "t")
    wait_state(here.bootstrap_servers, "m", "STOPPED")
    alter(source, GROUPS[0], 1, 1, 1)
    alter(here, GROUPS[1], 15)
    described = call(here.bootstrap_servers, lambda admin: admin.list_share_group_offsets(GROUPS[0]))
    assert {tp.partition: (row.start_offset, row.lag) for tp, row in described.items() if row is not None} == {
        0: (11, 10),
        1: (12, 9),
        2: (13, 8),
    }
    assert begins(here, GROUPS[1]) == {0: 15, 1: 5, 2: 7}, "after the failover nothing of the source's is written here"


async def set_start(group: str, partition: TopicPartition, admin: AdminClient) -> dict[TopicPartition, ApiException | None]:
    return await admin.alter_share_group_offsets(group, {partition: 3})


def begins_at_3(address: str, group: str, partition: TopicPartition) -> bool:
    row = call(address, lambda admin: admin.list_share_group_offsets(group, [partition]))[partition]
    return row is not None and row.start_offset == 3


def test_share_groups_survive_the_restart_of_every_coordinator(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    _, here = clusters
    create_topic(here.bootstrap_servers, "own", 1, replication_factor=3)
    own = TopicPartition("own", 0)
    address = here.bootstrap_servers
    for group in GROUPS:
        assert call(address, partial(set_start, group, own)) == {own: None}
    for number in range(3):
        here.kill_node(number)
        here.start_node(number)
    for group in GROUPS:
        wait_for(f"{group} after the restarts", partial(begins_at_3, address, group, own))
    assert call(address, lambda admin: admin.delete_share_group_offsets(GROUPS[0], ["own", "t"])) == {"own": None, "t": None}
    assert call(address, lambda admin: admin.list_share_group_offsets(GROUPS[0])) == {}
    deleted = call(address, lambda admin: admin.delete_share_groups([*GROUPS, "nobody"]))
    assert {group: error.error if error else None for group, error in deleted.items()} == {
        **dict.fromkeys(GROUPS),
        "nobody": Errors.GROUP_ID_NOT_FOUND,
    }
    assert call(address, lambda admin: admin.list_groups(types=["share"])) == []
