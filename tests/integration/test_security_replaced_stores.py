"""Stores that are replaced in place reach running brokers and clients, and what is altered to the
same text reconnects.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, call, create_topic, numbered, partitions_of, produce, wait_caught_up, wait_for

from kmirror import EmbeddedCluster, Security
from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.cli import mirrors
from kmirror.common.errors import KmirrorError
from kmirror.embedded_security import BROKER_USER, _make_certificates
from kmirror.network.client_security import ClientSecurity
from kmirror.network.security import replaced_stores
from kmirror.runtime.asyncio_runtime import run


def test_certificates_renewed_in_place_were_not_seen_until_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaced_stores, "LOOK_EVERY_MS", 0)
    _make_certificates(tmp_path, [BROKER_USER, "alice"])
    with EmbeddedCluster(security=Security.ssl(users=["alice"])) as cluster:
        properties = cluster.client_properties("alice", style="java")
        trusted = tmp_path / "trusted.pem"
        shutil.copy(cluster.folder / "tls" / "ca.pem", trusted)
        props = properties | {"ssl.truststore.location": str(trusted)}

        async def ask(runtime: object) -> list[str]:
            async def topics(of: AdminClient) -> list[str]:
                of._client.close()
                of._client._closed = False
                return list(await of.list_topics())

            servers = parse_bootstrap_servers(properties["bootstrap.servers"])
            async with AdminClient(runtime, servers, security=ClientSecurity.from_props(props)) as admin:  # type: ignore[arg-type]
                assert await topics(admin) == []
                for name in ("ca.pem", f"{BROKER_USER}.pem", "alice.pem"):
                    (cluster.folder / "tls" / name).write_bytes((tmp_path / name).read_bytes())
                with pytest.raises(KmirrorError, match="certificate"):
                    await topics(admin)
                shutil.copy(tmp_path / "ca.pem", trusted)
                return await topics(admin)

        assert run(ask) == []
        create = cluster.call(lambda server: server.broker.apis.auto_topic_creation.create_topics)  # type: ignore[union-attr]
        cluster.call(lambda server: create(["t"]))
        wait_for("the brokers' own connections", lambda: "t" in cluster.call(lambda s: s.broker.metadata_cache.image.topics.by_name))  # type: ignore[union-attr]


def test_a_mirror_that_is_altered_to_the_same_text_did_not_reconnect(tmp_path: Path) -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b, EmbeddedCluster() as a:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 5))
        config = tmp_path / "m.properties"
        config.write_text(f"bootstrap.servers={a.bootstrap_servers}\n")
        tool = ["--bootstrap-server", b.bootstrap_servers]
        assert mirrors.main([*tool, "--create", "--mirror", "m", "--mirror-config", str(config)]) == 0
        assert mirrors.main([*tool, "--add", "--mirror", "m", "--topic", "t"]) == 0
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")

        def fetchers() -> list[int]:
            return b.call(lambda server: [id(running.fetcher) for running in server.broker.mirror.fetchers.running()])  # type: ignore[union-attr]

        before = fetchers()
        assert before
        assert mirrors.main([*tool, "--alter", "--mirror", "m", "--mirror-config", str(config)]) == 0
        wait_for("another fetcher", lambda: fetchers() and fetchers() != before)
        produce(a.bootstrap_servers, "t", numbered("b", 5))
        wait_for("the records", lambda: partitions_of(b.bootstrap_servers, "m")[0].destination_offset == 10)
        assert call(b.bootstrap_servers, lambda admin: admin.describe_mirrors(["m"]))["m"].partitions[0].state == "MIRRORING"
