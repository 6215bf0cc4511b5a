"""`kafka-log-diff A B --mirror` on clusters of the reference implementation: D mirrors C, fails
over, C mirrors D, and one batch is wrong then.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.logs.golden_vectors import golden_dir, unpacked_stage

from kmirror.cli.log_diff import main
from kmirror.record.record_batch import iter_batches

pytestmark = pytest.mark.skipif(
    not (golden_dir() / "20-reference" / "c6_restart_resume.tar.xz").exists(), reason="no such stage in this folder of vectors"
)


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    code = main([*map(str, arguments), "--mirror"])
    return code, [line for line in capsys.readouterr().out.splitlines()[2:] if not line.startswith("    ")]


def test_after_a_failover_what_was_mirrored_is_the_sources_and_the_reset_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    stage = unpacked_stage("c2_failedover")
    assert main([str(stage / "C"), str(stage / "D")]) == 1, "without --mirror the reset is a difference"
    capsys.readouterr()
    code, lines = lines_of(capsys, stage / "C", stage / "D")
    assert (code, lines[-1]) == (0, "2 partitions: 2 equal")
    assert main([str(stage / "D"), str(stage / "C"), "--mirror"]) == 2
    assert "C has no __mirror_state, so it is not known what it mirrors" in capsys.readouterr().err


def test_after_a_failback_an_own_batch_below_the_mirrored_point_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    stage = unpacked_stage("c6_restart_resume")
    code, lines = lines_of(capsys, stage / "D", stage / "C")
    assert code == 1 and lines[0].startswith("f1-0: equal, ")
    assert lines[2] == "  bytes differ at offset 50: A has a control (MIRROR_PID_RESET) batch, B a data batch"


DAMAGES = {
    "no-reset": (
        "f1-0: different, mirror rule: 1;",
        "mirror rule at offsets 100 to 138: B's own part begins at offset 100 without the MIRROR_PID_RESET",
    ),
    "log-ends": (
        "f1-0: different, mirror rule: 1;",
        "mirror rule at offset 101: B is STOPPED and its log ends at offset 101, without the MIRROR_PID_RESET",
    ),
    "own-batch": (
        "f1-0: different, bytes differ: 1;",
        "bytes differ at offsets 39 to 78: A has a data batch, B a control (MIRROR_PID_RESET) batch",
    ),
    "hole": ("f1-0: different, missing: 1;", "missing at offsets 39 to 78: 1 batch only in A"),
    "no-epochs": ("f1-0: error: ", "has no leader-epoch-checkpoint: where its last mirror epoch 0 ends is not known"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_breaks_a_rule_is_named(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = unpacked_stage("c2_failedover")
    mirror = tmp_path / "D"
    shutil.copytree(stage / "D", mirror)
    log = mirror / "f1-0" / f"{0:020d}.log"
    first, second, third, reset = (bytes(one.memory) for one in iter_batches(log.read_bytes()))
    parts = {
        "no-reset": [first, second, third, (100).to_bytes(8, "big") + first[8:]],
        "log-ends": [first, second, third],
        "own-batch": [first, second[:8] + reset[8:], third, reset],
        "hole": [first, third, reset],
        "no-epochs": [first, second, third, reset],
    }
    log.write_bytes(b"".join(parts[damage]))
    if damage == "no-epochs":
        (mirror / "f1-0" / "leader-epoch-checkpoint").unlink()
    code, lines = lines_of(capsys, stage / "C", mirror, "--topics", "f1")
    assert code == (2 if damage == "no-epochs" else 1)
    assert all(any(words in line for line in lines) for words in DAMAGES[damage]), lines


def test_a_reset_in_an_epoch_of_its_own_is_where_the_own_part_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As this implementation writes it, with what clients wrote behind it."""
    stage = unpacked_stage("c2_failedover")
    mirror = tmp_path / "D"
    shutil.copytree(stage / "D", mirror)
    log = mirror / "f1-0" / f"{0:020d}.log"
    *mirrored, reset = (bytes(one.memory) for one in iter_batches(log.read_bytes()))
    own = (101).to_bytes(8, "big") + mirrored[0][8:]
    log.write_bytes(b"".join([*mirrored, reset[:12] + (1).to_bytes(4, "big") + reset[16:], own[:12] + (1).to_bytes(4, "big") + own[16:]]))
    (mirror / "f1-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 100\n")
    assert lines_of(capsys, stage / "C", mirror)[0] == 0


def test_mirror_does_not_go_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    stage = unpacked_stage("c2_failedover")
    for extra, words in (
        ((stage / "D", "--topics", "nope.*"), "nothing to compare"),
        ((stage / "D" / "f1-0",), "--mirror compares data dirs"),
    ):
        assert main([*map(str, (stage / "C", *extra, "--mirror"))]) == 2
        assert words in capsys.readouterr().err
