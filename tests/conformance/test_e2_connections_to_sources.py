"""The broker's request.timeout.ms and socket.* apply to the connections of its mirrors (CFG16,
CFG17).
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, add, create_mirror, create_topic, produce, wait_caught_up, wait_for, wait_state

from kmirror import EmbeddedCluster
from kmirror.common.errors import ConfigError
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.room_settings import mirror_config
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import encode_response, read_request_header
from kmirror.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

MINIMUM = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
REFRESH_ERRORS = "kafka.server.mirror:type=MirrorMetadataManager,name=MetadataRefreshError"


class SilentSource:
    """Takes connections and requests. It answers ApiVersions, if it is to, and nothing else."""

    def __init__(self, *, answers_versions: bool) -> None:
        self._answers_versions = answers_versions
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked: list[ApiKeys] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while size := connection.recv(4, socket.MSG_WAITALL):
                header, _ = read_request_header(memoryview(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)))
                self.asked.append(ApiKeys(header.api_key))
                if self._answers_versions and header.api_key == ApiKeys.API_VERSIONS:
                    ranges = [ApiVersion(ApiKeys.METADATA, 0, 12), ApiVersion(ApiKeys.API_VERSIONS, 0, 4)]
                    answer = encode_response(
                        header.api_key, header.api_version, header.correlation_id, ApiVersionsResponse(api_keys=ranges)
                    )
                    connection.sendall(b"".join(bytes(part) for part in answer if isinstance(part, bytes | bytearray | memoryview)))
        except OSError:
            return

    def close(self) -> None:
        for each in (self._listener, *self._open):
            each.close()


@pytest.fixture
def half_silent() -> Iterator[SilentSource]:
    source = SilentSource(answers_versions=True)
    yield source
    source.close()


@pytest.fixture
def silent() -> Iterator[SilentSource]:
    source = SilentSource(answers_versions=False)
    yield source
    source.close()


def mirror_from(source: SilentSource, config: dict[str, str]) -> None:
    """Until two refreshes of a mirror gave up on it."""
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR | config) as cluster:
        create_topic(cluster.bootstrap_servers, "t")
        create_mirror(cluster.bootstrap_servers, "m", source.address)
        add(cluster.bootstrap_servers, "m", "t")
        wait_for("two refreshes that gave up", lambda: cluster.metrics()[REFRESH_ERRORS]["Value"] >= 2)


def test_cfg16_request_timeout_is_the_brokers() -> None:
    """An int of 30 seconds unless it is set; static."""
    assert mirror_config(KafkaConfig.from_props(MINIMUM)).request_timeout_ms == 30_000
    assert mirror_config(KafkaConfig.from_props(MINIMUM | {"request.timeout.ms": "1234"})).request_timeout_ms == 1_234
    with pytest.raises(ConfigError, match="request.timeout.ms"):
        KafkaConfig.from_props(MINIMUM | {"request.timeout.ms": "x"})


def test_cfg16_a_source_that_does_not_answer_a_request_is_given_up(half_silent: SilentSource, caplog: pytest.LogCaptureFixture) -> None:
    mirror_from(half_silent, {"request.timeout.ms": "1500"})
    assert ApiKeys.METADATA in half_silent.asked
    assert f"{half_silent.address} did not answer METADATA" in caplog.text


def test_cfg17_socket_settings_are_the_brokers() -> None:
    assert mirror_config(KafkaConfig.from_props(MINIMUM)).socket_connection_setup_timeout_ms == 10_000
    props = MINIMUM | {"socket.connection.setup.timeout.ms": "321"}
    assert mirror_config(KafkaConfig.from_props(props)).socket_connection_setup_timeout_ms == 321


def test_cfg17_socket_buffers_are_the_brokers_where_they_are_set() -> None:
    """Kafka's defaults would fix the buffers of connections over a WAN at 64 KiB: unset, the system
    fits them to the connection.
    """

    def buffers(**props: str) -> tuple[int, int]:
        named = {name.replace("_", "."): value for name, value in props.items()}
        config = mirror_config(KafkaConfig.from_props(MINIMUM | named))
        return config.socket_send_buffer_bytes, config.socket_receive_buffer_bytes

    assert buffers() == (-1, -1)
    assert buffers(socket_send_buffer_bytes="1", socket_receive_buffer_bytes="2") == (1, 2)
    assert buffers(socket_receive_buffer_bytes="2", replica_socket_receive_buffer_bytes="3") == (-1, 3)


def test_cfg17_socket_buffers_are_those_of_every_connection_to_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[int, list[tuple[int, int]]] = {}
    connect = AsyncioRuntime._connect_one

    async def connected(self: AsyncioRuntime, family: Any, address: Any, buffers: Any) -> socket.socket:
        made = await connect(self, family, address, buffers)
        asked = (made.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
        sizes.setdefault(address[1], []).append(asked)
        return made

    monkeypatch.setattr(AsyncioRuntime, "_connect_one", connected)
    config = FAST_MIRROR | {"socket.send.buffer.bytes": "20000", "replica.socket.receive.buffer.bytes": "30000"}
    with EmbeddedCluster(mirroring=True) as source, EmbeddedCluster(mirroring=True, config=config) as cluster:
        create_topic(source.bootstrap_servers, "t")
        create_mirror(cluster.bootstrap_servers, "m", source.bootstrap_servers)
        add(cluster.bootstrap_servers, "m", "t")
        produce(source.bootstrap_servers, "t", ["a"])
        wait_state(cluster.bootstrap_servers, "m", "MIRRORING")
        wait_caught_up(cluster.bootstrap_servers, source.bootstrap_servers, "m")
        port = int(source.bootstrap_servers.rpartition(":")[2])
    of_kernel = 2 if sys.platform == "linux" else 1  # Linux doubles what it is asked for, for its own bookkeeping
    assert sizes[port].count((20_000 * of_kernel, 30_000 * of_kernel)) >= 2, "for metadata, and the fetcher's"


def test_cfg17_a_source_that_takes_connections_and_is_silent_is_given_up(silent: SilentSource) -> None:
    mirror_from(silent, {"socket.connection.setup.timeout.ms": "400"})
    assert set(silent.asked) == {ApiKeys.API_VERSIONS}
