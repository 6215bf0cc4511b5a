"""The pytest plugin: a fixture gives a test a Kafka cluster.

It is available once kmirror is installed; nothing has to be switched on.

    def test_orders(kmirror_cluster, kmirror_topic):
        topic = kmirror_topic(partitions=3)
        producer = Producer(kmirror_cluster.client_properties())

    @pytest.mark.kmirror(brokers=3, scope="function", config={"min.insync.replicas": "2"})
    def test_a_broker_dies(kmirror_cluster):
        kmirror_cluster.kill_node(0)

Fixtures
    kmirror_cluster            the cluster that the marker describes: an `EmbeddedCluster`, running
    kmirror_cluster_factory    clusters by call, `factory(brokers=2)`, stopped after the test; `factory.make(...)` gives one that is not
                               started, for `async with`
    kmirror_topic              makes topics of unique names, `kmirror_topic("orders", partitions=3, config={...})`; deleted after the test
    kmirror_name               unique names, `kmirror_name("group")`: for groups, transactional ids, topics that the test makes itself
    kmirror_admin              the AdminClient: `kmirror_admin.run(lambda admin: admin.list_topics())`, and in async tests
                               `async with kmirror_admin.connect() as admin`

The marker's options (on a test, a class or, as `pytestmark`, a module), each with an ini option for its default
    brokers      kmirror_brokers      number of brokers (1)
    scope        kmirror_scope        "session": one cluster for all tests of the session with the same options; "function": one for the test
    config       kmirror_config       broker properties (in the ini file: a line each, name=value); the marker's are added to the ini's
    security     kmirror_security     plaintext, ssl, sasl_plaintext or sasl_ssl, with the user alice unless `users` says otherwise
    users        -                    {"alice": "alice-secret"}
    mechanism    kmirror_mechanism    the SASL mechanism (SCRAM-SHA-256)
    mirroring    kmirror_mirroring    cluster mirroring (KIP-1279) switched on
    processes    kmirror_processes    a process for each broker
    clean        kmirror_clean        session scope: every topic and every group without members is deleted after the test

Each worker of pytest-xdist has its own clusters; their ports come from the kernel. A session's
clusters end with the session. A session cluster is not used again if a test has left one of its
nodes stopped.

Every pytest run on a machine with kmirror imports this module, so it imports nothing else of
kmirror before a fixture needs it.
"""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.embedded import EmbeddedCluster
    from kmirror.embedded_security import Security

T = TypeVar("T")

SCOPES = ("session", "function")
MECHANISM = "SCRAM-SHA-256"
OPTIONS = ("brokers", "scope", "config", "security", "users", "mechanism", "mirroring", "processes", "clean")
MARKER = "kmirror(brokers, scope, config, security, users, mechanism, mirroring, processes, clean): the cluster that kmirror_cluster gives"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("kmirror_brokers", "number of brokers of kmirror_cluster", default="1")
    parser.addini("kmirror_scope", "lifetime of kmirror_cluster: session or function", default="session")
    parser.addini("kmirror_config", "broker properties of kmirror_cluster, name=value", type="linelist", default=[])
    parser.addini("kmirror_security", "one of plaintext, ssl, sasl_plaintext, sasl_ssl", default="plaintext")
    parser.addini("kmirror_mechanism", "the SASL mechanism of kmirror_cluster", default=MECHANISM)
    parser.addini("kmirror_mirroring", "cluster mirroring (KIP-1279) in kmirror_cluster", type="bool", default=False)
    parser.addini("kmirror_processes", "a process for each broker of kmirror_cluster", type="bool", default=False)
    parser.addini("kmirror_clean", "delete topics and groups after each test on a cluster of the session", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


# --- options
# ----------------------------------------------------------------------------------------------------------


class ClusterOptions:
    """The options of the ini file and the marker; KmirrorError for impossible ones."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        from kmirror import embedded_options as check
        from kmirror.common.errors import KmirrorError

        unknown = sorted(set(values) - set(OPTIONS))
        if unknown:
            raise KmirrorError(f"there is no option {unknown[0]!r}; the options are {', '.join(OPTIONS)}")
        self.brokers = check.number_of_brokers(values.get("brokers", 1))
        self.scope = check.word("scope", values.get("scope", "session"), SCOPES)
        self.security = check.word("security", values.get("security", "plaintext"), check.SECURITY)
        self.mechanism = str(values.get("mechanism", MECHANISM))
        self.config = check.strings("config", values.get("config", {}))
        self.users = check.strings("users", values.get("users", check.DEFAULT_USERS))
        self.mirroring = check.flag("mirroring", values.get("mirroring", False))
        self.processes = check.flag("processes", values.get("processes", False))
        self.clean = check.flag("clean", values.get("clean", False))

    @property
    def key(self) -> tuple[object, ...]:
        """Returns a key that is equal for clusters that can replace each other."""
        pairs = (tuple(sorted(self.config.items())), tuple(sorted(self.users.items())))
        return (self.brokers, self.security, self.mechanism, self.mirroring, self.processes, *pairs)

    def make(self) -> EmbeddedCluster:
        """Returns a cluster that is not started."""
        from kmirror.embedded import EmbeddedCluster

        return EmbeddedCluster(
            self.brokers, mirroring=self.mirroring, processes=self.processes, config=self.config, security=self._security()
        )

    def _security(self) -> Security:
        from kmirror.embedded_options import security_of

        return security_of(self.security, self.users, self.mechanism)

    @property
    def user(self) -> str | None:
        """The user of the plugin's own admin client: the first user, if clients need one."""
        return next(iter(self.users)) if self.security.startswith("sasl") else None


def _ini_values(config: pytest.Config) -> dict[str, Any]:
    values = {name: config.getini(f"kmirror_{name}") for name in OPTIONS if name not in ("users", "config")}
    from kmirror.common.errors import KmirrorError

    pairs = {}
    for line in config.getini("kmirror_config"):
        name, equals, value = line.partition("=")
        if not equals:
            raise KmirrorError(f"a line of kmirror_config is name=value, not {line!r}")
        pairs[name.strip()] = value.strip()
    return values | {"config": pairs}


def _options(request: pytest.FixtureRequest) -> ClusterOptions:
    """Returns the ini file's values, overridden by the markers; the test's own marker comes
    last.
    """
    from kmirror.common.errors import KmirrorError
    from kmirror.embedded_options import ensure_needed, strings

    values, given = _ini_values(request.config), dict[str, Any]()
    for marker in reversed(list(request.node.iter_markers("kmirror"))):
        if marker.args:
            raise KmirrorError(f"the marker takes options by name only, not {marker.args[0]!r}")
        config = strings("config", values["config"]) | strings("config", marker.kwargs.get("config", {}))
        values |= marker.kwargs | {"config": config}
        given |= marker.kwargs
    options = ClusterOptions(values)
    ensure_needed(given, options.security, options.scope)
    return options


# --- clusters
# ---------------------------------------------------------------------------------------------------------


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Ends the test with the line of a KmirrorError alone: how our code got there helps nobody who
    has misspelled an option.
    """
    from kmirror.common.errors import KmirrorError

    try:
        yield
    except KmirrorError as error:
        raise pytest.fail.Exception(f"kmirror: {error}", pytrace=False) from None


class _SessionClusters:
    """Owns the clusters that tests share, by their options."""

    def __init__(self) -> None:
        self._running: dict[tuple[object, ...], EmbeddedCluster] = {}

    def get(self, options: ClusterOptions) -> EmbeddedCluster:
        cluster = self._running.get(options.key)
        if cluster is not None and not all(node.is_running for node in cluster.nodes):
            self._running.pop(options.key).stop()
            cluster = None
        if cluster is None:
            cluster = self._running[options.key] = options.make().start()
        return cluster

    def stop(self) -> None:
        while self._running:
            self._running.popitem()[1].stop()


class ClusterFactory:
    """Creates clusters with the marker's options; the defaults are those of the ini file."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = dict(defaults)
        self._started: list[EmbeddedCluster] = []

    def make(self, **options: Any) -> EmbeddedCluster:
        """Returns a cluster that is not started: `with` or `async with` starts and stops it."""
        from kmirror.embedded_options import ensure_needed

        with _errors_in_one_line():
            found = ClusterOptions(self._defaults | options)
            ensure_needed(options, found.security, scope="function")
            return found.make()

    def __call__(self, **options: Any) -> EmbeddedCluster:
        """Returns a running cluster; it is stopped after the test."""
        with _errors_in_one_line():
            cluster = self.make(**options).start()
        self._started.append(cluster)
        return cluster

    def stop(self) -> None:
        while self._started:
            self._started.pop().stop()


class Admin:
    """The AdminClient of a cluster for synchronous and asynchronous tests."""

    def __init__(self, cluster: EmbeddedCluster, user: str | None) -> None:
        self._cluster = cluster
        self._user = user

    def run(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Runs `work(admin)` to its end.

        Inside a coroutine it blocks, and runs the work on a thread of its own.
        """
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        from kmirror.runtime.asyncio_runtime import run

        async def main(runtime: Any) -> T:
            async with self._client(runtime) as admin:
                return await work(admin)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run(main)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run, main).result()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[AdminClient]:
        """Gives an AdminClient on the running loop, for asynchronous tests."""
        from kmirror.runtime.asyncio_runtime import AsyncioRuntime

        runtime = AsyncioRuntime(worker_count=1)
        try:
            async with self._client(runtime) as admin:
                yield admin
        finally:
            runtime.close()

    def _client(self, runtime: Any) -> AdminClient:
        from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
        from kmirror.network.client_security import ClientSecurity

        properties = self._cluster.client_properties(self._user, style="java")
        servers = parse_bootstrap_servers(properties["bootstrap.servers"])
        return AdminClient(runtime, servers, client_id="kmirror-pytest", security=ClientSecurity.from_props(properties))


def _tell_deaths(cluster: EmbeddedCluster) -> None:
    """Warns of brokers that ended by themselves: a test may have passed all the same."""
    for node in cluster.nodes:
        if node.death is not None:
            warnings.warn(pytest.PytestWarning(f"kmirror: {node.death}"), stacklevel=2)


async def _clean(admin: AdminClient) -> None:
    """Deletes every topic that is not internal, and every group without members."""
    topics = await admin.list_topics()
    if topics:
        await admin.delete_topics(topics)
    groups = [row.group_id for row in await admin.list_groups() if row.state in ("Empty", "")]
    await admin.delete_consumer_groups(groups)


@pytest.fixture(scope="session")
def _kmirror_session_clusters() -> Iterator[_SessionClusters]:
    clusters = _SessionClusters()
    yield clusters
    clusters.stop()


@pytest.fixture
def _kmirror_options(request: pytest.FixtureRequest) -> ClusterOptions:
    with _errors_in_one_line():
        return _options(request)


@pytest.fixture
def kmirror_cluster(request: pytest.FixtureRequest, _kmirror_options: ClusterOptions) -> Iterator[EmbeddedCluster]:
    """A running Kafka cluster, an `EmbeddedCluster`: as @pytest.mark.kmirror(...) describes it."""
    options = _kmirror_options
    if options.scope == "function":
        with _errors_in_one_line():
            own = options.make().start()
        try:
            yield own
            _tell_deaths(own)
        finally:
            own.stop()
        return
    clusters: _SessionClusters = request.getfixturevalue("_kmirror_session_clusters")
    with _errors_in_one_line():
        cluster = clusters.get(options)
    yield cluster
    _tell_deaths(cluster)
    if options.clean and all(node.is_running for node in cluster.nodes):
        Admin(cluster, options.user).run(_clean)


@pytest.fixture
def kmirror_cluster_factory(request: pytest.FixtureRequest) -> Iterator[ClusterFactory]:
    """Makes clusters, `kmirror_cluster_factory(brokers=2, ...)` with the marker's options; they are
    stopped after the test.
    """
    with _errors_in_one_line():
        factory = ClusterFactory(_ini_values(request.config))
    yield factory
    factory.stop()


@pytest.fixture
def kmirror_admin(kmirror_cluster: EmbeddedCluster, _kmirror_options: ClusterOptions) -> Admin:
    """The AdminClient of kmirror_cluster: `kmirror_admin.run(lambda admin: ...)`, `async with
    kmirror_admin.connect() as admin`.
    """
    return Admin(kmirror_cluster, _kmirror_options.user)


_numbers = itertools.count(1)


@pytest.fixture
def kmirror_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names that no other test of this session uses: `kmirror_name("group")`."""
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:60]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")

    def name(prefix: str = "name") -> str:
        return "-".join(filter(None, (prefix, test, worker, str(next(_numbers)))))

    return name


@pytest.fixture
def kmirror_topic(
    kmirror_admin: Admin, kmirror_cluster: EmbeddedCluster, kmirror_name: Callable[[str], str]
) -> Iterator[Callable[..., str]]:
    """Makes topics: `kmirror_topic("orders", partitions=3, replication_factor=2, config={...})`
    gives the name; deleted after the test.
    """
    made: list[str] = []

    def topic(
        prefix: str = "topic", *, partitions: int = -1, replication_factor: int = -1, config: Mapping[str, object] | None = None
    ) -> str:
        from kmirror.admin.results import NewTopic
        from kmirror.embedded_options import strings

        name = kmirror_name(prefix)

        async def create(admin: AdminClient) -> None:
            new = NewTopic(name, partitions, replication_factor, strings("config", config or {}))
            (await admin.create_topics([new])).all()

        with _errors_in_one_line():
            kmirror_admin.run(create)
        made.append(name)
        return name

    yield topic
    if made and all(node.is_running for node in kmirror_cluster.nodes):
        kmirror_admin.run(lambda admin: admin.delete_topics(made))
