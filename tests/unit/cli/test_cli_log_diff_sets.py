"""`kafka-log-diff` of sets of logs that are not whole: what a script sees that looks at the exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.logs.inventory_cluster import TOPIC, Cluster

from kmirror.cli.log_diff import main
from kmirror.common.uuid import Uuid
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord

NOT_ALL = "but not all that should be compared was"


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Cluster, Cluster]:
    """Two equal clusters: t-0 on brokers 1 and 2, t-1 on broker 1."""
    made = []
    for name in ("north", "south"):
        cluster = Cluster(tmp_path / name)
        cluster.assign(0, 1, 2)
        cluster.assign(1, 1)
        cluster.log("a", "t-0")
        cluster.log("c", "t-0")
        cluster.log("b", "t-1")
        made.append(cluster)
    return made[0], made[1]


class Said:
    def __init__(self, capsys: pytest.CaptureFixture[str], sides: tuple[Cluster, Cluster], *more: str) -> None:
        given = [*(str(side.folder) for side in sides), *more]
        capsys.readouterr()
        self.code = main(given)
        self.text = capsys.readouterr().out
        self.last = self.text.splitlines()[-1]
        main([*given, "--json"])
        self.report: dict[str, Any] = json.loads(capsys.readouterr().out)

    def found(self, side: int) -> list[str]:
        return [text.partition(":")[0] for text in self.report["sets"][side]["findings"]]

    def warned(self, side: int) -> list[str]:
        return [text.partition(":")[0] for text in self.report["sets"][side]["warnings"]]


def test_equal_sets_are_equal(sides: tuple[Cluster, Cluster], capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, sides)
    assert (said.code, said.last, said.report["status"]) == (0, "4 partitions: 4 equal", "equal"), said.text


def lost_replica(south: Cluster) -> None:
    shutil.rmtree(south.folder / "c" / "t-0")


def emptied(south: Cluster) -> None:
    for path in (south.folder / "c" / "t-0").iterdir():
        path.unlink()


def renamed(south: Cluster) -> None:
    (south.folder / "b" / "t-old").mkdir()


def second_log(south: Cluster) -> None:
    south.log("b", "t-0")


def other_id(south: Cluster) -> None:
    south.log("b", "t-1", topic_id=Uuid(b"o" * 16))


def unknown_there(south: Cluster) -> None:
    south.note(RemoveTopicRecord(topic_id=TOPIC))


DAMAGE = [
    (lost_replica, ["missing"]),
    (emptied, ["empty"]),
    (renamed, ["name"]),
    (second_log, ["twice"]),
    (other_id, ["topic_id"]),
    (unknown_there, ["nobodys", "nobodys"]),
]


@pytest.mark.parametrize(("damage", "kinds"), DAMAGE)
def test_a_script_that_looks_at_the_exit_code_was_told_no_differences(
    sides: tuple[Cluster, Cluster],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    damage: Callable[[Cluster], None],
    kinds: list[str],
) -> None:
    damage(sides[1])
    said = Said(capsys, sides, "--report", str(tmp_path / "report.html"))
    assert (said.code, said.found(0), said.found(1)) == (1, [], kinds), said.text
    assert NOT_ALL in said.last and said.last.endswith(f"(set incomplete: {len(kinds)})")
    assert (said.report["status"], said.report["difference_counts"]) == ("different", {"set-incomplete": len(kinds)})
    page = (tmp_path / "report.html").read_text()
    assert "What was compared is equal, but not all that should be compared was." in page
    ignored = Said(capsys, sides, "--ignore", "set-incomplete")
    assert (ignored.code, ignored.report["status"], ignored.found(1)) == (0, "equal", kinds)
    assert NOT_ALL not in ignored.last and ignored.last.endswith(f"; not counted: set incomplete: {len(kinds)}")


def test_what_is_nobodys_business_is_a_warning(sides: tuple[Cluster, Cluster], capsys: pytest.CaptureFixture[str]) -> None:
    """A leftover on a broker that is no replica, and one that both clusters have forgotten."""
    south = sides[1]
    (south.folder / "b" / "notes.txt").write_text("a file\n")
    south.log("c", "t-1")
    for side in sides:
        side.log("b", "gone-0", topic_id=None)
    said = Said(capsys, sides)
    assert (said.code, said.found(0), said.found(1)) == (0, [], []), said.text
    assert (said.warned(0), said.warned(1)) == (["nobodys"], ["nobodys", "nobodys"])
    assert "set of B: 3 partitions, 2 warnings\n  warning, nobodys: " in said.text
    assert NOT_ALL not in said.last


def test_only_what_was_asked_for_counts(sides: tuple[Cluster, Cluster], capsys: pytest.CaptureFixture[str]) -> None:
    lost_replica(sides[1])
    renamed(sides[1])
    assert Said(capsys, sides, "--partitions", "1").code == 0
    said = Said(capsys, sides, "--partitions", "0")
    assert (said.code, said.found(1), said.warned(1)) == (1, ["missing"], ["name"])
    said = Said(capsys, sides, "--partitions", "0", "--no-replicas")
    assert (said.code, said.warned(1)) == (0, ["name", "missing"]), "another replica was compared"
