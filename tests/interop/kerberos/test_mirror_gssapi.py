"""A mirror logs in to its source with Kerberos and a keytab (S22)."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from support.mirrors.mirror_harness import FAST_MIRROR, add, call, log_bytes, wait_for, wait_state
from support.peers.kdc import REALM, running_kdc
from support.waiting import REACHED_S

from kmirror.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop


def jaas(principal: str, keytab: str) -> str:
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{keytab}" principal="{principal}@{REALM}";'
    )


def test_s22_a_mirror_logs_in_to_its_source_with_kerberos(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        monkeypatch.setenv("KRB5_CONFIG", str(kdc.config))
        listeners = {
            "listeners": "PLAINTEXT://127.0.0.1:0,KERBEROS://localhost:0,CONTROLLER://127.0.0.1:0",
            "listener.security.protocol.map": "KERBEROS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.kerberos.gssapi.sasl.jaas.config": jaas("kafka/localhost", kdc.keytab("kafka/localhost")),
        }
        with (
            EmbeddedCluster(mirroring=True, config=FAST_MIRROR | listeners) as source,
            EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as destination,
        ):
            kerberos = source.call(lambda server: server.bound_port("KERBEROS"))
            producer = Producer({"bootstrap.servers": source.bootstrap_servers})
            for number in range(20):
                producer.produce("t", f"{number}".encode())
            assert producer.flush(REACHED_S) == 0
            configs = {
                "bootstrap.servers": f"localhost:{kerberos}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": jaas("mirror", kdc.keytab("mirror")),
            }
            call(destination.bootstrap_servers, lambda admin: admin.create_mirror("m", configs))
            add(destination.bootstrap_servers, "m", "t")
            wait_state(destination.bootstrap_servers, "m", "MIRRORING")
            wait_for("the same bytes", lambda: log_bytes(source.log_dir(), "t-0") == log_bytes(destination.log_dir(), "t-0") != b"")
