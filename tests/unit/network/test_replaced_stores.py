"""Key and trust stores that are replaced under their names are read again, by clients and servers."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest

from kmirror.embedded_security import _make_certificates
from kmirror.network.security.replaced_stores import LOOK_EVERY_MS, ReplacedStores
from kmirror.network.security.ssl_factory import client_context, server_context
from kmirror.runtime.os_files import OsFileSystem


class Clock:
    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders with an authority of their own each, and with the certificates of a server."""
    folders = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    for folder in folders:
        _make_certificates(folder, ["server"])
    return folders


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> str | None:
    """None if they agree, else what the client says."""
    ways = [ssl.MemoryBIO() for _ in range(4)]
    ends = [
        client.wrap_bio(ways[0], ways[1], server_hostname="localhost"),
        server.wrap_bio(ways[2], ways[3], server_side=True),
    ]
    for _ in range(6):
        for index, end in enumerate(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                return str(error)
            ways[2 - 2 * index].write(ways[1 + 2 * index].read())
    return None


class Bench:
    """Stores in one place, where a test replaces them, and a clock."""

    def __init__(self, folder: Path, authority: Path) -> None:
        self.folder, self.clock = folder, Clock()
        self.replace(authority)
        files: Any = OsFileSystem()
        clock: Any = self.clock
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
        key = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "server.pem")}
        self.client = ReplacedStores(trust, files, clock, client_context)
        self.server = ReplacedStores(key, files, clock, lambda props, files: server_context(props, files, client_auth="none"))

    def replace(self, authority: Path, *names: str) -> None:
        for name in names or ("ca.pem", "server.pem"):
            shutil.copy(authority / name, self.folder / name)

    def later(self) -> None:
        self.clock.now_ms += LOOK_EVERY_MS

    def problem(self) -> str | None:
        return handshake(self.client.context, self.server.context)


def test_a_replaced_store_was_never_read_again(tmp_path: Path, authorities: tuple[Path, Path]) -> None:
    first, second = authorities
    bench = Bench(tmp_path, first)
    assert bench.problem() is None
    bench.replace(second, "server.pem")
    bench.later()
    assert "certificate verify failed" in (bench.problem() or ""), "the server shows its new certificate, which nobody trusts yet"
    bench.replace(second, "ca.pem")
    bench.later()
    assert bench.problem() is None
    before = bench.client.context, bench.server.context
    bench.later()
    assert (bench.client.context, bench.server.context) == before, "what was not replaced is not read again"


@pytest.mark.parametrize("damage", ["half written", "gone"])
def test_a_store_that_cannot_be_read_leaves_the_last_good_one(
    tmp_path: Path, authorities: tuple[Path, Path], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    bench = Bench(tmp_path, authorities[0])
    path = tmp_path / "server.pem"
    for _ in range(3):
        if damage == "gone":
            path.unlink(missing_ok=True)
        else:
            path.write_bytes((authorities[1] / "server.pem").read_bytes()[:300])
        bench.later()
        assert bench.problem() is None
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and "the one before it stays" in warnings[0] and "server.pem" in warnings[0]
    bench.replace(authorities[1])
    bench.later()
    assert bench.problem() is None
    told = [record.getMessage() for record in caplog.records]
    assert any("over after" in text for text in told) and any(text.startswith("Read again, because it was replaced") for text in told)


def test_files_are_not_looked_at_for_every_connection(
    tmp_path: Path, authorities: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, authorities[0])
    looked: list[str] = []
    read = OsFileSystem.read_bytes
    monkeypatch.setattr(OsFileSystem, "read_bytes", lambda files, path: looked.append(path) or read(files, path))
    for _ in range(100):
        assert bench.client.context is not None
    assert looked == []
    bench.later()
    for _ in range(100):
        assert bench.client.context is not None
    assert looked == [str(tmp_path / "ca.pem")]
