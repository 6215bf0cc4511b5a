"""Our controller takes over metadata directories that Apache Kafka 4.3.0 left: same image, next
epoch, same files.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import shutil

import pytest
from support.logs.golden_vectors import golden_dir

from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.quorum_controller import QuorumController
from kmirror.metadata.loader import MetadataLoader
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.meta_properties import read_meta_properties

RUN = [case for case in sorted(golden_dir().glob("09-metadata-*")) if (case / "logs").is_dir()]
FORMATTED = [
    case
    for case in sorted(golden_dir().glob("09-metadata-*-formatted"))
    if (golden_dir() / case.name.removesuffix("-formatted") / "logs").is_dir()
]
LOG = "__cluster_metadata-0/00000000000000000000.log"


def controller_on(directory: pathlib.Path, case: pathlib.Path) -> QuorumController:
    top = next(path for path in (case / "data", case / "top", case / "top.after") if path.is_dir())
    properties = read_meta_properties(OsFileSystem(), str(top))
    assert properties is not None
    config = ControllerConfig(
        node_id=properties.node_id,
        cluster_id=properties.cluster_id,
        metadata_log_dir=str(directory),
        metadata_max_idle_interval_ms=0,
    )
    return QuorumController(config, AsyncioRuntime())


def is_dynamic(case: pathlib.Path) -> bool:
    return "controller.quorum.voters=" not in (case / "broker.properties").read_text()


def make_writable(directory: pathlib.Path) -> None:
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("case", RUN, ids=lambda case: case.name)
def test_a_metadata_log_of_apaches_goes_on(case: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copytree(case / "logs/__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    make_writable(tmp_path)
    theirs = (tmp_path / LOG).read_bytes()
    expected = MetadataLoader()
    expected.handle_commit(theirs)
    state = json.loads((tmp_path / "__cluster_metadata-0/quorum-state").read_text())

    async def run() -> None:
        controller = controller_on(tmp_path, case)
        await controller.start()
        image = controller.image
        assert controller.epoch == state["leaderEpoch"] + 1
        for part in ("topics", "configs", "features", "acls", "scram", "client_quotas", "next_producer_id"):
            assert getattr(image, part) == getattr(expected.image, part), part
        assert image.cluster.brokers == expected.image.cluster.brokers
        assert controller.log.kraft_version == (1 if is_dynamic(case) else 0)
        await controller.stop()

    asyncio.run(run())
    ours = (tmp_path / LOG).read_bytes()
    assert ours[: len(theirs)] == theirs, "what Apache wrote stays as it is"
    after = json.loads((tmp_path / "__cluster_metadata-0/quorum-state").read_text())
    assert after == state | {"leaderEpoch": state["leaderEpoch"] + 1}


@pytest.mark.parametrize("case", FORMATTED, ids=lambda case: case.name)
def test_the_first_epoch_says_what_apaches_first_epoch_says(case: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Started on a directory that Apache formatted, our first batches are Apache's, but for times:
    the log of the same case shows them.
    """
    shutil.copytree(case / "data", tmp_path / "data")
    make_writable(tmp_path)

    async def run() -> None:
        controller = controller_on(tmp_path / "data", case)
        await controller.start()
        await controller.stop()

    asyncio.run(run())
    ours = list(iter_batches((tmp_path / "data" / LOG).read_bytes()))
    started = case.parent / case.name.removesuffix("-formatted") / "logs" / LOG
    theirs = list(iter_batches(started.read_bytes()))
    for mine, his in zip(ours[:2], theirs[:2], strict=True):
        assert (mine.base_offset, mine.last_offset, mine.partition_leader_epoch) == (
            his.base_offset,
            his.last_offset,
            his.partition_leader_epoch,
        )
        assert mine.is_control == his.is_control
        assert [bytes(record.value or b"") for record in mine.records()] == [bytes(record.value or b"") for record in his.records()]
    kinds = [ControlRecordType.parse(record.key).name for record in ours[0].records()]
    assert kinds == (["LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS"] if is_dynamic(case) else ["LEADER_CHANGE"])
