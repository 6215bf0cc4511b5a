"""Users' handlers and listeners by their names, the guarding properties, and the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kmirror.cli import mirror_maker
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.legacy import ConsumerRecord
from kmirror.mirrormaker.legacy.plugins import load_message_handler, load_rebalance_listener
from kmirror.mirrormaker.legacy.settings import BUILT_IN_PARTITIONER, consumer_settings, include_pattern, producer_settings
from kmirror.record.record_batch import TimestampType

PAGE = Path(__file__).parents[3] / "docs" / "MIRRORMAKER.md"


@pytest.fixture
def documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's example as a module in the current folder."""
    (tmp_path / "documented_plugins.py").write_text(
        re.search(r"### Handlers and listeners.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    )
    (tmp_path / "other_plugins.py").write_text(
        "class Init:\n    def init(self, text): self.text = text\n    def handle(self, record): return [self.text]\nclass Nothing: pass\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def record(key: bytes) -> ConsumerRecord:
    return ConsumerRecord("orders", 0, 1, 77, TimestampType.CREATE_TIME, key, b"v", [])


def test_the_documented_handler_filters_and_renames(documented: Path) -> None:
    handler = load_message_handler("documented_plugins:WithoutTests", "west.")
    assert handler.handle(record(b"test-1")) == []
    assert [(made.topic, made.value, made.timestamp) for made in handler.handle(record(b"1"))] == [("west.orders", b"v", 77)]
    assert load_message_handler("documented_plugins:WithoutTests", None).prefix == "east."


async def test_the_documented_listener_writes_down_what_it_owns(documented: Path) -> None:
    listener = load_rebalance_listener("documented_plugins:Told", "mine.txt")
    await listener.on_partitions_assigned(["orders-0"])
    await listener.on_partitions_revoked(["orders-0"])
    assert (documented / "mine.txt").read_text() == "got orders-0\ngave up orders-0\n"


def test_a_handler_with_init_gets_its_arguments_there(documented: Path) -> None:
    assert load_message_handler("other_plugins:Init", "a b").handle(record(b"1")) == ["a b"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "is not of the form module:attribute"),
        ("no_such_module:X", "the module cannot be loaded: ModuleNotFoundError"),
        ("other_plugins:Missing", "has no class or function Missing"),
        ("other_plugins:number", "has no class or function number"),
        ("other_plugins:Nothing", "has"),
    ],
)
def test_a_name_that_is_no_plugin_is_one_line(documented: Path, name: str, reason: str) -> None:
    for load in (load_message_handler, load_rebalance_listener):
        with pytest.raises(ConfigError, match=re.escape(reason)) as caught:
            load(name, None)
        assert "\n" not in str(caught.value)


def test_properties_guard_against_loss_and_a_file_that_overrides_one_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert producer_settings({"bootstrap.servers": "b", "producer.type": "sync", "key.serializer": "x"}) == {
        "bootstrap.servers": "b",
        "acks": "all",
        "delivery.timeout.ms": "2147483647",
        "max.block.ms": "9223372036854775807",
        "max.in.flight.requests.per.connection": "1",
    }
    assert consumer_settings({}) == {"enable.auto.commit": "false"} and not caplog.messages
    assert producer_settings({"acks": "1"})["acks"] == "1" and consumer_settings({"enable.auto.commit": "true"})
    assert caplog.messages == [
        "Property acks is overridden to 1 - data loss or message reordering is possible.",
        "Property enable.auto.commit is overridden to true - data loss or message reordering is possible.",
    ]


def test_include_is_read_as_kafkas_list_of_topics() -> None:
    pattern = include_pattern(' "orders, parcels.*" ')
    assert [bool(pattern.fullmatch(name)) for name in ("orders", "parcels-1", "order", "xorders")] == [True, True, False, False]
    with pytest.raises(ConfigError, match=r"^Invalid expression syntax: \(: \( is an invalid regex"):
        include_pattern("(")
    for nothing in ("", "  ", " ' ' ", '""'):
        with pytest.raises(ConfigError, match="Topic pattern to subscribe to cannot be empty$"):
            include_pattern(nothing)


def test_a_partitioner_of_the_users_is_refused_because_records_would_go_elsewhere() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value org.acme.ByShop for configuration partitioner.class: .* message handler"):
        producer_settings({"partitioner.class": "org.acme.ByShop"})
    assert "partitioner.class" not in producer_settings({"partitioner.class": BUILT_IN_PARTITIONER})


def test_properties_that_no_client_reads_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The run ends at --http.listener, which has no port."""
    (tmp_path / "c").write_text("bootstrap.servers=127.0.0.1:1\ngroup.id=g\nauto.offset.rest=earliest\nkey.deserializer=x\n")
    (tmp_path / "p").write_text("bootstrap.servers=127.0.0.1:1\ninterceptor.classes=org.acme.Audit\nproducer.type=async\n")
    monkeypatch.chdir(tmp_path)
    assert mirror_maker.main(["--consumer.config", "c", "--producer.config", "p", "--include", "x", "--http.listener", "nowhere"]) == 1
    assert [line for line in caplog.messages if "unknown" in line] == [
        "Property auto.offset.rest of the consumer is unknown and changes nothing.",
        "Property interceptor.classes of the producer is unknown and changes nothing.",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--version"], 0, "3.9.1"),
        (["--foo"], 1, "foo is not a recognized option"),
        (["--producer.config", "p"], 1, 'Missing required argument "[consumer.config]"'),
        (["--consumer.config", "c"], 1, 'Missing required argument "[producer.config]"'),
        (
            ["--consumer.config", "none", "--producer.config", "p"],
            1,
            "Exception when starting mirror maker. cannot read none: No such file",
        ),
        (["--consumer.config", "c", "--producer.config", "p"], 1, "include list must be specified"),
        (
            ["--consumer.config", "c", "--producer.config", "p", "--include", "x", "--num.streams", "0"],
            1,
            "--num.streams must be at least 1",
        ),
        (
            ["--consumer.config", "c", "--producer.config", "p", "--include", "x", "--num.streams", "x"],
            1,
            "Cannot parse argument 'x' of option",
        ),
        (["--consumer.config", "c", "--producer.config", "p", "--include", "("], 255, "Invalid expression syntax: ("),
        (["--consumer.config", "c", "--producer.config", "p", "--include", ""], 255, "subscribe to cannot be empty"),
        (
            ["--consumer.config", "c", "--producer.config", "p", "--whitelist", "x", "--abortOnSendFail", "maybe"],
            1,
            'For input string: "maybe"',
        ),
        (["--consumer.config", "c", "--producer.config", "wrong", "--include", "x"], 1, "Invalid value x for configuration linger.ms"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").write_text("bootstrap.servers=127.0.0.1:1\ngroup.id=g\npartition.assignment.strategy=roundrobin\n")
    (tmp_path / "p").write_text("bootstrap.servers=127.0.0.1:1\n")
    (tmp_path / "wrong").write_text("bootstrap.servers=127.0.0.1:1\nlinger.ms=x\n")
    assert mirror_maker.main(arguments) == code
    shown = "".join(capsys.readouterr())
    assert text in shown and "Traceback" not in shown
    if "Missing required" not in text:
        assert len(shown.splitlines()) == 1
