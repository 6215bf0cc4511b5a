"""`kafka-mirrors --list`, `--describe` and `--watch`: what they say of sources that do not answer,
of fronts, and in how many columns. Without clusters.
"""

from __future__ import annotations

import io
import json
import os
from types import SimpleNamespace
from typing import Any

import pytest
from support.mirrors.admin_double import REFUSED, AdminDouble, LogDouble
from support.mirrors.scripted_source import batch

from kmirror.admin.results import MirrorDescription, MirrorListing, MirrorPartitionDescription
from kmirror.cli.mirrors import build_parser
from kmirror.cli.mirrors_actions import MirrorCommand
from kmirror.cli.mirrors_list import health_of
from kmirror.cli.mirrors_tables import describe_table, list_json
from kmirror.cli.mirrors_watch import CLEAR, MirrorWatch
from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.asyncio_runtime import run

LONG = "a-topic-with-a-rather-long-name-that-does-not-fit-in-a-narrow-terminal"
T0 = TopicPartition("t", 0)
TEN = [batch(offset, b"a", b"b") for offset in range(0, 20, 2)]


def row(
    topic: str = "t", partition: int = 0, *, lag: int = 0, last: int = 0, age_ms: int = 800, state: str = "MIRRORING"
) -> MirrorPartitionDescription:
    return MirrorPartitionDescription(topic, partition, 20, 20, lag, state, 0, None, last, age_ms)


def clients_of(runtime: Any, admin: Any, sources: dict[str, Any], *arguments: str) -> Any:
    async def source(name: str, **_: object) -> Any:
        if isinstance(sources[name], Exception):
            raise sources[name]
        return sources[name]

    options = build_parser().parse_args(["--bootstrap-server", "a:1", *arguments])
    return SimpleNamespace(runtime=runtime, admin=admin, source=source, options=options, user=None)


def described(admin: Any, sources: dict[str, Any], *arguments: str) -> None:
    async def main(runtime: Any) -> None:
        action = arguments[0].removeprefix("--")
        await getattr(MirrorCommand(clients_of(runtime, admin, sources, *arguments)), f"do_{action}")()

    run(main)


MIRRORS = {
    "down": [row(lag=-1, last=12, age_ms=42_000), row(partition=1, state="PAUSED")],
    "new": [row(lag=-1, last=-1, age_ms=-1)],
    "void": [],
    "well": [row(), row(partition=1, lag=3, last=3, age_ms=1_500)],
}
SOURCES = {
    "down": AdminDouble(away=REFUSED),
    "new": ConfigError("mirror new: it needs a password"),
    "void": AdminDouble(cluster_id="other"),
    "well": AdminDouble(cluster_id="here"),
}


def test_list_said_nothing_of_mirrors_whose_sources_are_gone(capsys: pytest.CaptureFixture[str]) -> None:
    admin = AdminDouble(mirrors=MIRRORS, source_cluster_ids={"well": "here", "void": "another"})
    described(admin, SOURCES, "--list")
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER"], "the KIP's table is first, unchanged"
    assert out[5:] == [
        "  down: 1 MIRRORING, 1 PAUSED; largest lag 12, as of 42 s ago, not known now of 1 partition(s); "
        "the source does not answer: no broker could be reached: a:1: Connection refused",
        "  new: 1 MIRRORING; its lag was never known; the source does not answer: mirror new: it needs a password",
        "  void: no partitions; the source does not answer: cluster other is not the source of mirror void, another",
        "  well: 1 MIRRORING; largest lag 3, as of 1 s ago; the source answers".replace("1 MIRRORING", "2 MIRRORING"),
    ]


def test_list_without_descriptions_is_not_well() -> None:
    class Silent(AdminDouble):
        async def describe_mirrors(self, *_: object) -> Any:
            raise KmirrorError("broker 2 does not answer")

    admin = Silent(mirrors={"well": []})

    async def main(runtime: Any) -> Any:
        return await health_of(clients_of(runtime, admin, SOURCES, "--list"), [MirrorListing("well", "a:1", "x", 1)])

    health = run(main)
    assert str(health["well"]) == "states are not known: broker 2 does not answer; the source answers"
    (shown,) = json.loads(list_json([MirrorListing("well", "a:1", "x", 1)], health))
    assert shown["states"] is None and shown["sourceAnswers"] is True and shown["bootstrapServers"] == "a:1"


def mirror_of(start: int, **configs: str) -> AdminDouble:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    return AdminDouble({T0: LogDouble(TEN, start)}, configs=settings, mirrors={"m": [row()]})


@pytest.mark.parametrize(
    ("here", "there", "note"),
    [
        (mirror_of(0), AdminDouble({T0: LogDouble(TEN)}), None),
        (
            mirror_of(6, retention_ms="3600000"),
            AdminDouble({T0: LogDouble(TEN)}),
            "m: t-0: offsets 0 to 5 are only at the source: this log begins later "
            "(retention here: they are older than its retention.ms=3600000)",
        ),
        (mirror_of(6), AdminDouble({T0: LogDouble(TEN)}), "(why is not known)"),
        (mirror_of(5), AdminDouble({T0: LogDouble(TEN)}), "(DeleteRecords here: its log start lies inside a batch)"),
        (mirror_of(0), AdminDouble({T0: LogDouble(TEN, 5)}), "offsets 0 to 4 are only at the mirror: the source begins later"),
        (mirror_of(0), AdminDouble(away=REFUSED), "m: the source was not looked at, so it is not known whether it has"),
        (mirror_of(0), ConfigError("no password"), "records before the log starts here: no password"),
        (mirror_of(0), AdminDouble({T0: LogDouble(TEN)}, silent_starts=True), "m: the source was not looked at"),
    ],
)
def test_describe_spoke_only_of_ends(here: Any, there: Any, note: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    described(here, {"m": there}, "--describe", "--mirror", "m")
    notes = capsys.readouterr().out.splitlines()[2:]
    assert not notes if note is None else note in notes[-1]
    described(here, {"m": there}, "--describe", "--mirror", "m", "--json")
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["front"] is None and shown["frontProblem"] is None) == (note is None)


@pytest.mark.parametrize("columns", [100, 80, 60])
def test_watch_wrapped_its_rows(columns: int) -> None:
    out = io.StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    watch = MirrorWatch(out, as_json=False, size=lambda: os.terminal_size((columns, 24)))
    watch.looked(0, [MirrorDescription("dr", [row(LONG, number) for number in range(3)])], None)
    lines = out.getvalue().split(CLEAR)[1].splitlines()
    assert max(map(len, lines)) <= columns and len(lines) == 5
    assert all("narrow-terminal " in line and line.split()[-1] == "MIRRORING" for line in lines[2:])


def test_names_are_whole_where_nothing_has_to_fit() -> None:
    assert LONG in describe_table([MirrorDescription("dr" * 20, [row(LONG)])])
    assert "dr" * 20 in describe_table([MirrorDescription("dr" * 20, [row(LONG)])], columns=200)


def test_a_hung_source_looked_like_a_mirror_that_is_up_to_date() -> None:
    out = io.StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    watch = MirrorWatch(out, as_json=False, size=lambda: os.terminal_size((120, 24)))
    watch.looked(0, [MirrorDescription("m", [row(lag=-1, last=7, age_ms=42_000)]), MirrorDescription("n", [row()])], None)
    headline, _, silent, well = out.getvalue().split(CLEAR)[1].splitlines()[:4]
    assert "  the source of m is silent for 42 s; 2 partition(s): 2 MIRRORING; lag 0, not known of 1" in headline
    assert silent.endswith("MIRRORING, source silent 42 s") and well.rstrip().endswith("MIRRORING")
