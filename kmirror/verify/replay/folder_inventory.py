"""The inventory of folders whose logs are not replayed: `kafka-log-diff` compares logs, and says of the
set of them what `verify-logs` says.

Only records about topics are read here, so the newest of them counts as a running cluster's newest:
what it changed may be about to be followed.
"""

from __future__ import annotations

from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.verify.planner import Listing
from kmirror.verify.replay.data_dir_ids import identity_findings
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.folder import clusters_of, data_dirs_of
from kmirror.verify.replay.inventory import Inventory
from kmirror.verify.replay.timelines import read_timelines


def folder_inventory(files: FileSystem, listing: Listing) -> tuple[list[Finding], list[str]]:
    """Returns (findings about the set of logs in an input of any clusters, what is not known)."""
    findings, unseen = identity_findings(files, listing)
    for cluster in clusters_of(files, listing):
        timelines = read_timelines(files, cluster, only=(CLUSTER_METADATA_TOPIC_NAME,))
        rows = (*timelines.topics, *timelines.assignments)
        newest_ms = max((row.record_timestamp for row in rows), default=-1)
        inventory = Inventory(files, cluster, timelines, data_dirs_of(files, cluster), newest_ms=newest_ms)
        findings += inventory.findings()
        unseen += inventory.unseen
    return findings, list(dict.fromkeys(unseen))
