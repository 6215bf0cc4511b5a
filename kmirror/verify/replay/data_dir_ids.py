"""Whose the data dirs of an input are, by `meta.properties`, and where that cannot be true.

Data dirs that are given at once may be of several brokers and clusters. But a `directory.id` names
one directory: two with the same id are a directory and its copy. And a node has one metadata log:
two directories of one node that both have it are of two nodes with the same `node.id`, or copies.
Data dirs of different clusters are judged by themselves, and that is said: it may be one cluster
with a directory of another.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.storage.meta_properties import META_PROPERTIES_FILE_NAME, MetaProperties, read_meta_properties
from kmirror.verify.planner import Listing
from kmirror.verify.replay.findings import Finding


def identity_findings(files: FileSystem, listing: Listing) -> tuple[list[Finding], list[str]]:
    """Returns (findings about clashing ids, what is not known of whose the directories are)."""
    if listing.is_one_partition:
        return [], []
    known: dict[str, MetaProperties] = {}
    unseen = []
    for folder, names in listing.data_dir_files.items():
        try:
            found = read_meta_properties(files, folder) if META_PROPERTIES_FILE_NAME in names else None
        except (KmirrorError, OSError) as error:
            unseen.append(f"whose {folder} is ({error})")
            continue
        if found is not None:
            known[folder] = found
    without = len(listing.data_dir_files) - len(known) - len(unseen)
    if without and known:
        unseen.append(f"whose {without} data dirs without {META_PROPERTIES_FILE_NAME} are")
    unseen += _clusters(known)
    return [*_same_directory(known), *_same_node(listing, known)], unseen


def _clusters(known: Mapping[str, MetaProperties]) -> Iterator[str]:
    folders: dict[str, list[str]] = {}
    for folder, found in known.items():
        if found.cluster_id is not None:
            folders.setdefault(found.cluster_id, []).append(posixpath.basename(folder) or folder)
    if len(folders) > 1:
        named = "; ".join(f"cluster {cluster} has {', '.join(names)}" for cluster, names in folders.items())
        yield f"whether data dirs of {len(folders)} clusters belong together, each of which was judged by itself ({named})"


def _same_directory(known: Mapping[str, MetaProperties]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for folder, found in known.items():
        if found.directory_id is None:
            continue
        other = seen.setdefault(str(found.directory_id), folder)
        if other != folder:
            text = f"directory.id {found.directory_id} is that of {other}, too: one is a copy of the other"
            yield _finding("directory_id", folder, text)


def _same_node(listing: Listing, known: Mapping[str, MetaProperties]) -> Iterator[Finding]:
    metadata = {posixpath.dirname(one.path) for one in listing.partitions if one.topic_partition.topic == CLUSTER_METADATA_TOPIC_NAME}
    seen: dict[tuple[str | None, int], str] = {}
    for folder, found in known.items():
        if found.node_id is None or folder not in metadata:
            continue
        other = seen.setdefault((found.cluster_id, found.node_id), folder)
        if other != folder:
            text = f"node.id {found.node_id} is that of {other}, too, and both have a metadata log: a node has one"
            yield _finding("node_id", folder, text)


def _finding(kind: str, folder: str, text: str) -> Finding:
    path = f"{folder}/{META_PROPERTIES_FILE_NAME}"
    return Finding(folder, posixpath.basename(folder), -1, "inventory", kind, path, None, None, None, None, text)
