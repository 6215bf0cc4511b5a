"""The ledger of campaigns: what was run is known again, after a kill, beside another process, and
not for another program.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from support.tools.child_processes import hear_ctrl_c

from kmirror.cli.kmirror import main
from kmirror.common.errors import KmirrorError
from kmirror.sim import campaign as campaigns
from kmirror.sim.campaign import SeedResult, resume_campaign
from kmirror.sim.ledger import CHUNK_SEEDS, Campaign, Chunk, Ledger, Program, chunks_of, joined, this_program, totals
from tools import keep_ledger

OURS = Program("tree-1", "c0ffee")
OTHER = Program("tree-2", "decade")
STORM = Campaign("storm")


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "folder" / "seeds.jsonl")


def ran(monkeypatch, *, broken: tuple[int, ...] = ()) -> list[int]:
    """Seeds are not run but noted."""
    seen: list[int] = []

    def run_seed(history: str, seed: int, without: tuple[str, ...]) -> SeedResult:
        seen.append(seed)
        texts = ("[isr] at 1.000 s: not equal",) if seed in broken else ()
        return SeedResult(history, seed, texts, (), "hash", 1, 1, 0.5)

    monkeypatch.setattr(campaigns, "run_seed", run_seed)
    return seen


def test_a_campaign_goes_on_where_it_stopped(ledger, monkeypatch):
    seen = ran(monkeypatch, broken=(3,))
    resume_campaign(ledger, OURS, range(10), history="storm")
    resume_campaign(ledger, OURS, range(5, 60), history="storm")
    assert seen == list(range(60))
    assert ledger.done(OURS, STORM) == {seed: "[isr] at 1.000 s: not equal" if seed == 3 else "" for seed in range(60)}


def test_another_program_history_or_ablation_runs_all_seeds(ledger, monkeypatch):
    seen = ran(monkeypatch)
    resume_campaign(ledger, OURS, range(3), history="storm")
    resume_campaign(ledger, OTHER, range(3), history="storm")
    resume_campaign(ledger, OURS, range(3), history="calm")
    resume_campaign(ledger, OURS, range(3), history="storm", without=("min_isr",))
    assert seen == [0, 1, 2] * 4


def test_a_killed_process_leaves_half_a_line_that_is_passed_over(ledger, monkeypatch):
    ran(monkeypatch)
    resume_campaign(ledger, OURS, range(50), history="storm")
    ledger.add(Chunk(OURS, STORM, 50, 99))
    data = ledger.path.read_bytes()
    ledger.path.write_bytes(data[:-40])
    assert sorted(ledger.done(OURS, STORM)) == list(range(50))
    resume_campaign(ledger, OURS, range(100), history="storm")
    assert sorted(ledger.done(OURS, STORM)) == list(range(100))


def test_a_line_that_is_not_ours_is_an_error_that_names_it(ledger):
    ledger.add(Chunk(OURS, STORM, 0, 1))
    with open(ledger.path, "a") as file:
        file.write('{"seed": 1}\n')
    with pytest.raises(KmirrorError, match=r"seeds.jsonl, line 2 is no line of a ledger"):
        list(ledger.chunks())


def test_seeds_that_two_lines_hold_count_once(ledger):
    ledger.add(Chunk(OURS, STORM, 0, 9, {4: "text"}, 2.0))
    ledger.add(Chunk(Program("tree-1", "beef00"), STORM, 5, 14, {}, 2.0))
    (total,) = totals(ledger)
    assert (total.commit, len(total.seeds), total.broken, total.cpu_s) == ("c0ffee, beef00", 15, {4: "text"}, 4.0)


def test_chunks_are_the_same_whatever_is_asked_for():
    assert [number for number, _ in chunks_of(range(CHUNK_SEEDS - 1, 2 * CHUNK_SEEDS + 1))] == [0, 1, 2]
    assert [seeds for _, seeds in chunks_of([1, CHUNK_SEEDS, CHUNK_SEEDS + 7])] == [[1], [CHUNK_SEEDS, CHUNK_SEEDS + 7]]


def _hold_a_chunk(path, number: int, told) -> None:
    with Ledger(path).claims(OURS, STORM) as claims:
        told.send(claims.take(number))
        signal.pause()


def test_a_chunk_that_another_process_has_is_left_to_it_until_it_dies(ledger, monkeypatch):
    seen = ran(monkeypatch)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_hold_a_chunk, args=(ledger.path, 0, there))
    process.start()
    try:
        assert here.poll(30)
        assert here.recv() is True
        skipped: list[int] = []
        resume_campaign(ledger, OURS, range(CHUNK_SEEDS + 1), history="storm", on_skip=skipped.append)
        assert seen == [CHUNK_SEEDS]
        assert skipped == [CHUNK_SEEDS, 0]
    finally:
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    resume_campaign(ledger, OURS, range(CHUNK_SEEDS + 1), history="storm")
    assert sorted(seen) == list(range(CHUNK_SEEDS + 1))


def _git(folder, *arguments: str) -> None:
    named = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *named, *arguments], check=True, capture_output=True)


def test_a_program_is_its_package_not_its_commit(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "a.py").write_text("1")
    bare = this_program(package)
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "one")
    first = this_program(package)
    (tmp_path / "README").write_text("words")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "two")
    second = this_program(package)
    (package / "a.py").write_text("2")
    dirty = this_program(package)
    (package / "a.py").write_text("3")
    assert bare.commit.startswith("version ")
    assert first.key == second.key
    assert first.commit != second.commit
    assert dirty.commit == f"{second.commit}-dirty"
    assert len({first.key, dirty.key, this_program(package).key, bare.key}) == 4


def test_a_room_that_no_seed_runs_is_no_part_of_the_program(tmp_path):
    package = tmp_path / "package"
    for room in ("sim", "spark"):
        (package / room).mkdir(parents=True)
        (package / room / "a.py").write_text("1")
    _git(tmp_path, "init", "-q")
    keys = {}

    def note(state: str) -> None:
        keys[f"{state}, uncommitted"] = this_program(package)
        _git(tmp_path, "add", ".")
        _git(tmp_path, "commit", "-q", "-m", state)
        keys[state] = this_program(package)

    note("first")
    (package / "spark" / "a.py").write_text("2")
    note("a tool changed")
    (package / "sim" / "a.py").write_text("2")
    note("the simulator changed")
    assert keys["a tool changed, uncommitted"] == keys["first"]
    assert keys["a tool changed"].key == keys["first"].key
    assert keys["the simulator changed, uncommitted"].commit.endswith("-dirty")
    assert len({keys[state].key for state in ("first", "the simulator changed", "the simulator changed, uncommitted")}) == 3


def _a_worker_of(parent: int) -> int:
    """A child of `parent` that runs seeds; the other kind tracks resources."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_child = entry.joinpath("stat").read_text().rpartition(")")[2].split()[1] == str(parent)
            if is_child and b"spawn_main" in entry.joinpath("cmdline").read_bytes():
                return int(entry.name)
    raise AssertionError("there is no worker")


class TestCommand:
    def test_resume_says_how_far_it_is_and_summary_all_of_it(self, tmp_path, capsys):
        path = str(tmp_path / "seeds.jsonl")
        arguments = ["sim", "--history", "writes_to_the_mirror", "--jobs", "1", "--resume", "--ledger", path]
        assert main([*arguments, "--seeds", "0..1"]) == 0
        assert "2 of 2 seeds run (2 now), 0 broken" in capsys.readouterr().out
        assert main([*arguments, "--seeds", "0..2"]) == 0
        assert "3 of 3 seeds run (1 now), 0 broken" in capsys.readouterr().out
        assert main([*arguments, "--seeds", "0..0", "--without", "read_only_enforced"]) == 1
        assert "replay: kmirror sim --seed 0 --history writes_to_the_mirror --without read_only_enforced" in capsys.readouterr().out
        assert main(["sim", "--summary", "--ledger", path]) == 0
        told = capsys.readouterr().out
        assert told.splitlines()[0].split() == ["COMMIT", "HISTORY", "CLEAN", "BROKEN", "CPU-S", "SEEDS", "PER", "CPU-S"]
        assert "3 seeds clean, 0 broken" in told

    def test_ctrl_c_lost_the_seeds_of_the_chunk_that_were_run(self, tmp_path):
        """It reaches the workers, too, as in a terminal; a seed that is under way is run to its
        end.
        """
        ledger = Ledger(tmp_path / "seeds.jsonl")
        arguments = ["--seeds", "0..49", "--jobs", "2", "--resume", "--ledger", str(ledger.path), "--json"]
        command = [sys.executable, "-m", "kmirror.cli.kmirror", "sim", "--history", "writes_to_the_mirror", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_ctrl_c
        )
        assert process.stdout is not None and process.stderr is not None
        told = [process.stdout.readline() for _ in range(3)]
        os.killpg(process.pid, signal.SIGINT)
        rest, errors = process.stdout.read(), process.stderr.read()  # (`communicate` would pass over what `readline` has read ahead)
        assert (process.wait(), errors) == (130, "")
        run = {json.loads(line)["seed"] for line in (*told, *rest.splitlines())}
        kept = {seed for chunk in ledger.chunks() for seed in chunk.seeds()}
        assert kept - run in (set(), {max(kept)}), "the last one may have been kept and not told, if Ctrl-C came in between"
        assert {0, 1, 2} <= run <= kept and len(kept) < 50

    def test_a_killed_worker_gave_a_traceback(self, tmp_path):
        """One line instead, and what was run is kept: the same command goes on."""
        ledger = Ledger(tmp_path / "seeds.jsonl")
        arguments = ["--seeds", "0..49", "--jobs", "2", "--resume", "--ledger", str(ledger.path), "--json"]
        command = [sys.executable, "-m", "kmirror.cli.kmirror", "sim", "--history", "writes_to_the_mirror", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stderr is not None
        told = [process.stdout.readline() for _ in range(3)]
        os.kill(_a_worker_of(process.pid), signal.SIGKILL)
        rest, errors = process.stdout.read(), process.stderr.read()
        assert (process.wait(), errors.count("\n")) == (1, 1)
        assert "a worker process was killed" in errors and "the same command continues" in errors
        run = {json.loads(line)["seed"] for line in (*told, *rest.splitlines())}
        assert run == {seed for chunk in ledger.chunks() for seed in chunk.seeds()}
        assert {0, 1, 2} <= run and len(run) < 50

    def test_summary_names_the_seeds_that_broke_a_rule_but_not_those_that_should(self, tmp_path, capsys):
        ledger = Ledger(tmp_path / "seeds.jsonl")
        ledger.add(Chunk(OURS, STORM, 0, 49, {7: "[lost] at 1 s: gone", 3: "[order] at 2 s: swapped"}, 50.0))
        ledger.add(Chunk(OURS, Campaign("storm", ("min_isr",)), 0, 9, {1: "meant to"}, 1.0))
        assert main(["sim", "--summary", "--ledger", str(ledger.path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[3:] == [
            f"seed 3 of storm, {OURS.commit}: [order] at 2 s: swapped",
            "  replay: kmirror sim --seed 3 --history storm",
            f"seed 7 of storm, {OURS.commit}: [lost] at 1 s: gone",
            "  replay: kmirror sim --seed 7 --history storm",
            "48 seeds clean, 2 broken, 50 CPU-s",
        ]

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["--seed", "1", "--resume"], "--resume can only be used with --seeds"),
            (["--seeds", "0..1", "--ledger", "x"], "--ledger can only be used with --resume or --summary"),
            (["--summary", "--ledger", "/proc/self/mem/x"], "Not a directory"),
        ],
    )
    def test_options_that_make_no_sense_are_refused(self, arguments, text, capsys):
        assert main(["sim", *arguments]) == 1
        assert text in capsys.readouterr().err


def test_ledgers_are_joined_each_seed_once(tmp_path):
    """Neighbours become one line; seeds that were run twice count once, and what broke is kept."""
    first, second = Ledger(tmp_path / "first"), Ledger(tmp_path / "second")
    first.add(Chunk(OURS, STORM, 50, 99, {70: "broke"}, 50.0))
    first.add(Chunk(OURS, STORM, 0, 49, {}, 50.0))
    first.add(Chunk(OTHER, STORM, 100, 149, {}, 1.0))
    second.add(Chunk(OURS, STORM, 80, 119, {99: "too", 110: "late"}, 40.0))
    second.add(Chunk(OURS, STORM, 10, 19, {}, 10.0))
    second.add(Chunk(OURS, STORM, 200, 249, {}, 5.0))
    assert joined([first, second]) == [
        Chunk(OURS, STORM, 0, 119, {70: "broke", 99: "too", 110: "late"}, 120.0),
        Chunk(OURS, STORM, 200, 249, {}, 5.0),
        Chunk(OTHER, STORM, 100, 149, {}, 1.0),
    ]


def test_keep_ledger_adds_to_what_is_kept(tmp_path, capsys):
    kept, new = tmp_path / "kept.jsonl", Ledger(tmp_path / "new.jsonl")
    for first in (0, 50):
        new.add(Chunk(OURS, STORM, first, first + 49, {}, 50.0))
        assert keep_ledger.main(["--into", str(kept), str(new.path)]) == 0
    assert kept.read_text().count("\n") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "100 seeds clean, 0 broken, 100 CPU-s"


def test_the_kept_ledger_can_be_read(capsys):
    assert main(["sim", "--summary", "--ledger", str(keep_ledger.KEPT)]) == 0
    assert "no seeds" not in capsys.readouterr().out
