"""Named histories of disks: one of two log directories fails or fills while the other is healthy, a
node starts on a full or unreadable disk, a disk comes back empty, a replica moves between
directories while its log is cut, and a bit of a batch flips.

Each is an `async def (stage)` as in `sim.histories.replicas`. A history states with `expect` what
the checkers cannot see.
"""

from __future__ import annotations

import errno

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.events import Batch, Removed
from kmirror.sim.histories.replicas import ALONE, b_takes_over, end_history, leader_of, let_another_lead
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.server import SimServer
from kmirror.sim.stage import ORDERS, TOPIC, expect

PARTITIONS = 4
UNREADABLE = (("pread", errno.EIO, ""), ("open", errno.EMFILE, ""), ("open", errno.EACCES, ""), ("pread", errno.EIO, ".log"))
"""Which operation fails at a restart, how, and for files with which suffix."""
MOVE_CONFIG = {"replica.alter.log.dirs.io.max.bytes.per.second": "60"}


async def _open(stage: MirrorStage) -> None:
    """Opens the stage with two log directories a broker; every broker of B has all four of A's
    partitions.
    """
    await stage.open(partitions=PARTITIONS, replication_factor=3, log_dirs=2)
    await _write_to_all(stage, "a")
    await stage.mirror("a", "b")
    await stage.until("B has all of A", lambda: all(stage.equal("a", "b", partition) for partition in stage.partitions))
    await stage.until("every replica is in sync", stage.is_whole)


async def _write_to_all(stage: MirrorStage, cluster: str) -> None:
    for partition in stage.partitions:
        await stage.write(cluster, batches=1, partition=partition)


def _in_sync(stage: MirrorStage, server: SimServer, partition: TopicPartition) -> bool:
    fleet = stage.fleets[stage.history.hosts[server.name]]
    return any(fleet.broker_named(replica) is server for replica in fleet.registrations()[partition].isr)


def _fail(stage: MirrorStage, server: SimServer, path: str, error_number: int) -> None:
    server.node.disk.volumes.at(path).fail(error_number)
    server.note_bad_disk()
    stage.tell(f"{path} of {server.name} fails with {errno.errorcode[error_number]}")


async def _mend_and_restart(stage: MirrorStage, server: SimServer) -> None:
    if server.alive:
        server.crash()
    server.mend_disks()
    server.start()
    await server.wait_started()


async def directory_fails(stage: MirrorStage) -> None:
    """One of the two log directories of a broker at A fails.

    The partitions in its healthy directory are still copied, from it and to it.
    """
    await _open(stage)
    server = _leader_of_some(stage, "a")
    path = server.volumes[1].path
    healthy = [partition for partition in stage.partitions if server.watch.data_dir_of(partition) != path]
    expect(0 < len(healthy) < PARTITIONS, f"{server.name} has partitions in both of its directories")
    _fail(stage, server, path, errno.EIO)
    for _ in range(2):
        await _write_to_all(stage, "a")
        await stage.sleep_ms(1_500)
    what = f"{server.name} is in sync for what lies in its healthy directory"
    await stage.until("B has all of A", lambda: all(stage.equal("a", "b", partition) for partition in stage.partitions))
    await stage.sleep_ms(3_000)
    await stage.until(what, lambda: all(_in_sync(stage, server, partition) for partition in healthy))
    await _mend_and_restart(stage, server)
    await end_history(stage, "a", "b")


def _leader_of_some(stage: MirrorStage, cluster: str) -> SimServer:
    return leader_of(stage, cluster, stage.partitions[stage.between(0, PARTITIONS - 1)])


async def leaders_disk_fills(stage: MirrorStage) -> None:
    """The disk of the mirror's leader is full.

    Another replica takes the lead and goes on mirroring, without an operator.
    """
    await stage.open(replication_factor=3, log_dirs=2)
    await stage.write("a", batches=3)
    await stage.mirror("a", "b")
    await stage.until("B has all of A", lambda: stage.equal("a", "b", ORDERS))
    await stage.until("every replica is in sync", stage.is_whole)
    server = leader_of(stage, "b", ORDERS)
    path = server.watch.data_dir_of(ORDERS)
    assert path is not None, ORDERS
    volume = server.node.disk.volumes.at(path)
    volume.capacity_bytes = server.node.disk.used_bytes(volume)
    server.note_bad_disk()
    stage.tell(f"{path} of {server.name} is full")
    await stage.write("a", batches=2)
    await stage.until("another broker leads", lambda: stage.leader("b", ORDERS) not in (None, server))
    await stage.until("it mirrors", lambda: stage.state("b", ORDERS) is State.MIRRORING)
    await stage.until("B has all of A again", lambda: stage.equal("a", "b", ORDERS))
    await _mend_and_restart(stage, server)
    await end_history(stage, "a", "b")


async def move_during_cut(stage: MirrorStage) -> None:
    """A's leader is moving a replica to another log directory when A becomes the mirror.

    The log is cut and mirrored anew in equal epochs.
    """
    await stage.open(replication_factor=2, log_dirs=2, configs=ALONE, config=MOVE_CONFIG)
    stage.history.min_in_sync_replicas = 1
    await stage.write("a", batches=2)
    await b_takes_over(stage)
    await let_another_lead(stage, "a")
    await stage.write("a", batches=4)
    await stage.write("b", batches=6)
    server = leader_of(stage, "a", ORDERS)
    while await stage.move(server, ORDERS) is None:
        await stage.sleep_ms(200)
    await stage.until("the future log is there", lambda: ORDERS in server.watch.moving())
    await stage.mirror("b", "a")
    await stage.until("A's leader has all of B", lambda: stage.equal("b", "a", ORDERS))
    await stage.until("the move has ended", lambda: ORDERS not in server.watch.moving())
    await end_history(stage, "b", "a")


async def full_disk_at_restart(stage: MirrorStage) -> None:
    """A broker or the controller starts on a full disk.

    It says so or leaves the directory alone, and it has lost nothing when there is room again.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=5)
    await stage.mirror("a", "b")
    await stage.until("B has all of A", lambda: stage.equal("a", "b", ORDERS))
    await stage.until("every replica is in sync", stage.is_whole)
    fleet = stage.fleets["a"]
    server = fleet.controller if stage.chance(50) else leader_of(stage, "a", ORDERS)
    topic_id = stage.topic_id("a")
    server.crash()
    (volume,) = server.volumes
    volume.capacity_bytes = server.node.disk.used_bytes(volume)
    server.note_bad_disk()
    stage.tell(f"the disk of {server.name} is full")
    await _start_on_it_and_mend(stage, server)
    expect(fleet.image().topics.topic(TOPIC) is not None and stage.topic_id("a") == topic_id, f"A has {TOPIC}")
    await end_history(stage, "a", "b")


async def unreadable_disk_at_restart(stage: MirrorStage) -> None:
    """A broker or the controller starts on a disk that it cannot read or open for a while.

    Reads fail, or only those of segments do, or there are no file descriptors left, or the node has
    no rights to its files.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=5)
    await stage.mirror("a", "b")
    await stage.until("every replica is in sync", stage.is_whole)
    fleet = stage.fleets["a"]
    server = fleet.controller if stage.chance(50) else leader_of(stage, "a", ORDERS)
    operation, error_number, suffix = UNREADABLE[stage.between(0, len(UNREADABLE) - 1)]
    server.crash()
    (volume,) = server.volumes
    volume.fail(error_number, {operation}, suffix=suffix)
    server.note_bad_disk()
    what = f"{operation} of *{suffix}" if suffix else operation
    stage.tell(f"{what} fails with {errno.errorcode[error_number]} at {server.name}")
    await _start_on_it_and_mend(stage, server)
    expect(fleet.image().topics.topic(TOPIC) is not None, f"A has {TOPIC}")
    await end_history(stage, "a", "b")


async def _start_on_it_and_mend(stage: MirrorStage, server: SimServer) -> None:
    """Starts a server of A on its bad disk, where it must remove nothing. Then mends the disk and
    waits until A's controller serves.
    """
    before = len(stage.history.events)
    server.start()
    await stage.sleep_ms(3_000)
    _expect_nothing_lost(stage, server, before)
    await _mend_and_restart(stage, server)
    await stage.until("A's controller serves", lambda: stage.fleets["a"].controller.is_serving)


def _expect_nothing_lost(stage: MirrorStage, server: SimServer, since: int) -> None:
    lost = [event for event in stage.history.events[since:] if isinstance(event, Removed) and event.log.cluster == server.name]
    expect(not lost, f"{server.name} removes nothing while its disk is bad, not {lost[0].batches[0] if lost else ''}")


async def directory_comes_back_empty(stage: MirrorStage) -> None:
    """A broker's second disk is replaced by an empty one.

    The broker does not start on it until it is formatted; then its replicas rejoin the ISR.
    """
    await _open(stage)
    server = _leader_of_some(stage, "b")
    server.crash()
    server.replace_disk(server.volumes[1].path)
    server.start()
    await stage.sleep_ms(3_000)
    expect(server.refused is not None, f"{server.name} does not start while its second directory is not formatted")
    await _write_to_all(stage, "a")
    await _mend_and_restart(stage, server)
    await end_history(stage, "a", "b")


async def batch_rots_at_the_source(stage: MirrorStage) -> None:
    """A bit of a batch flips on the disk of A's leader.

    Nobody copies the batch from there, and the mirror is FAILED. It gets the batch when a sound
    replica leads and the topic is added again.
    """
    await stage.open(replication_factor=3)
    await stage.write("a", batches=6)
    await stage.until("every replica is in sync", stage.is_whole)
    server = leader_of(stage, "a", ORDERS)
    batch = _rot(stage, server)
    await stage.requests.start_mirror("a", "b")
    await stage.sleep_ms(3_000)
    copied = [log for broker in stage.fleets["b"].brokers.values() for log in broker.watch.logs.get(ORDERS, ())]
    expect(all(copy.last_offset < batch.base_offset for copy in copied), f"B copies nothing of {batch}")
    server.crash()
    await stage.until("another broker leads", lambda: stage.leader("a", ORDERS) not in (None, server))
    server.replace_disk(server.volumes[0].path)
    await _mend_and_restart(stage, server)
    await stage.until_state("b", State.FAILED)
    await stage.fail_over("b")
    await stage.mirror("a", "b")
    await end_history(stage, "a", "b")


def _rot(stage: MirrorStage, server: SimServer) -> Batch:
    """Flips a bit of a value in one of the server's batches other than the first; returns that
    batch.
    """
    log = server.watch.logs[ORDERS]
    batch = log[stage.between(1, len(log) - 1)]
    value = batch.values[0]
    position = server.node.disk.contents(batch.path).index(value, batch.position) + stage.between(0, len(value) - 1)
    server.node.disk.corrupt(batch.path, position, 1 << stage.between(0, 7))
    stage.tell(f"a bit of {batch} flips on the disk of {server.name}, the leader of A")
    return batch


CALM = Setting(MirrorStage, check_mirrors)
DISK_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "directory_fails": (directory_fails, CALM),
    "leaders_disk_fills": (leaders_disk_fills, CALM),
    "move_during_cut": (move_during_cut, CALM),
    "full_disk_at_restart": (full_disk_at_restart, CALM),
    "unreadable_disk_at_restart": (unreadable_disk_at_restart, CALM),
    "directory_comes_back_empty": (directory_comes_back_empty, CALM),
    "batch_rots_at_the_source": (batch_rots_at_the_source, CALM),
}
