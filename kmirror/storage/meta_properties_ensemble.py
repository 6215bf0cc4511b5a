"""The `meta.properties` of all directories of a node, checked together before the node starts
anything (Kafka's `MetaPropertiesEnsemble`).

    readable          must be of one cluster and of this node, and no two may have the same id; one
                      without `directory.id` is given an id
    not there         the directory was never formatted, or is not the one it was (emptied, removed,
                      not mounted): the node does not start. Otherwise its replicas would be created
                      anew in a directory without an id, which the controller never hears of
    no sense          the node does not start either, because nobody knows whose directory it is
                      (Kafka: "node ID not found")
    not readable      in the metadata log dir the node does not start; another directory goes
                      offline, and the node goes on without it

Messages begin with Kafka's text, and go on with what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from kmirror.common.errors import ConfigError, KmirrorError, disk_error_text
from kmirror.common.ports import Clock, FileSystem, Random
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.storage.meta_properties import (
    RESERVED_DIRECTORY_IDS,
    MetaProperties,
    meta_properties_path,
    random_directory_id,
    read_meta_properties,
    write_meta_properties,
)

_LOGGER: Final = logging.getLogger(__name__)


class MetaPropertiesEnsemble:
    """What the files of all directories say. `errors` has the directories whose file cannot be
    read.
    """

    def __init__(self, metadata_log_dir: str, log_dirs: Sequence[str]) -> None:
        self.metadata_log_dir = metadata_log_dir
        self.log_dirs = list(dict.fromkeys((metadata_log_dir, *log_dirs)))
        self.properties: dict[str, MetaProperties] = {}
        self.empty: list[str] = []
        self.errors: dict[str, Exception] = {}

    @classmethod
    def load(cls, files: FileSystem, metadata_log_dir: str, log_dirs: Sequence[str]) -> MetaPropertiesEnsemble:
        """Reads every directory's file, without judging it."""
        ensemble = cls(metadata_log_dir, log_dirs)
        for log_dir in ensemble.log_dirs:
            try:
                properties = read_meta_properties(files, log_dir)
            except (OSError, KmirrorError) as error:
                _LOGGER.error("Error while reading meta.properties file %s: %s", meta_properties_path(log_dir), disk_error_text(error))
                ensemble.errors[log_dir] = error
                continue
            if properties is None:
                ensemble.empty.append(log_dir)
            else:
                ensemble.properties[log_dir] = properties
        return ensemble

    def verify(self, files: FileSystem, *, node_id: int, keeps_metadata: bool) -> MetaProperties:
        """Checks all directories and returns the metadata log dir's properties.

        ConfigError if the node must not start. `keeps_metadata`: the node is a controller.
        """
        error = self.errors.get(self.metadata_log_dir)
        if error is not None:
            raise ConfigError(
                f"Encountered I/O error in metadata log directory {self.metadata_log_dir}. Cannot continue. {disk_error_text(error)}"
            )
        for broken in self.errors.values():
            if isinstance(broken, KmirrorError):
                raise ConfigError(f"{broken}. Restore the file; the other directories' are alike but for directory.id")
        if not self.properties:
            raise ConfigError(f"No readable meta.properties files found in {', '.join(self.log_dirs)}: format them first (kmirror format)")
        self._check_belonging(node_id)
        self._check_directory_ids()
        self._check_place_of_metadata(files)
        if self.empty:
            raise ConfigError(self._missing(self.empty[0], keeps_metadata=keeps_metadata))
        return self.properties[self.metadata_log_dir]

    def _check_belonging(self, node_id: int) -> None:
        cluster_id: str | None = None
        for log_dir, properties in sorted(self.properties.items()):
            path = meta_properties_path(log_dir)
            if properties.cluster_id is not None:
                cluster_id = cluster_id or properties.cluster_id
                if properties.cluster_id != cluster_id:
                    raise ConfigError(f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {properties.cluster_id}")
            if properties.node_id is not None and properties.node_id != node_id:
                raise ConfigError(
                    f"Stored node id {properties.node_id} doesn't match previous node id {node_id} in {path}. If you moved your data, "
                    "make sure your configured node id matches. If you intend to create a new node, you should remove all data in "
                    "your data directories."
                )
            for what, value in (("node ID", properties.node_id), ("cluster ID", properties.cluster_id)):
                if value is None:
                    raise ConfigError(f"Error: {what} not found in {log_dir}")

    def _check_directory_ids(self) -> None:
        seen: dict[Uuid, str] = {}
        for log_dir, properties in sorted(self.properties.items()):
            directory_id = properties.directory_id
            if directory_id is None:
                continue
            if int.from_bytes(directory_id.raw, "big") < RESERVED_DIRECTORY_IDS:
                raise ConfigError(f"Invalid reserved directory ID {directory_id} found in {log_dir}")
            if directory_id in seen:
                raise ConfigError(
                    f"Duplicate directory ID {directory_id} found. It was the ID of {seen[directory_id]}, but also of {log_dir}. "
                    "If both are one directory (by a symbolic link), or one is a copy of the other, take one of them out of log.dirs."
                )
            seen[directory_id] = log_dir

    def _check_place_of_metadata(self, files: FileSystem) -> None:
        for log_dir in self.properties:
            folder = f"{log_dir}/{CLUSTER_METADATA_TOPIC_NAME}-0"
            if log_dir != self.metadata_log_dir and files.exists(folder):
                raise ConfigError(
                    f"Found unexpected metadata location in data directory `{folder}` "
                    f"(the configured metadata directory is {self.metadata_log_dir})."
                )

    def _missing(self, log_dir: str, *, keeps_metadata: bool) -> str:
        problem = f"No `meta.properties` found in {log_dir} (have you run `kafka-storage.sh` to format the directory?). "
        if keeps_metadata and log_dir == self.metadata_log_dir:
            return problem + (
                "If its disk is not mounted, mount it. If its data is lost, so is the cluster's metadata: restore the directory from a "
                "backup. Do not format it: the cluster would begin empty, and call the data of every topic -stray."
            )
        cluster_id = next((known.cluster_id for known in self.properties.values() if known.cluster_id), "ID")
        return problem + (
            f"If its disk is not mounted, mount it. If its data is lost: kmirror format --ignore-formatted --cluster-id {cluster_id} "
            "--config FILE, and start again; its replicas are then copied from their leaders."
        )

    def complete(self, files: FileSystem, clock: Clock, random: Random) -> None:
        """Gives an id to each directory that was formatted before directories had ids, as Kafka
        does.
        """
        for log_dir, properties in list(self.properties.items()):
            if properties.directory_id is None:
                self.properties[log_dir] = replace(properties, directory_id=random_directory_id(random), version=1)
                _LOGGER.info("Rewriting %s with a directory id", meta_properties_path(log_dir))
                try:
                    write_meta_properties(files, log_dir, self.properties[log_dir], time_ms=clock.time_ms())
                except OSError as error:
                    _LOGGER.error("Error while writing meta.properties to %s: %s", log_dir, error)
                    if log_dir == self.metadata_log_dir:
                        raise
