"""Sources of every security mode, reached through mirror configs alone (S22, CFG5 to CFG7, FM11,
D3-32, ACL37). Kerberos is in interop/kerberos.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from support.mirrors.mirror_harness import FAST_MIRROR, add, call, log_bytes, remove, wait_for, wait_state
from support.waiting import REACHED_S

from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security

USERS = {"mirror": "mirror-secret", "second": "second-secret"}
MODES = {
    "PLAINTEXT": None,
    "SSL": Security.ssl(),
    "mTLS": Security.ssl(client_auth="required", users=list(USERS)),
    "SASL_PLAINTEXT-PLAIN": Security.sasl_plaintext(USERS, mechanism="PLAIN"),
    "SASL_PLAINTEXT-SCRAM-SHA-256": Security.sasl_plaintext(USERS, mechanism="SCRAM-SHA-256"),
    "SASL_SSL-SCRAM-SHA-512": Security.sasl_ssl(USERS, mechanism="SCRAM-SHA-512"),
    "SASL_SSL-PLAIN": Security.sasl_ssl(USERS, mechanism="PLAIN"),
}


@pytest.fixture(scope="module")
def destination() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as cluster:
        yield cluster


def user_of(security: Security) -> str | None:
    return "mirror" if security.users else None


def producer_of(source: EmbeddedCluster, security: Security | None) -> Producer:
    return Producer({"bootstrap.servers": source.bootstrap_servers} if security is None else source.client_properties(user_of(security)))


def fill(source: EmbeddedCluster, security: Security | None, topic: str, count: int) -> None:
    producer = producer_of(source, security)
    for number in range(count):
        producer.produce(topic, f"{topic} {number}".encode())
    assert producer.flush(REACHED_S) == 0


def source_configs(source: EmbeddedCluster, security: Security | None, user: str | None = None) -> dict[str, str]:
    if security is None:
        return {"bootstrap.servers": source.bootstrap_servers}
    return source.client_properties(user or user_of(security), style="java")


def alter(destination: EmbeddedCluster, mirror: str, **changes: str) -> None:
    operations = [(name.replace("_", "."), ConfigOperation.SET, value) for name, value in changes.items()]
    call(destination.bootstrap_servers, lambda admin: admin.incremental_alter_configs(ConfigResourceType.MIRROR, mirror, operations))


def wait_equal(source: EmbeddedCluster, destination: EmbeddedCluster, folder: str) -> None:
    wait_for(f"equal logs of {folder}", lambda: log_bytes(source.log_dir(), folder) == log_bytes(destination.log_dir(), folder) != b"")


def refresh_errors(destination: EmbeddedCluster) -> int:
    def read(server: Any) -> int:
        return int(server.broker.mirror.metadata_manager.errors.metadata_refresh)

    return destination.call(read)


@pytest.mark.parametrize("mode", MODES)
def test_s22_cfg5_cfg6_cfg7_a_mirror_connects_with_its_configs(destination: EmbeddedCluster, mode: str) -> None:
    security, topic = MODES[mode], f"s22-{mode}"
    with EmbeddedCluster(mirroring=True, security=security, config=FAST_MIRROR) as source:
        fill(source, security, topic, 30)
        call(destination.bootstrap_servers, lambda admin: admin.create_mirror(mode, source_configs(source, security)))
        add(destination.bootstrap_servers, mode, topic)
        wait_state(destination.bootstrap_servers, mode, "MIRRORING")
        wait_equal(source, destination, f"{topic}-0")
        remove(destination.bootstrap_servers, mode, topic)
        wait_state(destination.bootstrap_servers, mode, "STOPPED")
    call(destination.bootstrap_servers, lambda admin: admin.delete_mirror(mode))


def test_s22_fm11_d3_16_d3_32_wrong_credentials_fail_no_partition_and_right_ones_reconnect(destination: EmbeddedCluster) -> None:
    """The password is altered while the mirror runs, so new connections are refused; then it is
    altered back.
    """
    security = MODES["SASL_PLAINTEXT-PLAIN"]
    assert security is not None
    with EmbeddedCluster(mirroring=True, security=security, config=FAST_MIRROR) as source:
        fill(source, security, "t", 30)
        configs = source_configs(source, security)
        call(destination.bootstrap_servers, lambda admin: admin.create_mirror("m", configs))
        add(destination.bootstrap_servers, "m", "t")
        wait_equal(source, destination, "t-0")
        before = refresh_errors(destination)
        alter(destination, "m", sasl_jaas_config=configs["sasl.jaas.config"].replace("mirror-secret", "wrong"))

        def reasons() -> list[str | None]:
            return destination.call(lambda server: [driver.status.reason for driver in server.broker.mirror.led_partitions("m")])

        wait_for("the refusals to be counted", lambda: refresh_errors(destination) > before + 2)
        wait_for("each partition to say why", lambda: all(reason and "Authentication failed" in reason for reason in reasons()))
        wait_state(destination.bootstrap_servers, "m", "MIRRORING")
        alter(destination, "m", sasl_jaas_config=configs["sasl.jaas.config"])
        fill(source, security, "t", 10)
        wait_equal(source, destination, "t-0")
        wait_for("nothing to be said any more", lambda: reasons() == [None])

        other = source_configs(source, security, "second")["sasl.jaas.config"]
        alter(destination, "m", sasl_jaas_config=other)
        wait_for("the connections of the second user alone", lambda: principals(source) == {"User:second"})
        fill(source, security, "t", 10)
        wait_equal(source, destination, "t-0")
        remove(destination.bootstrap_servers, "m", "t")


def principals(source: EmbeddedCluster) -> set[str]:
    """Returns the principals that are logged in at the source, except its own broker."""

    def read(server: Any) -> set[str]:
        return {str(connection.principal) for socket in server.broker._listeners.sockets for connection in socket._connections.values()}

    return source.call(read) - {"User:broker"}


def test_acl37_credentials_are_kept_in_the_metadata_shown_to_nobody_and_used_towards_the_source_alone(
    destination: EmbeddedCluster,
) -> None:
    security = MODES["SASL_PLAINTEXT-SCRAM-SHA-256"]
    assert security is not None
    with EmbeddedCluster(mirroring=True, security=security, config=FAST_MIRROR) as source:
        fill(source, security, "secret", 5)
        configs = source_configs(source, security)
        call(destination.bootstrap_servers, lambda admin: admin.create_mirror("keeper", configs))
        add(destination.bootstrap_servers, "keeper", "secret")
        wait_equal(source, destination, "secret-0")
        shown = call(destination.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.MIRROR, "keeper"))
        assert [(entry.value, entry.is_sensitive) for entry in shown if entry.name == "sasl.jaas.config"] == [(None, True)]

        def stored(server: Any) -> str:
            return str(server.broker.mirror.image().configs.mirror("keeper")["sasl.jaas.config"])

        assert destination.call(stored) == configs["sasl.jaas.config"]
        assert "User:mirror" in principals(source)

        def logins(server: Any) -> set[str]:
            return {str(connection.principal) for socket in server.broker._listeners.sockets for connection in socket._connections.values()}

        assert destination.call(logins) <= {"User:ANONYMOUS"}
        remove(destination.bootstrap_servers, "keeper", "secret")


def test_cfg5_unknown_protocols_and_keys_are_invalid_config(destination: EmbeddedCluster) -> None:
    wrong = [
        {"security.protocol": "TLS"},
        {"sasl.nonsense": "x"},
        {"ssl.nonsense": "x"},
        {"bootstrap.servers": ""},
        {"bootstrap.servers": "no-port"},
        {"mirror.groups.include": "("},
        {"mirror.topic.properties.exclude": "["},
    ]
    for change in wrong:
        configs = {"bootstrap.servers": "127.0.0.1:1"} | change
        with pytest.raises(ApiException) as caught:
            call(destination.bootstrap_servers, lambda admin, configs=configs: admin.create_mirror("wrong", configs))
        assert caught.value.error is Errors.INVALID_CONFIG, change
    with pytest.raises(ApiException) as caught:
        call(destination.bootstrap_servers, lambda admin: admin.create_mirror("wrong", {}))
    assert caught.value.error is Errors.INVALID_CONFIG
