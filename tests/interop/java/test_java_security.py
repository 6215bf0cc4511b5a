"""Kafka's own tools and clients against secured listeners: SASL_SSL with SCRAM, users, delegation
tokens, re-authentication, key stores.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.peers.peers import java_tool, require

from kmirror.common.metrics import sensor_metric
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security

pytestmark = pytest.mark.interop

USERS = {"alice": "alice-secret", "bob": "bob-secret"}


def logins(cluster: EmbeddedCluster, attribute: str) -> float:
    """One of the socket server's counts of logins."""
    tags = (("listener", "SASL_SSL"), ("networkProcessor", "0"))
    metric = cluster.call(lambda server: server.metrics.get(sensor_metric("socket-server-metrics", attribute, tags)))
    assert metric is not None
    return float(metric.value())


def properties_file(folder: Path, name: str, properties: dict[str, str]) -> str:
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)


def client_file(cluster: EmbeddedCluster, folder: Path, user: str, **more: str) -> str:
    return properties_file(folder, user, cluster.client_properties(user, style="java") | more)


def test_console_clients_over_sasl_ssl_and_a_user_added_by_kafka_configs(tmp_path: Path) -> None:
    with EmbeddedCluster(security=Security.sasl_ssl(USERS)) as cluster:
        servers = cluster.bootstrap_servers
        alice = client_file(cluster, tmp_path, "alice")
        produced = java_tool(
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", servers, "--topic", "secured", "--command-config", alice),
            stdin="one\ntwo\n",
        )
        assert produced.returncode == 0, produced.stderr
        added = java_tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", servers, "--command-config", alice, "--alter", "--entity-type", "users", "--entity-name", "carol"),
            *("--add-config", "SCRAM-SHA-256=[iterations=8192,password=carol-secret]"),
        )
        assert "Completed updating config for user carol." in added.stdout, added.stdout + added.stderr
        described = java_tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", servers, "--command-config", alice, "--describe", "--entity-type", "users", "--entity-name", "carol"),
        )
        assert "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-256=iterations=8192" in described.stdout
        as_alice = cluster.client_properties("alice", style="java")
        jaas = as_alice["sasl.jaas.config"].replace("alice-secret", "carol-secret").replace("alice", "carol")
        carol = properties_file(tmp_path, "carol", as_alice | {"sasl.jaas.config": jaas})
        consumed = java_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", servers, "--topic", "secured", "--from-beginning", "--max-messages", "2"),
            *("--timeout-ms", "20000", "--command-config", carol),
        )
        assert consumed.stdout.split() == ["one", "two"], consumed.stderr


def test_a_wrong_password_is_refused_with_kafkas_text(tmp_path: Path) -> None:
    with EmbeddedCluster(security=Security.sasl_plaintext(USERS, mechanism="SCRAM-SHA-512")) as cluster:
        right = cluster.client_properties("alice", style="java")
        wrong = properties_file(tmp_path, "wrong", right | {"sasl.jaas.config": right["sasl.jaas.config"].replace("alice-secret", "x")})
        listed = java_tool(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap_servers, "--list", "--command-config", wrong
        )
        assert listed.returncode != 0
        expected = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
        assert expected in listed.stdout + listed.stderr


def test_delegation_tokens_by_kafkas_tool(tmp_path: Path) -> None:
    config = {"delegation.token.secret.key": "a secret of the cluster"}
    with EmbeddedCluster(security=Security.sasl_ssl(USERS), config=config) as cluster:
        servers = cluster.bootstrap_servers
        alice = client_file(cluster, tmp_path, "alice")

        def tool(*arguments: str) -> str:
            done = java_tool(
                "org.apache.kafka.tools.DelegationTokenCommand", "--bootstrap-server", servers, "--command-config", alice, *arguments
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        created = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        match = re.search(r"^(\S+)\s+(\S+=)\s+User:alice\s+User:alice\s+\[User:bob\]\s", created, re.MULTILINE)
        assert match is not None, created
        token_id, secret = match[1], match[2]
        assert token_id in tool("--describe", "--owner-principal", "User:alice")
        assert "Completed renew operation. New expiry date" in tool("--renew", "--renew-time-period", "-1", "--hmac", secret)
        with_token = cluster.client_properties("alice", style="java") | {
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{token_id}" password="{secret}" tokenauth="true";'
        }
        listed = java_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", servers, "--list", "--command-config", properties_file(tmp_path, "token", with_token)),
        )
        assert listed.returncode == 0, listed.stderr
        tool("--expire", "--expiry-time-period", "-1", "--hmac", secret)
        refused = java_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", servers, "--list", "--command-config", str(tmp_path / "token.properties")),
        )
        assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in refused.stdout + refused.stderr


def test_the_java_producer_logs_in_again(tmp_path: Path) -> None:
    config = {
        "connections.max.reauth.ms": "2000"
    }  # a client begins at 85 to 95 percent of it; once a second is the most that a broker grants
    with EmbeddedCluster(security=Security.sasl_ssl(USERS), config=config) as cluster:
        producer = client_file(cluster, tmp_path, "alice", acks="all")
        done = java_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", "again", "--num-records", "1200", "--record-size", "100", "--throughput", "100", "--command-config", producer),
        )
        assert "1200 records sent" in done.stdout, done.stdout + done.stderr
        assert logins(cluster, "successful-reauthentication-total") >= 2
        assert logins(cluster, "failed-reauthentication-total") == 0
        assert logins(cluster, "expired-connections-killed-count") == 0


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_key_stores_of_keytool(tmp_path: Path, store_type: str) -> None:
    store, trust, certificate = (str(tmp_path / name) for name in ("keystore", "truststore", "broker.crt"))

    def keytool(*arguments: str) -> None:
        done = subprocess.run(["keytool", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    require(shutil.which("keytool"), "no keytool (JDK) on the PATH")
    common = ("-storepass", "store-secret", "-storetype", store_type)
    keytool(
        *("-genkeypair", "-alias", "broker", "-keyalg", "RSA", "-keysize", "2048", "-dname", "CN=localhost,OU=Tests,O=kmirror"),
        *("-ext", "SAN=dns:localhost,ip:127.0.0.1", "-keystore", store, *common),
    )
    keytool("-exportcert", "-rfc", "-alias", "broker", "-file", certificate, "-keystore", store, *common)
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", certificate, "-keystore", trust, *common)
    stores = {
        "ssl.keystore.type": store_type,
        "ssl.keystore.location": store,
        "ssl.keystore.password": "store-secret",
        "ssl.truststore.type": store_type,
        "ssl.truststore.location": trust,
        "ssl.truststore.password": "store-secret",
    }
    with EmbeddedCluster(security=Security.ssl(client_auth="required"), config=stores) as cluster:
        client = properties_file(tmp_path, "client", {"security.protocol": "SSL", **stores})
        listed = java_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", cluster.bootstrap_servers, "--create", "--topic", "stored", "--command-config", client),
        )
        assert "Created topic stored." in listed.stdout, listed.stdout + listed.stderr
