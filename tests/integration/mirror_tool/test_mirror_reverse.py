"""`kafka-mirrors --reverse`: failover and failback as one operation that goes on where it ended,
and what it refuses.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import subprocess
import sys

import pytest
from confluent_kafka import Producer
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    kafka_mirrors,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    quiet,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.mirrors.mirror_pair import Pair, Run, assert_equal_everywhere, commit, mirrored_topic, values_on
from support.waiting import REACHED_S

from kmirror.cli.mirrors_reverse import STEPS, Reversal
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security


def test_reverse_there_and_back(pair: Pair, run: Run) -> None:
    a, b = pair
    mirrored_topic(pair, "there")
    commit(b, "ahead", "there", 99)
    code, out, err = run(b, "--reverse", "--mirror", "there")
    assert code == 0 and "group ahead has committed offset 99 of there-0, beyond its end 31" in err
    assert [line.split("]")[0] for line in out.splitlines()[:7]] == [f"[{step}/7" for step in range(1, 8)]
    assert out.splitlines()[-1] == "Reversed mirror there: [there]"
    produce(b.bootstrap_servers, "there", numbered("at-b", 10))
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "there")
    assert_equal_everywhere(pair, "there-0", "there-1")
    code, out, _ = run(b, "--reverse", "--mirror", "there")
    assert code == 0 and out.count("is done") == 4, "given again it finds everything done"
    code, out, _ = run(a, "--reverse", "--mirror", "there", "--json")
    assert code == 0 and [step["step"] for step in json.loads(out)["steps"]] == list(STEPS)
    assert produce(a.bootstrap_servers, "there", numbered("at-a", 5)) == []
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "there")
    assert_equal_everywhere(pair, "there-0", "there-1")
    assert len(values_on(b, "there-0")) == 45


@pytest.mark.parametrize("step", [2, 3, 5, 6])
def test_reverse_goes_on_where_it_was_killed(pair: Pair, run: Run, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Killed as it begins `step`, the same command does the rest; nothing is lost on either side."""
    a, b = pair
    name = f"killed-{step}"
    mirrored_topic(pair, name)
    say = Reversal._say

    def killed(self: Reversal, number: int, text: str) -> None:
        say(self, number, text)
        if number == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Reversal, "_say", killed)
        assert run(b, "--reverse", "--mirror", name)[0] == 130
    assert run(b, "--reverse", "--mirror", name)[0] == 0
    produce(b.bootstrap_servers, name, numbered("at-b", 5))
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, name)
    assert len(values_on(a, f"{name}-0")) == 35
    assert_equal_everywhere(pair, f"{name}-0")


def test_reverse_killed_again_and_again_ends_where_it_should(pair: Pair) -> None:
    """SIGKILL after a random time, over and over: once it is through, both clusters have
    everything.
    """
    a, b = pair
    mirrored_topic(pair, "sigkill")
    command = [sys.executable, "-m", "kmirror.cli.mirrors", "--bootstrap-server", b.bootstrap_servers, "--reverse", "--mirror", "sigkill"]
    chance = random.Random(7)
    kills = 0
    for _ in range(12):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=chance.uniform(0.2, 0.9) if kills < 4 else 40)
            assert process.returncode == 0, err
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
    assert kills > 0 and out.splitlines()[-1] == "Reversed mirror sigkill: [sigkill]"
    produce(b.bootstrap_servers, "sigkill", numbered("at-b", 5))
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "sigkill")
    assert_equal_everywhere(pair, "sigkill-0", "sigkill-1")
    assert len(values_on(a, "sigkill-0")) == 35


def test_reverse_refuses_to_drop_what_was_written_to_the_old_source(pair: Pair, run: Run) -> None:
    """The dry run names it, --force lets exactly that go."""
    a, b = pair
    mirrored_topic(pair, "late")
    assert run(b, "--remove", "--mirror", "late", "--topic", "late", "--wait")[0] == 0
    produce(a.bootstrap_servers, "late", numbered("late", 7))
    code, _, err = run(b, "--reverse", "--mirror", "late")
    assert code == 1 and "would drop 7 record(s): late-0 from offset 30" in err
    code, out, _ = run(b, "--reverse", "--mirror", "late", "--dry-run", "--force", "--json")
    dropped = {row["partition"]: row["droppedRecords"] for row in json.loads(out)["dropped"]}
    assert code == 0 and dropped == {0: 7, 1: 0}
    before = values_on(a, "late-0")
    code, out, _ = run(b, "--reverse", "--mirror", "late", "--force")
    assert code == 0 and "the old source drops 7 record(s): late-0 from offset 30" in out
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "late")
    assert_equal_everywhere(pair, "late-0")
    assert sorted(before.keys() - values_on(a, "late-0").keys()) == list(range(30, 37))


def test_a_dry_run_of_reverse_changes_nothing_and_shows_the_plan(pair: Pair, run: Run) -> None:
    a, b = pair
    mirrored_topic(pair, "plan")
    code, out, _ = run(b, "--reverse", "--mirror", "plan", "--dry-run")
    assert code == 0
    assert "[2/7] fail over: 1 topic(s): [plan]" in out and "what the old source drops:" in out
    assert {row.state for row in partitions_of(b.bootstrap_servers, "plan")} == {"MIRRORING"}
    assert "plan" not in kafka_mirrors(a.bootstrap_servers, "--list")


def test_reverse_of_a_dead_source_is_finished_when_it_is_back(run: Run) -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("t", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        a.kill_node()
        assert run(b, "--reverse", "--mirror", "m")[0] == 1, "graceful needs the source"
        code, _, err = run(b, "--reverse", "--mirror", "m", "--force", "--timeout", "20000")
        assert code == 2 and "give the same command again when it is back" in err
        assert produce(b.bootstrap_servers, "t", numbered("b", 5)) == []
        a.start_node()
        assert run(b, "--reverse", "--mirror", "m", "--force")[0] == 0
        wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
        assert log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0")


def test_reverse_failed_over_what_cannot_be_mirrored_back(one_and_one: Pair, run: Run) -> None:
    """A topic that has another id at the old source would be FAILED there."""
    a, b = one_and_one
    for cluster in one_and_one:
        create_topic(cluster.bootstrap_servers, "twice")
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "twice", "--force")
    wait_state(b.bootstrap_servers, "m", "FAILED")
    for more in ([], ["--dry-run"]):
        code, _, err = run(b, "--reverse", "--mirror", "m", "--force", *more)
        assert code == 1 and "[twice] of the source was made anew and has another id" in err
    assert [row.state for row in partitions_of(b.bootstrap_servers, "m")] == ["FAILED"]
    call(a.bootstrap_servers, lambda admin: admin.delete_topics(["twice"])).all()
    code, out, _ = run(b, "--reverse", "--mirror", "m", "--force")
    assert code == 0 and out.endswith("Reversed mirror m: [twice]\n")


def test_a_ring_over_three_clusters_is_refused(tmp_path: pathlib.Path, run: Run) -> None:
    """A -> B -> C -> A would empty all three logs.

    PREPARING sees only rings of two (C34), so the tool follows the chain.
    """
    with contextlib.ExitStack() as stack:
        clusters = [stack.enter_context(EmbeddedCluster(mirroring=True, config=FAST_MIRROR)) for _ in range(3)]
        create_topic(clusters[0].bootstrap_servers, "t")
        produce(clusters[0].bootstrap_servers, "t", numbered("a", 10))
        for source, destination, code in ((0, 1, 0), (1, 2, 0), (2, 0, 1)):
            config = tmp_path / f"{source}.properties"
            config.write_text(f"bootstrap.servers={clusters[source].bootstrap_servers}\n")
            assert run(clusters[destination], "--create", "--mirror", f"from-{source}", "--mirror-config", str(config))[0] == 0
            wait = [] if code else ["--wait"]
            got, _, err = run(clusters[destination], "--add", "--mirror", f"from-{source}", "--topic", "t", *wait)
            assert got == code, err
        assert "ring of mirrors" in err and all(cluster.cluster_id in err for cluster in clusters)
        assert len(log_bytes(clusters[0].log_dir(), "t-0")) > 0


def test_a_ring_that_cannot_be_ruled_out_is_refused_unless_forced(tmp_path: pathlib.Path, run: Run) -> None:
    """C mirrors the topic from B, which mirrors it from A: with A down, nobody knows that A is not
    behind C's own source.
    """
    with contextlib.ExitStack() as stack:
        a, b, c = [stack.enter_context(EmbeddedCluster(mirroring=True, config=FAST_MIRROR)) for _ in range(3)]
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 10))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t", "--wait")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        a.kill_node()
        create_mirror(c.bootstrap_servers, "m", b.bootstrap_servers)
        code, _, err = run(c, "--add", "--mirror", "m", "--topic", "t")
        assert (
            code == 1
            and f"{b.cluster_id} mirrors some of these topics from a cluster that cannot be asked" in err
            and "--force adds them all the same" in err
        )
        assert run(c, "--add", "--mirror", "m", "--topic", "t", "--force", "--wait")[0] == 0
        wait_for("the log", lambda: log_bytes(c.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0") != b"")


def test_reverse_with_a_secured_source(run: Run, tmp_path: pathlib.Path) -> None:
    """A asks for a password, B does not; the other way round the tool asks how A gets into B before
    it changes anything.
    """
    users = {"mirror": "mirror-secret"}
    with (
        EmbeddedCluster(mirroring=True, security=Security.sasl_plaintext(users), config=FAST_MIRROR) as a,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b,
    ):
        producer = Producer(quiet(a.client_properties("mirror")))
        producer.produce("t", b"a")
        assert producer.flush(REACHED_S) == 0
        login = tmp_path / "a.properties"
        login.write_text("".join(f"{name}={value}\n" for name, value in a.client_properties("mirror", style="java").items()))
        to_a = ["--mirror-config", str(login)]
        assert run(b, "--create", "--mirror", "m", *to_a)[0] == 0
        assert run(b, "--add", "--mirror", "m", "--topic", "t", *to_a, "--wait")[0] == 0
        code, _, err = run(b, "--reverse", "--mirror", "m", *to_a)
        assert code == 0, err
        produce(b.bootstrap_servers, "t", numbered("b", 3))
        wait_for("the records at A", lambda: log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0"))
        code, _, err = run(a, "--reverse", "--mirror", "m", "--command-config", str(login))
        assert code == 1 and "--reverse-config must say how the old source connects to it" in err
        code, _, err = run(a, "--reverse", "--mirror", "m", "--command-config", str(login), "--reverse-config", str(login))
        assert code == 0, err
        produce_at_a = Producer(quiet(a.client_properties("mirror")))
        produce_at_a.produce("t", b"again")
        assert produce_at_a.flush(REACHED_S) == 0
        wait_for("the records at B", lambda: log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0"))
