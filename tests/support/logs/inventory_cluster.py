"""Data dirs of two stopped brokers, with a metadata log that says which logs have to be there."""

from __future__ import annotations

from pathlib import Path

from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.meta_properties import MetaProperties, write_meta_properties
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.records import write_metadata_record
from support.logs.log_folders import TIME, batch, write_log

FILES = OsFileSystem()
TOPIC = Uuid(b"t" * 16)
DIRECTORIES = {name: Uuid(name.encode() * 16) for name in "abc"}


class Cluster:
    """Data dirs `a` and `b` of broker 1, `c` of broker 2, and the metadata log in `a`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[object] = []
        for name, directory in DIRECTORIES.items():
            (folder / name).mkdir(parents=True)
            node = 2 if name == "c" else 1
            write_meta_properties(FILES, str(folder / name), MetaProperties("x", node, directory), time_ms=TIME)
            (folder / name / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        self.note(TopicRecord(name="t", topic_id=TOPIC))

    def note(self, record: object, *, at: int = 0) -> None:
        self.records.append((record, at))
        parts = [
            bytes(
                build_batch(
                    [
                        Record(
                            offset,
                            TIME + when,
                            None,
                            write_metadata_record(one, int(isinstance(one, PartitionRecord))),
                            [],
                        )
                    ],  # type: ignore[arg-type]
                    base_offset=offset,
                    partition_leader_epoch=1,
                )
            )
            for offset, (one, when) in enumerate(self.records)
        ]
        self.log("a", "__cluster_metadata-0", *parts, epoch=1, topic_id=None)

    def assign(self, partition: int, *replicas: int, directories: str = "", at: int = 0) -> None:
        said = [DIRECTORIES[name] for name in directories]
        self.note(
            PartitionRecord(
                partition_id=partition,
                topic_id=TOPIC,
                replicas=list(replicas),
                isr=list(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=said,
            ),
            at=at,
        )

    def log(
        self,
        name: str,
        partition: str,
        *parts: bytes,
        epoch: int = 0,
        topic_id: Uuid | None = TOPIC,
    ) -> Path:
        folder = write_log(self.folder / name / partition, *(parts or [batch(0)]))
        (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")
        if topic_id is not None:
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        return folder

    def checkpoint(self, name: str, *partitions: str, file: str = "recovery-point-offset-checkpoint") -> None:
        lines = [f"{partition.rpartition('-')[0]} {partition.rpartition('-')[2]} 0\n" for partition in partitions]
        (self.folder / name / file).write_text(f"0\n{len(lines)}\n{''.join(lines)}")
