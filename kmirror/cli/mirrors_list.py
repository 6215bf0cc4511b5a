"""What `kafka-mirrors --list` says below the KIP's table: is each mirror well?

For each mirror: its partitions by state, the largest lag with its age, and whether the source
answers now. All brokers are asked for the states, and all sources at once, each for a short time
only. What cannot be asked is told as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kmirror.admin.results import DescribeMirrorsOptions, MirrorDescription, MirrorListing
from kmirror.cli.mirrors_clients import SHORT_TIMEOUT_MS, MirrorClients
from kmirror.cli.mirrors_losses import last_known_lag
from kmirror.cli.mirrors_source import another_cluster
from kmirror.cli.user_errors import one_line
from kmirror.common.errors import KmirrorError

SOURCE_TIMEOUT_MS = 3_000


@dataclass(frozen=True, slots=True)
class MirrorHealth:
    """What is known of a mirror; `lag` -1: never known, `problem`: why its partitions are not."""

    states: Mapping[str, int]
    lag: int = -1
    lag_age_ms: int = -1
    unknown_lags: int = 0
    """Partitions whose lag is not known now; the largest may be theirs."""
    problem: str | None = None
    source_problem: str | None = None

    def __str__(self) -> str:
        source = "the source answers" if self.source_problem is None else f"the source does not answer: {self.source_problem}"
        if self.problem is not None:
            return f"states are not known: {self.problem}; {source}"
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        return f"{states or 'no partitions'}; {self._lag()}; {source}" if states else f"no partitions; {source}"

    def _lag(self) -> str:
        if self.lag < 0:
            return "its lag was never known"
        age = f", as of {self.lag_age_ms // 1000} s ago" if self.lag_age_ms >= 0 else ""
        unknown = f", not known now of {self.unknown_lags} partition(s)" if self.unknown_lags else ""
        return f"largest lag {self.lag}{age}{unknown}"

    def as_json(self) -> dict[str, Any]:
        return {
            "states": None if self.problem is not None else dict(sorted(self.states.items())),
            "largestLag": self.lag,
            "lagAgeMs": self.lag_age_ms,
            "unknownLags": self.unknown_lags,
            "sourceAnswers": self.source_problem is None,
            "problem": self.problem,
            "sourceProblem": self.source_problem,
        }


async def health_of(clients: MirrorClients, mirrors: Sequence[MirrorListing]) -> dict[str, MirrorHealth]:
    """Returns the health of each mirror."""
    names = [mirror.mirror_name for mirror in mirrors]
    if not names:
        return {}
    asked = {name: clients.runtime.spawn(_source_problem(clients, name), name=f"ask-source-of-{name}") for name in names}
    described: Mapping[str, MirrorDescription] = {}
    problem: str | None = None
    try:
        described = await clients.admin.describe_mirrors(names, DescribeMirrorsOptions(timeout_ms=SHORT_TIMEOUT_MS))
    except KmirrorError as error:
        problem = one_line(error)
    return {name: _health(described.get(name), problem, await task) for name, task in asked.items()}


async def _source_problem(clients: MirrorClients, mirror_name: str) -> str | None:
    """Returns why the source cannot be asked, or is another cluster; None if it answers."""
    try:
        source = await clients.source(mirror_name, timeout_ms=SOURCE_TIMEOUT_MS)
        await source.describe_cluster()
        return await another_cluster(clients.admin, source, mirror_name)
    except KmirrorError as error:
        return one_line(error)


def _health(described: MirrorDescription | None, problem: str | None, source_problem: str | None) -> MirrorHealth:
    if described is None:
        return MirrorHealth({}, problem=problem or "no broker described it", source_problem=source_problem)
    rows = described.partitions
    lags = [last_known_lag(row) for row in rows]
    largest = max(lags, default=None)
    return MirrorHealth(
        Counter(row.state for row in rows),
        -1 if largest is None else largest.lag,
        -1 if largest is None else max(one.age_ms for one in lags),
        sum(row.lag < 0 for row in rows),
        source_problem=source_problem,
    )


def health_lines(health: Mapping[str, MirrorHealth]) -> Iterable[str]:
    """Indented, so that lines of the KIP's table are told from them."""
    return [f"  {name}: {one}" for name, one in sorted(health.items())]
