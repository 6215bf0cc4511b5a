"""`kafka-mirrors --reverse`: what it looks at before it fails anything over, without clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kmirror.admin.results import ClusterDescription, Node
from kmirror.cli.mirrors import build_parser
from kmirror.cli.mirrors_reverse import Reversal, reverse
from kmirror.common.errors import ConfigError
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run


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
