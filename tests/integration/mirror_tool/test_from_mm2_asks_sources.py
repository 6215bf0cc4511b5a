"""`kafka-mirrors --from-mm2` and what the lists of a configuration match at the source, which it took
on trust before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mirrors.mirror_harness import call, create_topic
from support.peers.peers import free_port

from kmirror.admin.groups import OffsetAndMetadata
from kmirror.cli.mirrors import main
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security

TOPICS, GROUPS = ("orders-1", "payments"), ("shop", "console-consumer-1")


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        for topic in TOPICS:
            create_topic(cluster.bootstrap_servers, topic)
        for group in GROUPS:
            at = {TopicPartition("payments", 0): OffsetAndMetadata(0)}
            call(cluster.bootstrap_servers, lambda admin, group=group, at=at: admin.alter_consumer_group_offsets(group, at))
        yield cluster.bootstrap_servers


class Converted:
    """Runs the tool on a file with one flow from A to B; `notes` are what it says of that."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def notes(self, servers: str, **settings: str) -> list[str]:
        lines = {"clusters": "A, B", "A.bootstrap.servers": servers, "B.bootstrap.servers": "127.0.0.1:1", "A->B.enabled": "true"}
        lines |= {name.replace("_", "."): value for name, value in settings.items()}
        path = self._folder / "mm2.properties"
        path.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
        assert main(["--from-mm2", str(path), "--json"]) == 0
        (flow,) = json.loads(self._capsys.readouterr().out)
        said = [note for note in flow["notes"] if "look" in note or " of A" in note]
        assert main(["--from-mm2", str(path)]) == 0
        printed = self._capsys.readouterr().out
        assert all(f"    {note}\n" in printed for note in said)
        return said


@pytest.fixture
def converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Converted:
    return Converted(tmp_path, capsys)


SYNCED = {"sync_group_offsets_enabled": "true"}
LOOKED_AT = "looked at for what the lists match: the {} that A shows to this login"
TOPICS_AND_GROUPS = LOOKED_AT.format("3 topics and 2 groups")  # with __consumer_offsets


@pytest.mark.parametrize("synced", [{}, SYNCED])
def test_a_list_that_matches_nothing_is_named(source: str, converted: Converted, synced: dict[str, str]) -> None:
    """Also if the mirror copies no offsets: MirrorMaker makes checkpoints of these groups."""
    assert converted.notes(source, topics="orders.*,order", groups="shop,shops-.*,gone", **synced) == [
        "no topic of A has the name, or matches the expression: order (topics = orders.*, order)",
        "no group of A has the name, or matches the expression: shops-.*, gone (groups = shop, shops-.*, gone)",
        TOPICS_AND_GROUPS,
    ]


def test_a_list_that_matches_is_said_to_have_been_looked_at(source: str, converted: Converted) -> None:
    assert converted.notes(source, topics="orders.*", groups="shop", **SYNCED) == [TOPICS_AND_GROUPS]
    assert converted.notes(source) == [LOOKED_AT.format("3 topics")]


def test_a_list_of_which_nothing_is_left_is_named(source: str, converted: Converted) -> None:
    excluded = {"topics_exclude": "ord.*", "groups": "console-consumer-1", **SYNCED}
    assert converted.notes(source, topics="orders.*", **excluded) == [
        "topics = orders.* without topics.exclude = ord.* takes no topic of A",
        "groups = console-consumer-1 without groups.exclude = console-consumer-.*, connect-.*, __.* takes no group of A",
        TOPICS_AND_GROUPS,
    ]
    assert "groups =  without groups.exclude = x takes no group of A" in converted.notes(source, groups="", groups_exclude="x", **SYNCED)


def test_a_source_that_cannot_be_asked_was_not_looked_at(converted: Converted) -> None:
    dead = f"127.0.0.1:{free_port()}"
    (note,) = converted.notes(dead, topics="orders", groups="shop")
    assert note.startswith("what topics and groups match at A was not looked at: ") and dead in note
    (note,) = converted.notes(dead, topics="orders", A_ssl_key_password="${KEY}")
    assert note == "what topics match at A was not looked at: ssl.key.password holds an expression"


def test_a_source_is_asked_as_the_mirror_would_be(converted: Converted) -> None:
    with EmbeddedCluster(security=Security.sasl_plaintext(users={"alice": "alice-secret"}, mechanism="PLAIN")) as cluster:
        login = {"A_security_protocol": "SASL_PLAINTEXT", "A_sasl_mechanism": "PLAIN"}
        jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'
        right = converted.notes(cluster.bootstrap_servers, topics="gone", A_sasl_jaas_config=jaas.format("alice-secret"), **login)
        assert right[0].startswith("no topic of A has the name") and right[1].startswith("looked at for what the lists match: the ")
        (wrong,) = converted.notes(cluster.bootstrap_servers, topics="gone", A_sasl_jaas_config=jaas.format("guessed"), **login)
        assert wrong.startswith("what topics match at A was not looked at: ") and "guessed" not in wrong
