"""Flows that copy records back to where they came from, from there again, and so on without end.

A policy that keeps names cannot see where a record comes from (CY4). So flows of this policy echo a
topic if they lead back to where they begin and all take it: A->B and B->A, or a longer way round.

What is looked at is the configuration, before any topic is known. A name that a flow gives is looked
up in the other flows' filters. Two patterns may or may not have topics in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.topic_filters import TopicFilter

_NAME: Final = re.compile(r"[\w.-]+")


class KeepingFlow(NamedTuple):
    """A flow that keeps names. `topics` are the entries of its list, names and patterns."""

    flow: SourceAndTarget
    topics: Sequence[str]
    topic_filter: TopicFilter

    @property
    def names(self) -> list[str]:
        return [name for entry in self.topics for name in entry.split("|") if _NAME.fullmatch(name)]

    @property
    def has_patterns(self) -> bool:
        return any(not _NAME.fullmatch(name) for entry in self.topics for name in entry.split("|"))


def echo_warnings(flows: Sequence[KeepingFlow]) -> Iterator[str]:
    """Yields a line for each topic that would be echoed, and one if patterns may take such topics."""
    for name in sorted({name for flow in flows for name in flow.names}):
        yield from _warning(name, [one.flow for one in flows if one.topic_filter.should_replicate_topic(name)])
    yield from _warning("a topic that all of them take", [one.flow for one in flows if one.has_patterns])


def _warning(what: str, flows: Iterable[SourceAndTarget]) -> Iterator[str]:
    circle = _in_circles(list(flows))
    if circle:
        yield (
            f"{', '.join(map(str, circle))} keep the names of topics (IdentityReplicationPolicy) and lead back to where they begin: "
            f"{what} is copied round and round without end"
        )


def _in_circles(flows: Sequence[SourceAndTarget]) -> list[SourceAndTarget]:
    """Returns the flows from whose target a way leads back to their source."""
    return [flow for flow in flows if flow.source in _reached_from(flow.target, flows)]


def _reached_from(cluster: str, flows: Sequence[SourceAndTarget]) -> set[str]:
    reached = {cluster}
    while True:
        further = {flow.target for flow in flows if flow.source in reached} - reached
        if not further:
            return reached
        reached |= further
