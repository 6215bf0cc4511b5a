"""Replay of the data dirs of the KIP's reference build: what it wrote as Apache does is sound, and
what it got wrong is named.
"""

from __future__ import annotations

import pathlib
import tarfile

import pytest
from support.logs.golden_vectors import golden_dir

from kmirror.runtime.os_files import OsFileSystem
from kmirror.verify.replay.folder import replay_folder

STAGES = sorted(path.name.removesuffix(".tar.xz") for path in (golden_dir() / "20-reference").glob("*.tar.xz"))
DEVIATIONS = {
    "4_failover": {("records", "corrupt")},
    "5_diverged": {("records", "corrupt")},
    "6_failback": {("records", "corrupt"), ("producers", "unexpected"), ("producers", "beyond_end"), ("checkpoints", "beyond_end")},
    "9_readd_damage": {("records", "corrupt"), ("producers", "unexpected")},
    "c2_failedover": {("records", "corrupt")},
    "c3_diverged": {("records", "corrupt")},
    "c4_failback": {("records", "corrupt")},
    "c5_after": {("records", "corrupt")},
    "c6_restart_resume": {("records", "corrupt")},
}
"""Its bumps of leader epochs are PartitionChangeRecords with a field that Kafka's reader of that
version refuses. A copy that took over the source's MIRROR_PID_RESET in a failback keeps the
producers from before it in its snapshots; one whose reset was cut off keeps snapshot and
checkpoint.
"""


@pytest.mark.parametrize("stage", STAGES)
def test_what_the_reference_wrote(tmp_path: pathlib.Path, stage: str) -> None:
    with tarfile.open(golden_dir() / "20-reference" / f"{stage}.tar.xz") as tar:
        # not the indexes of open segments, which are 10 MB of zeros each
        tar.extractall(tmp_path, members=[member for member in tar if member.size < 1 << 20], filter="data")
    tables = replay_folder(OsFileSystem(), str(tmp_path / stage))
    assert {(finding.table, finding.kind) for finding in tables.findings} == DEVIATIONS.get(stage, set())
    assert all(row.is_legal for row in tables.mirror_states) and tables.mirror_states
    assert {row.event for row in tables.topics} >= {"created", "mirror.name"}
