"""EmbeddedCluster never waits for ever: options that cannot work are refused, and what a start or a
stop waits for has an end and a reason.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from support.mirrors.mirror_harness import create_topic, produce_numbered, wait_for

from kmirror import EmbeddedCluster, Security
from kmirror.common.errors import KmirrorError
from kmirror.embedded_options import DEFAULT_USERS

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
SOON = {"initial.broker.registration.timeout.ms": "1500"}


@pytest.mark.parametrize("how", ["sasl_plaintext", "ssl"])
def test_super_users_that_lacked_the_cluster_s_own_user_made_the_start_hang(how: str) -> None:
    security = Security.sasl_plaintext({"admin": "a", "ops": "o"}) if how == "sasl_plaintext" else Security.ssl(users=["admin"])
    with EmbeddedCluster(security=security, config=AUTHORIZER | {"super.users": "User:admin"}) as cluster:
        assert cluster.bootstrap_servers
        users = cluster.call(lambda server: server.broker._config.props["super.users"])  # type: ignore[union-attr]
    assert users == "User:admin;User:broker"


@pytest.mark.parametrize("where", ["config", "node_config"])
def test_an_authorizer_over_plaintext_says_what_is_missing(where: str) -> None:
    given = AUTHORIZER | {"super.users": "User:admin"}
    cluster = EmbeddedCluster(**{where: given if where == "config" else {0: given}})
    with pytest.raises(KmirrorError, match=r"the brokers themselves are User:ANONYMOUS.*add User:ANONYMOUS to super.users"):
        cluster.start()
    with EmbeddedCluster(config=AUTHORIZER | {"super.users": "User:admin;User:ANONYMOUS"}):
        pass
    with EmbeddedCluster(config=AUTHORIZER | {"allow.everyone.if.no.acl.found": "true"}):
        pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"config": {"min.insync.replica": "2"}}, "no broker property min.insync.replica; did you mean min.insync.replicas?"),
        ({"config": {"super.user": "User:a"}}, "no broker property super.user; did you mean super.users?"),
        ({"node_config": {0: {"broker.rak": "a"}}}, "no broker property broker.rak; did you mean broker.rack?"),
        ({"config": {"nonsense": "1"}}, "no broker property nonsense"),
        ({"node_config": {1: {}}}, "node_config has the indexes 0 to 0, not 1"),
        ({"node_config": {2999: {}}}, "node_config[2999] is the controller of processes=True; here it is node 0"),
        ({"node_config": {0: {}, "0": {}}}, "node_config has the index 0 twice"),
        ({"config": {"log.dir": "x"}}, "log.dir has no effect beside log.dirs"),
        ({"config": "a=b"}, "config is a dict, not 'a=b'"),
        ({"brokers": "many"}, "brokers is a number from 1, not 'many'"),
        ({"brokers": True}, "brokers is a number from 1, not True"),
        ({"security": "tls"}, "security is one of plaintext, ssl, sasl_plaintext, sasl_ssl, not 'tls'"),
        ({"processes": "yes"}, "processes is True or False, not 'yes'"),
    ],
)
def test_an_option_that_cannot_be_meant_is_one_line(options: dict, text: str) -> None:
    with pytest.raises(KmirrorError) as refused:
        EmbeddedCluster(**options)
    assert text in str(refused.value) and "\n" not in str(refused.value)


def test_the_id_of_a_cluster_that_was_there_before_was_not_told(tmp_path: Path) -> None:
    first = "aaaaaaaaaaaaaaaaaaaaaa"
    with EmbeddedCluster(folder=tmp_path, cluster_id=first):
        pass
    with EmbeddedCluster(folder=tmp_path) as again:
        assert again.cluster_id == first == again.call(lambda server: server.broker._cluster_id)  # type: ignore[union-attr]
    with pytest.raises(KmirrorError, match=f"has the id {first}, not b+"):
        EmbeddedCluster(folder=tmp_path, cluster_id="b" * 22).start()


def test_the_data_dir_is_where_log_dirs_says(tmp_path: Path) -> None:
    with EmbeddedCluster(2, node_config={1: {"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"}}) as cluster:
        assert cluster.log_dir(1) == tmp_path / "one" and (tmp_path / "one" / "meta.properties").exists()
        assert (cluster.log_dir() / "meta.properties").exists()


def test_options_are_taken_as_the_marker_takes_them() -> None:
    with EmbeddedCluster("2", security="SASL_PLAINTEXT", config={"num.partitions": 3, "auto.create.topics.enable": False}) as cluster:
        assert len(cluster.nodes) == 2
        assert cluster.client_properties("alice")["sasl.password"] == DEFAULT_USERS["alice"]
        assert cluster.call(lambda server: server.broker._config.auto_create_topics_enable) is False  # type: ignore[union-attr]


@pytest.mark.parametrize("processes", [False, True])
def test_a_broker_that_may_not_register_says_so(processes: bool) -> None:
    who = {"ssl.principal.mapping.rules": "DEFAULT", "super.users": "User:nobody"}
    cluster = EmbeddedCluster(security="ssl", processes=processes, config=AUTHORIZER | SOON | who)
    with pytest.raises(
        KmirrorError, match=r"within 1500 ms \(initial.broker.registration.timeout.ms\).*CLUSTER_AUTHORIZATION_FAILED.*super.users"
    ):
        cluster.start()


def test_a_controller_that_is_elsewhere_is_named() -> None:
    with EmbeddedCluster(config=SOON) as other:
        cluster = EmbeddedCluster(2, config=SOON, node_config={1: {"controller.quorum.voters": "1@127.0.0.1:1"}})
        with pytest.raises(KmirrorError, match=r"the controller at 127.0.0.1:1 does not answer: cannot connect"):
            cluster.start()
        assert other.nodes[0].is_running


def test_a_start_that_takes_too_long_names_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from kmirror.server.broker_lifecycle_manager import BrokerLifecycleManager

    monkeypatch.setattr(BrokerLifecycleManager, "set_ready_to_unfence", lambda self: None)
    with pytest.raises(
        KmirrorError, match=r"did not start within 1000 ms \(server.max.startup.time.ms\): it waits for the controller to unfence it"
    ):
        EmbeddedCluster(config={"server.max.startup.time.ms": "1000"}).start()


def test_a_stop_that_takes_for_ever_is_cut_short(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from kmirror import embedded, node_process
    from kmirror.server.kafka_server import KafkaServer

    async def never(self: KafkaServer) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(embedded, "STOP_TIMEOUT_S", 0.2)
    with EmbeddedCluster() as cluster:
        monkeypatch.setattr(KafkaServer, "stop", never)
        cluster.stop_node()
        assert "node 1 did not stop within 0.2 s and is dropped" in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr(node_process, "STOP_TIMEOUT_S", 0.2)
    with EmbeddedCluster(processes=True) as cluster:
        os.kill(cluster.nodes[0].process.pid, signal.SIGSTOP)  # type: ignore[union-attr]
        cluster.stop_node()
    assert "node 1 did not stop within 0.2 s and is killed; the last lines of its log" in caplog.text


def test_a_process_that_died_by_itself_was_taken_for_a_running_one(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedCluster(processes=True) as cluster:
        node = cluster.nodes[0]
        assert node.process is not None
        os.kill(node.process.pid, signal.SIGKILL)
        wait_for("the end to be noticed", lambda: not node.is_running)
        assert f"node 1 (process {node.process.pid}) ended by itself, killed by SIGKILL" in caplog.text
        assert "Kafka Server started" in caplog.text
        cluster.start_node()
        create_topic(cluster.bootstrap_servers, "t")
        produce_numbered(cluster.bootstrap_servers, "t", 0, 10)
        caplog.clear()
    assert "ended by itself" not in caplog.text


def test_controlled_shutdown_can_be_switched_off_and_topics_be_kept() -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    with EmbeddedCluster(config={"controlled.shutdown.enable": "false", "delete.topic.enable": "false"}) as cluster:
        create_topic(cluster.bootstrap_servers, "kept")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        with pytest.raises(KafkaException, match="TOPIC_DELETION_DISABLED"):
            admin.delete_topics(["kept"])["kept"].result(30)
        assert "kept" in admin.list_topics(timeout=30).topics
        lifecycle = cluster.call(lambda server: server.broker._lifecycle)  # type: ignore[union-attr]
        cluster.stop_node()
        assert lifecycle is not None and not lifecycle.may_shut_down.done()
