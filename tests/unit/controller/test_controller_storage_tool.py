"""`format`: flags, texts and files as Kafka 4.3's kafka-storage (recorded from it); mirror.version
behind its switch.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
from support.logs.storage_doubles import ManualClock, SeededRandom

from kmirror.common.errors import KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.controller.dynamic_voter import parse_initial_controllers
from kmirror.controller.scram_argument import parse_scram_argument
from kmirror.controller.storage_tool import FormatOptions, format_node, parse_feature_argument
from kmirror.metadata.snapshot import decode_snapshot
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.meta_properties import read_meta_properties
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord


class Listener:
    name, host, port = "CONTROLLER", "localhost", 9093


class Node:
    def __init__(self, *directories: pathlib.Path, voters: bool = True, unstable: bool = False, is_controller: bool = True) -> None:
        self.node_id = 1
        self.is_controller = is_controller
        self.log_dirs = tuple(str(directory) for directory in directories)
        self.metadata_log_dir = self.log_dirs[0]
        self.controller_listeners = [Listener()]
        self.quorum_voters: Mapping[int, tuple[str, int]] = {1: ("localhost", 9093)} if voters else {}
        self.unstable_feature_versions_enable = unstable


class Ports:
    files, clock, random = OsFileSystem(), ManualClock(), SeededRandom(3)


def run(node: Node, **options: Any) -> list[str]:
    return format_node(node, FormatOptions(cluster_id=options.pop("cluster_id", "abc"), **options), Ports())


def levels(directory: pathlib.Path) -> dict[str, int]:
    path = directory / "bootstrap.checkpoint"
    records = decode_snapshot(path.read_bytes(), str(path)).records
    return {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}


def test_every_directory_gets_its_files(tmp_path: pathlib.Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    lines = run(Node(a, b))
    assert lines[0].startswith(
        "Bootstrap metadata: BootstrapMetadata(records=[ApiMessageAndVersion(FeatureLevelRecord(name='metadata.version', featureLevel=30) at"
    )
    assert lines[1:] == [
        f"Formatting metadata directory {a} with metadata.version 4.3-IV0.",
        f"Formatting data directory {b} with metadata.version 4.3-IV0.",
    ]
    properties = [read_meta_properties(OsFileSystem(), str(directory)) for directory in (a, b)]
    assert all(p is not None and (p.cluster_id, p.node_id, p.version) == ("abc", 1, 1) for p in properties)
    assert properties[0] is not None
    assert properties[1] is not None
    assert properties[0].directory_id != properties[1].directory_id
    assert levels(a) == levels(b)


def test_formatting_twice(tmp_path: pathlib.Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    run(Node(a))
    with pytest.raises(KmirrorError, match=f"^Invalid cluster.id in: {a}/meta.properties. Expected other, but read abc$"):
        run(Node(a), cluster_id="other")
    text = f"Log directory {a} is already formatted. Use --ignore-formatted to ignore this directory and format the others."
    with pytest.raises(KmirrorError) as error:
        run(Node(a, b))
    assert str(error.value) == text
    assert not b.exists(), "nothing is begun that cannot be finished"
    assert run(Node(a), ignore_formatted=True) == ["All of the log directories are already formatted."]
    assert run(Node(a, b), ignore_formatted=True)[1:] == [f"Formatting data directory {b} with metadata.version 4.3-IV0."]
    with pytest.raises(KmirrorError, match="Expected other, but read abc"):
        run(Node(a), ignore_formatted=True, cluster_id="other")


def test_a_dynamic_quorum(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path / "a", voters=False)
    lines = run(node, standalone=True)
    assert lines[1].startswith("Formatting dynamic metadata voter directory")
    path = tmp_path / "a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    snapshot = decode_snapshot(path.read_bytes(), str(path))
    assert snapshot.kraft_version == 1
    assert snapshot.voters is not None
    assert [(voter.voter_id, voter.endpoints[0].port) for voter in snapshot.voters.voters] == [(1, 9093)]
    other = tmp_path / "b"
    run(Node(other, voters=False), no_initial_controllers=True)
    assert sorted(file.name for file in other.iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


@pytest.mark.parametrize(
    ("node", "options", "text"),
    [
        (
            {"voters": False}, {},
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, "
            "--initial-controllers, or --no-initial-controllers.",
        ),
        (
            {}, {"standalone": True},
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use dynamic "
            "quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead.",
        ),
        ({"voters": False, "is_controller": False}, {"standalone": True}, "You can only use --standalone on a controller."),
        (
            {}, {"features": {"foo": 1}},
            "Unsupported feature: foo. Supported features are: eligible.leader.replicas.version, group.version, kraft.version, share.version, "
            "streams.version, transaction.version",
        ),
        ({}, {"features": {"group.version": 9}}, "No feature:group.version with feature level 9"),
        ({}, {"features": {"mirror.version": 1}}, "No feature:mirror.version with feature level 1"),
        (
            {}, {"release_version": "9.9"},
            "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, 3.4-IV0, 3.5-IV0, 3.5-IV1, 3.5-IV2, 3.6-IV0, 3.6-IV1, 3.6-IV2, "
            "3.7-IV0, 3.7-IV1, 3.7-IV2, 3.7-IV3, 3.7-IV4, 3.8-IV0, 3.9-IV0, 4.0-IV0, 4.0-IV1, 4.0-IV2, 4.0-IV3, 4.1-IV0, 4.1-IV1, 4.2-IV0, 4.2-IV1, "
            "4.3-IV0",
        ),
        (
            {}, {"release_version": "4.0", "features": {"metadata.version": 20}},
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
        ),
        (
            {}, {"release_version": "3.9", "features": {"eligible.leader.replicas.version": 1}},
            "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
        ),
        ({"unstable": True}, {"release_version": "4.2", "features": {"mirror.version": 1}},
         "mirror.version could not be set to 1 because it depends on metadata.version level 30"),
    ],
)  # fmt: skip
def test_what_cannot_be_formatted(tmp_path: pathlib.Path, node: dict[str, bool], options: dict[str, Any], text: str) -> None:
    with pytest.raises(KmirrorError) as error:
        run(Node(tmp_path / "a", **node), **options)
    assert str(error.value) == text
    assert not (tmp_path / "a").exists()


def test_levels_follow_release_and_flags(tmp_path: pathlib.Path) -> None:
    run(Node(tmp_path / "old"), release_version="3.3")
    assert levels(tmp_path / "old") == {"metadata.version": 7}
    run(Node(tmp_path / "new", unstable=True), features={"mirror.version": 1, "transaction.version": 0})
    chosen = levels(tmp_path / "new")
    assert chosen["mirror.version"] == 1
    assert "transaction.version" not in chosen
    assert list(chosen) == ["metadata.version", *sorted(name for name in chosen if name != "metadata.version")]


def test_feature_arguments() -> None:
    assert parse_feature_argument("mirror.version=1") == ("mirror.version", 1)
    with pytest.raises(KmirrorError, match="Can't parse feature=level string group.version: equals sign not found."):
        parse_feature_argument("group.version")
    with pytest.raises(KmirrorError, match="unable to parse x as a short"):
        parse_feature_argument("group.version=x")


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("x", "Failed to find equals sign in SCRAM argument 'x'"),
        ("FOO=[name=a,password=b]", "The add-scram mechanism FOO is not supported."),
        ("SCRAM-SHA-256=[password=b]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=b,iterations=10]", "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256"),
        ("SCRAM-SHA-256=name=a", "Expected configuration string to be enclosed in brackets in SCRAM argument 'SCRAM-SHA-256=name=a'"),
    ],
)
def test_scram_arguments_that_are_none(argument: str, text: str) -> None:
    with pytest.raises(KmirrorError) as error:
        parse_scram_argument(argument, SeededRandom(1))
    assert str(error.value) == text


def test_a_salted_password_gives_the_same_keys() -> None:
    """RFC 5802 keys follow from the salted password alone."""
    first = parse_scram_argument('SCRAM-SHA-512=[name=a,password=b,salt="N3E=",iterations=8192]', SeededRandom(1))
    again = parse_scram_argument('SCRAM-SHA-512=[name=a,password=b,salt="N3E=",iterations=8192]', SeededRandom(2))
    assert first == again
    assert (first.mechanism, len(first.stored_key), first.iterations) == (2, 64, 8192)


def test_an_initial_controller_that_is_this_node_begins_a_dynamic_quorum(tmp_path: pathlib.Path) -> None:
    directory_id = Uuid(b"the-directory-id")
    voter = parse_initial_controllers(f"1@controller.example:9999:{directory_id}")
    node = Node(tmp_path / "a", voters=False)
    assert "Formatting dynamic metadata voter directory" in run(node, initial_controller=voter)[1]
    properties = read_meta_properties(OsFileSystem(), str(tmp_path / "a"))
    assert properties is not None
    assert properties.directory_id == directory_id
    path = tmp_path / "a" / "__cluster_metadata-0" / f"{'0' * 20}-{'0' * 10}.checkpoint"
    snapshot = decode_snapshot(path.read_bytes(), str(path))
    assert snapshot.kraft_version == 1
    assert snapshot.voters is not None
    [written] = snapshot.voters.voters
    assert (written.voter_id, written.voter_directory_id) == (1, directory_id)
    assert [(endpoint.name, endpoint.host, endpoint.port) for endpoint in written.endpoints] == [("CONTROLLER", "controller.example", 9999)]


def test_an_initial_controller_must_be_this_node_and_the_only_flag(tmp_path: pathlib.Path) -> None:
    voter = parse_initial_controllers(f"2@c:9999:{Uuid(b'the-directory-id')}")
    with pytest.raises(KmirrorError, match="Node 1 is not the voter 2"):
        run(Node(tmp_path / "a", voters=False), initial_controller=voter)
    with pytest.raises(KmirrorError, match="not allowed with argument --standalone/-s"):
        run(Node(tmp_path / "a", voters=False), initial_controller=voter, standalone=True)
    mine = parse_initial_controllers(f"1@[::1]:9999:{Uuid(b'the-directory-id')}")
    assert mine.host == "::1"
    with pytest.raises(KmirrorError, match="You cannot specify controller.quorum.voters and format the node with --initial-controllers"):
        run(Node(tmp_path / "a"), initial_controller=mine)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "No voters given."), ("1", "No @ found in dynamic voter string."), ("@c:1:x", "Invalid @ at beginning of dynamic voter string."),
        ("x@c:1:y", "Failed to parse node id in dynamic voter string."), ("-1@c:1:y", "Invalid negative node id -1 in dynamic voter string."),
        ("1@", "No hostname found after node id."), ("1@[::1:5:y", "Hostname began with left bracket, but no right bracket was found."),
        ("1@c", "No colon following hostname could be found."), ("1@[::1]5:y", "Port section must start with a colon."),
        ("1@c:5", "No colon following port could be found."), ("1@c:x:y", "Failed to parse port in dynamic voter string."),
        ("1@c:70000:y", "Invalid port 70000 in dynamic voter string."), ("1@c:5:y", "Failed to parse directory ID in dynamic voter string."),
        ("1@c:5:AAAAAAAAAAAAAAAAAAAAAQ,1@d:5:AAAAAAAAAAAAAAAAAAAAAg", "Node id 1 was specified more than once."),
        ("1@c:5:AAAAAAAAAAAAAAAAAAAAAQ,2@d:5:AAAAAAAAAAAAAAAAAAAAAg", "kmirror runs a controller quorum of one voter; --initial-controllers names 2."),
    ],
)  # fmt: skip
def test_initial_controllers_that_are_none(text: str, problem: str) -> None:
    with pytest.raises(KmirrorError) as error:
        parse_initial_controllers(text)
    assert str(error.value) == problem
