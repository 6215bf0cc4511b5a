"""`kafka-mirrors --reverse`: what it looks at before it fails anything over, without clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mirrors.admin_double import REFUSED, AdminDouble, LogDouble
from support.mirrors.scripted_source import batch

from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import ClusterDescription, MirrorPartitionDescription, Node
from kmirror.cli.mirrors import build_parser
from kmirror.cli.mirrors_reverse import Reversal, reverse
from kmirror.common.errors import ConfigError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

T0 = TopicPartition("t", 0)


class NobodyToAsk:
    """Clusters that must not be asked yet."""

    def __init__(self, runtime: Runtime, arguments: list[str]) -> None:
        self.runtime, self.admin = runtime, None
        self.options = build_parser().parse_args(["--reverse", "--mirror", "m", *arguments])


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--force"]])
@pytest.mark.parametrize(
    ("servers", "file", "message"),
    [
        (":9094", None, "Invalid url in bootstrap.servers: :9094.*--reverse-config"),  # as in the KIP's examples: this very machine
        ("b:9094", "bootstrap.servers=b:9094\nacks=all\n", "reverse.properties.*Unknown mirror config name: acks"),
        ("b:9094", "bootstrap.servers=b:9094\nmirror.groups.include=(\n", "reverse.properties.*not a regular expression"),
        ("b:9094", "mirror.groups.include=a\n", "reverse.properties has no bootstrap.servers"),
    ],
)
def test_the_old_source_refused_configs_after_the_failover(
    servers: str, file: str | None, message: str, more: list[str], tmp_path: Path
) -> None:
    arguments = ["--bootstrap-server", servers, *more]
    if file is not None:
        (tmp_path / "reverse.properties").write_text(file)
        arguments += ["--reverse-config", str(tmp_path / "reverse.properties")]

    async def main(runtime: Runtime) -> None:
        clients: Any = NobodyToAsk(runtime, arguments)
        await reverse(clients)

    with pytest.raises(ConfigError, match=message):
        run(main)


@pytest.mark.parametrize(
    ("given", "advertised", "used"),
    [
        ("localhost:9094,127.0.0.1:9095", ["b4.example:9094", "b5.example:9095"], "b4.example:9094,b5.example:9095"),
        ("[::1]:9094", ["2001:db8::4:9094"], "[2001:db8::4]:9094"),
        ("localhost:9094", ["127.0.0.1:9094"], "localhost:9094"),  # both clusters on this machine
        ("b.example:9094", ["b4.example:9094"], "b.example:9094"),
        ("localhost:9094,b.example:9094", ["b4.example:9094"], "localhost:9094,b.example:9094"),
    ],
)
def test_the_old_source_was_given_a_loopback_address(given: str, advertised: list[str], used: str) -> None:
    """Which is the old source itself there, if not nothing; the topics were failed over by then."""
    nodes = [Node(number, *_split(server)) for number, server in enumerate(advertised)]

    class Here:
        async def describe_cluster(self) -> ClusterDescription:
            return ClusterDescription("here", 0, nodes)

    async def main(runtime: Runtime) -> dict[str, str]:
        clients: Any = NobodyToAsk(runtime, ["--bootstrap-server", given])
        clients.admin = Here()
        return await Reversal(clients).reverse_configs()

    assert run(main) == {"bootstrap.servers": used}


def _split(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_dead_source_left_no_way_on(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is shown all the same, with what is unknown; without it the way on is named."""
    row = MirrorPartitionDescription("t", 0, 20, 20, -1, "MIRRORING", 0, None, 3, 42_000)
    here = AdminDouble({T0: LogDouble([batch(0, *[b"v"] * 20)])}, "here", mirrors={"m": [row]})

    async def source(*_: object, **__: object) -> Any:
        return AdminDouble(away=REFUSED)

    async def main(runtime: Runtime) -> None:
        clients: Any = NobodyToAsk(runtime, ["--bootstrap-server", "b:9094", *more])
        clients.admin, clients.source = here, source
        await reverse(clients)

    if not more:
        with pytest.raises(NoBrokerError, match=r"Connection refused.*--reverse --force .*--remove without --wait"):
            run(main)
        return
    run(main)
    captured = capsys.readouterr()
    assert "--reverse --force" in captured.err
    assert "it is not known which records the old source would drop" in captured.out
    assert "what the source has beyond this is not known: lag 3, as of 42 s ago" in captured.out
    assert "nothing would be dropped" not in captured.out
