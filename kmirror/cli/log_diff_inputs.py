"""The inputs of `kafka-log-diff`, as one kind: local and remote folders, and live clusters.

Live clusters are in `log_diff_live`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Final, Protocol

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.os_files import OsFileSystem
from kmirror.verify.compared_log import ComparedLog, DirectoryLog
from kmirror.verify.data_dir_logs import chosen_replica, open_folder
from kmirror.verify.planner import list_input
from kmirror.verify.replay.claims import has_grown
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.folder_inventory import folder_inventory

LIVE_PREFIX: Final = "bootstrap:"


class LogInput(Protocol):
    """One of the two inputs, A or B."""

    @property
    def name(self) -> str: ...

    @property
    def is_single(self) -> bool:
        """Whether it is one partition's folder, which is compared whatever its name is."""
        ...

    @property
    def names(self) -> list[TopicPartition]: ...

    def log(self, name: TopicPartition) -> ComparedLog: ...

    def inventory(self) -> tuple[list[Finding], list[str]]:
        """Returns (what is wrong with the set of logs, what of it is not known)."""
        ...

    def is_chosen(self, name: TopicPartition, log: str) -> bool:
        """Whether `log`, as a finding of the inventory has it, is compared with the other side."""
        ...

    def close(self) -> None: ...


class FolderInput:
    """A folder, local or remote."""

    def __init__(self, path: str, location: str | None = None) -> None:
        self.name = path
        """As the user gave it."""
        self.location = location or path
        """By which it is opened, here and in Spark's tasks."""
        self.files, self.path = open_location(self.location)
        """The file system, and the path on it."""
        logs, self.is_single = open_folder(self.files, self.path)
        copies: dict[TopicPartition, list[DirectoryLog]] = {}
        for log in logs:
            copies.setdefault(log.topic_partition, []).append(log)
        self.logs: Mapping[TopicPartition, DirectoryLog] = {name: chosen_replica(found) for name, found in copies.items()}
        """One replica of each partition: the one that is compared with the other side."""
        self.replicas = {name: [log for log in found if log is not self.logs[name]] for name, found in copies.items()}
        """The other replicas."""

    @property
    def names(self) -> list[TopicPartition]:
        return sorted(self.logs)

    @property
    def all_logs(self) -> list[DirectoryLog]:
        """Returns all replicas."""
        return [log for name, chosen in self.logs.items() for log in (chosen, *self.replicas[name])]

    def log(self, name: TopicPartition) -> DirectoryLog:
        return self.logs[name]

    def as_tasks_see_it(self) -> FolderInput:
        """Returns the input with paths that mean the same in a task's folder as in this one."""
        location = absolute_location(self.location)
        return self if location == self.location else FolderInput(self.name, location)

    def has_grown(self, folder: str) -> bool:
        """Whether a broker has appended to the log in `folder` since the folder was listed."""
        return any(log.name == folder and has_grown(self.files, log.partition) for log in self.all_logs)

    def inventory(self) -> tuple[list[Finding], list[str]]:
        return folder_inventory(self.files, list_input(self.files, self.path))

    def is_chosen(self, name: TopicPartition, log: str) -> bool:
        return name in self.logs and self.logs[name].name == log

    def close(self) -> None:
        """Does nothing: nothing is held open."""


def is_live(text: str) -> bool:
    return text.startswith(LIVE_PREFIX)


def is_remote(text: str) -> bool:
    """Whether it is a URI (`s3://bucket/dir`) and not a path."""
    return "://" in text and not is_live(text)


def is_hadoop(text: str) -> bool:
    """Whether Hadoop's client reads it, with the settings of a Spark session if there is one."""
    return text.partition("://")[0].lower() in ("hdfs", "viewfs") and is_remote(text)


def absolute_location(location: str) -> str:
    """Returns a path as it is in every folder; a URI as it is. A task of Spark works in a folder of
    its own, where a relative path would be something else."""
    return location if is_remote(location) else os.path.abspath(location)


def spark_is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("pyspark", "pyarrow"))


def open_location(location: str) -> tuple[FileSystem, str]:
    """Returns (file system, path on it) for a path or URI.

    KmirrorError for a URI that cannot be read here.
    """
    if not is_remote(location):
        return OsFileSystem(), location
    if importlib.util.find_spec("pyarrow") is None:
        raise KmirrorError(f"{location} is remote, and reading that needs pyarrow; install kmirror[spark]")
    from kmirror.spark.files import file_system_for

    return file_system_for(location)


def open_input(text: str, *, include_internal: bool) -> LogInput:
    """Open A or B as it was given. KmirrorError if there is no such thing."""
    if not is_live(text):
        return FolderInput(text)
    from kmirror.cli.log_diff_live import LiveInput

    return LiveInput(text, include_internal=include_internal)
