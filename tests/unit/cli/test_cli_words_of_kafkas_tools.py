"""Words of Kafka's tools for what is wrong, as Apache Kafka 4.3 printed them."""

from __future__ import annotations

import pytest

from kmirror.cli.cluster import main as cluster
from kmirror.cli.configs import main as configs
from kmirror.cli.consumer_groups_actions import _print_deletion
from kmirror.common.errors import Errors

UNREGISTER = """\
usage: kafka-cluster unregister [-h] [--config CONFIG]
                     [--command-config COMMAND_CONFIG] --id ID
                     (--bootstrap-server BOOTSTRAP_SERVER |
                     --bootstrap-controller BOOTSTRAP_CONTROLLER)
"""
TOOL = "usage: kafka-cluster [-h] {cluster-id,unregister,list-endpoints} ...\n"


@pytest.mark.parametrize(
    "arguments, printed",
    [
        ([], f"{TOOL}kafka-cluster: error: too few arguments\n"),
        (["unregister"], f"{UNREGISTER}kafka-cluster: error: argument --id/-i is required\n"),
        (["unregister", "-b", "a:1"], f"{UNREGISTER}kafka-cluster: error: argument --id/-i is required\n"),
        (
            ["unregister", "-b", "a:1", "-i", "x"],
            f"{UNREGISTER}kafka-cluster: error: argument --id/-i: could not convert 'x' to Integer (For input string: \"x\")\n",
        ),
    ],
)
def test_a_wrong_command_line_of_kafka_cluster(arguments: list[str], printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster(arguments) == 1
    assert capsys.readouterr().err == printed


@pytest.mark.parametrize("action", [["--describe"], ["--alter", "--add-config", "connection_creation_rate=5"]])
def test_an_address_that_is_none_is_refused_before_anybody_is_asked(action: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`--describe` said nothing at all, and exited with 0."""
    assert configs(["--bootstrap-server", "127.0.0.1:1", *action, "--entity-type", "ips", "--entity-name", "300.1.2.3.4"]) == 1
    assert capsys.readouterr().err.strip() == "The entity name for ips must be a valid IP or resolvable host, but it is: 300.1.2.3.4"


def test_offsets_of_a_group_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    _print_deletion("nosuch", Errors.GROUP_ID_NOT_FOUND)
    assert capsys.readouterr().out.strip() == "Error: The group id does not exist."
