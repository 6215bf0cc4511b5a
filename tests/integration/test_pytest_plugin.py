"""The pytest plugin, as a user's tests meet it: what its fixtures give, when clusters are shared,
and what wrong options say.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.pytest_plugin import Admin, _clean

pytest_plugins = ["pytester"]

INNER = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""For inner runs: hypothesis would be imported anew for the summary of each."""


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Everything is imported once: pytester forgets what an inner run imports, and importing a
    broker again is slow.
    """
    with EmbeddedCluster(security=Security.sasl_plaintext({"alice": "alice-secret"})) as cluster:
        properties = cluster.client_properties("alice")
        producer = Producer(properties)
        producer.produce("warm", b"x")
        assert producer.flush(10) == 0
        consumer = Consumer(properties | {"group.id": "g"})
        consumer.commit(offsets=[TopicPartition("warm", 0, 1)], asynchronous=False)
        consumer.close()
        Admin(cluster, "alice").run(_clean)


def run(pytester: pytest.Pytester, source: str, *, passed: int, ini: str = "") -> pytest.RunResult:
    pytester.makepyfile(source)
    pytester.makeini(f"[pytest]\n{ini}")
    result = pytester.runpytest_inprocess(*INNER, "-q")
    result.assert_outcomes(passed=passed)
    return result


def test_tests_share_a_cluster_when_their_options_are_equal(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import pytest

        seen = []

        def test_first(kmirror_cluster):
            seen.append(kmirror_cluster.cluster_id)

        def test_second(kmirror_cluster):
            seen.append(kmirror_cluster.cluster_id)

        @pytest.mark.kmirror(brokers=2)
        def test_with_two_brokers(kmirror_cluster):
            assert len(kmirror_cluster.nodes) == 2
            seen.append(kmirror_cluster.cluster_id)

        @pytest.mark.kmirror(scope="function")
        def test_of_its_own(kmirror_cluster):
            seen.append(kmirror_cluster.cluster_id)

        def test_what_was_seen():
            assert seen[0] == seen[1]
            assert len(set(seen)) == 3
        """,
        passed=5,
    )


def test_a_cluster_that_a_test_broke_is_not_given_to_the_next(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        seen = []

        def test_that_kills(kmirror_cluster):
            seen.append(kmirror_cluster.cluster_id)
            kmirror_cluster.kill_node()

        def test_after(kmirror_cluster, kmirror_admin):
            assert kmirror_cluster.cluster_id not in seen
            assert kmirror_admin.run(lambda admin: admin.list_topics()) == []
        """,
        passed=2,
    )


def test_topics_and_names_are_unique_and_topics_are_deleted(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        from confluent_kafka import Consumer, Producer

        made = []

        def test_two_topics(kmirror_cluster, kmirror_topic, kmirror_name, kmirror_admin):
            first, second = kmirror_topic("orders", partitions=3, config={"retention.ms": 1000}), kmirror_topic("orders")
            made.extend([first, second, kmirror_name("group"), kmirror_name("group")])
            described = kmirror_admin.run(lambda admin: admin.describe_topics([first]))
            assert len(described[first].partitions) == 3
            producer = Producer(kmirror_cluster.client_properties())
            producer.produce(second, b"x")
            assert producer.flush(10) == 0

        def test_they_are_gone(kmirror_admin):
            assert len(set(made)) == 4
            assert not set(made) & set(kmirror_admin.run(lambda admin: admin.list_topics()))
        """,
        passed=2,
    )


def test_clean_deletes_what_a_test_left_behind(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        from confluent_kafka import Consumer, Producer, TopicPartition

        def test_that_leaves_things(kmirror_cluster):
            producer = Producer(kmirror_cluster.client_properties())
            producer.produce("left", b"x")
            producer.produce("__left", b"x")
            assert producer.flush(10) == 0
            consumer = Consumer(kmirror_cluster.client_properties() | {"group.id": "g"})
            consumer.commit(offsets=[TopicPartition("left", 0, 1)], asynchronous=False)
            consumer.close()

        def test_after(kmirror_admin):
            assert kmirror_admin.run(lambda admin: admin.list_topics()) == []
            assert kmirror_admin.run(lambda admin: admin.list_groups()) == []
        """,
        ini="kmirror_clean = true\n",
        passed=2,
    )


def test_the_marker_wins_over_the_ini_and_a_test_over_its_class(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import pytest
        from kmirror.admin.results import ConfigResourceType

        def value(admin, name):
            entries = admin.run(lambda client: client.describe_configs(ConfigResourceType.BROKER, "1"))
            return next(entry.value for entry in entries if entry.name == name)

        @pytest.mark.kmirror(config={"num.partitions": 5, "message.max.bytes": 2000})
        class TestClass:
            def test_class(self, kmirror_admin):
                assert [value(kmirror_admin, name) for name in ("log.retention.ms", "num.partitions", "message.max.bytes")] == ["7", "5", "2000"]

            @pytest.mark.kmirror(config={"num.partitions": 6}, brokers=2)
            def test_own(self, kmirror_cluster, kmirror_admin):
                assert len(kmirror_cluster.nodes) == 2
                assert [value(kmirror_admin, name) for name in ("log.retention.ms", "num.partitions", "message.max.bytes")] == ["7", "6", "2000"]
        """,
        ini="kmirror_config =\n    log.retention.ms=7\n    num.partitions=3\n",
        passed=2,
    )


def test_coroutines_have_an_admin_client_on_their_loop(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import asyncio

        def test_async(kmirror_admin, kmirror_topic, kmirror_cluster_factory):
            async def main():
                async with kmirror_admin.connect() as admin:
                    topic = kmirror_topic()
                    assert topic in await admin.list_topics()
                async with kmirror_cluster_factory.make(brokers=2) as cluster:
                    assert len(cluster.nodes) == 2

            asyncio.run(main())

        def test_factory(kmirror_cluster_factory):
            first, second = kmirror_cluster_factory(), kmirror_cluster_factory(config={"num.partitions": 2})
            assert first.cluster_id != second.cluster_id
        """,
        passed=2,
    )


def test_a_secured_cluster_lets_its_user_in(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import pytest
        from confluent_kafka import Producer

        @pytest.mark.kmirror(security="sasl_plaintext", users={"bob": "bob-secret"})
        def test_bob(kmirror_cluster, kmirror_topic):
            producer = Producer(kmirror_cluster.client_properties("bob"))
            producer.produce(kmirror_topic(), b"x")
            assert producer.flush(10) == 0
        """,
        passed=1,
    )


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ("users={'bob': 'x'}", "users are without effect with security='plaintext'"),
        ("security='ssl', mechanism='PLAIN'", "mechanism is without effect with security='ssl'"),
        ("scope='function', clean=True", "clean is without effect with scope='function'"),
        ("broker=3", "there is no option 'broker'; the options are brokers, scope, config"),
        ("brokers=0", "brokers is a number from 1, not 0"),
        ("brokers='many'", "brokers is a number from 1, not 'many'"),
        ("scope='module'", "scope is one of session, function, not 'module'"),
        ("security='tls'", "security is one of plaintext, ssl, sasl_plaintext, sasl_ssl, not 'tls'"),
        ("config='a=b'", "config is a dict, not 'a=b'"),
        ("clean='yes'", "clean is True or False, not 'yes'"),
        ("config={'min.insync.replica': 2}", "there is no broker property min.insync.replica; did you mean min.insync.replicas?"),
        ("config={'num.partitions': 'x'}", "Invalid value x for configuration num.partitions"),
        (
            "config={'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer'}, scope='function'",
            "with authorizer.class.name and security='plaintext' the brokers themselves are User:ANONYMOUS",
        ),
        ("3", "the marker takes options by name only, not 3"),
    ],
)
def test_wrong_options_are_one_clear_line(pytester: pytest.Pytester, marker: str, text: str) -> None:
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.kmirror({marker})\ndef test_it(kmirror_cluster):\n    pass\n")
    result = pytester.runpytest_inprocess(*INNER, "-q")
    result.assert_outcomes(errors=1)
    assert f"kmirror: {text}" in result.stdout.str()
    error = result.stdout.str().partition("ERROR at setup")[2].partition("short test summary")[0]
    assert len(error.splitlines()) == 3, f"how our code got there helps nobody: {error}"


def test_the_report_of_a_test_whose_broker_died_has_its_last_words(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, signal, time
        import pytest

        @pytest.mark.kmirror(processes=True, scope="function")
        def test_it(kmirror_cluster):
            node = kmirror_cluster.nodes[0]
            os.kill(node.process.pid, signal.SIGKILL)
            while node.is_running:
                time.sleep(0.01)
            assert False, "its clients fail"
        """
    )
    result = pytester.runpytest_inprocess(*INNER, "-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*node 1 (process *) ended by itself, killed by SIGKILL; the last lines of its log (*", "*Kafka Server started*"]
    )
    result.stdout.fnmatch_lines(["*PytestWarning: kmirror: node 1 (process *) ended by itself, killed by SIGKILL*"])


def test_a_wrong_broker_property_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n\n@pytest.mark.kmirror(config={'num.partitions': 'x'})\ndef test_it(kmirror_cluster):\n    pass\n")
    result = pytester.runpytest_inprocess(*INNER, "-q")
    result.assert_outcomes(errors=1)
    assert "Invalid value x for configuration num.partitions" in result.stdout.str()


def test_fixtures_are_documented(pytester: pytest.Pytester) -> None:
    listed = pytester.runpytest_inprocess(*INNER, "--fixtures").stdout.str()
    for name in ("kmirror_cluster", "kmirror_cluster_factory", "kmirror_admin", "kmirror_name", "kmirror_topic"):
        assert name in listed
    assert "kmirror(brokers, scope, config" in pytester.runpytest_inprocess(*INNER, "--markers").stdout.str()


def test_every_pytest_run_pays_next_to_nothing_for_the_plugin() -> None:
    """The entry point is imported by every run on the machine: it may load nothing that pytest has
    not loaded.
    """
    code = (
        "import sys, pytest; before = set(sys.modules); import kmirror_pytest;"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('kmirror')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
