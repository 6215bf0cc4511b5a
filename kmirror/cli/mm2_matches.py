"""What the lists of a MirrorMaker 2 configuration match at the source (`kafka-mirrors --from-mm2`).

The source of each flow is asked for the names of its topics and groups, with the security settings
that the mirror gets. What it shows becomes notes: an entry of `topics` or `groups` that matches
nothing, a list of which the exclusions leave nothing, and how many names were looked at, because a
login may not see all. A source that cannot be asked is a note, too: a converter is run where the
clusters may be out of reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kmirror.cli.mirrors_clients import BOOTSTRAP_SERVERS, CLIENT_ID, SHORT_TIMEOUT_MS
from kmirror.cli.mm2_converter import EXPRESSION, ConvertedFlow, NameList
from kmirror.cli.tool_client import TIMEOUT_SETTING, open_admin, resolved
from kmirror.cli.user_errors import USER_ERRORS, one_line
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.file_warnings import unmatched_entries
from kmirror.mirrormaker.topic_filters import GROUPS_DEFAULT
from kmirror.runtime.api import Runtime


@dataclass(frozen=True, slots=True)
class SourceNames:
    """What a source shows to the mirror's login."""

    topics: list[str]
    groups: list[str]


async def note_matches(runtime: Runtime, flows: Sequence[ConvertedFlow]) -> None:
    """Add to the notes of each flow what its lists match. A source is asked once per login."""
    asked: list[tuple[dict[str, str], SourceNames | str]] = []
    for flow in flows:
        login = {name: value for name, value in flow.mirror_configs.items() if not name.startswith("mirror.")}
        found = next((answer for other, answer in asked if other == login), None)
        if found is None:
            found = await _names(runtime, login)
            asked.append((login, found))
        flow.notes += match_notes(flow, found)


async def _names(runtime: Runtime, login: dict[str, str]) -> SourceNames | str:
    """Returns the names, or why they are not known."""
    try:
        configs = resolved(login)
        for name, value in configs.items():
            if EXPRESSION.search(value):
                raise ConfigError(f"{name} holds an expression")
        configs[TIMEOUT_SETTING] = str(SHORT_TIMEOUT_MS)
        async with open_admin(runtime, configs[BOOTSTRAP_SERVERS], configs, client_id=CLIENT_ID) as admin:
            return SourceNames(await admin.list_topics(include_internal=True), [row.group_id for row in await admin.list_consumer_groups()])
    except USER_ERRORS as error:
        return one_line(error)


def match_notes(flow: ConvertedFlow, found: SourceNames | str) -> Iterator[str]:
    """Yields notes about the lists of one flow; `found` is a reason if its source was not asked."""
    if isinstance(found, str):
        yield f"what {' and '.join(flow.lists)} match at {flow.source} was not looked at: {found}"
        return
    shown = {"topics": found.topics, "groups": found.groups}
    for name, names in flow.lists.items():
        yield from _list_notes(flow.source, name, names, shown[name])
    counts = " and ".join(f"{len(shown[name])} {name}" for name in flow.lists)
    yield f"looked at for what the lists match: the {counts} that {flow.source} shows to this login"


def _list_notes(source: str, name: str, names: NameList, shown: Sequence[str]) -> Iterator[str]:
    """All groups may be none yet."""
    entries = [entry for entry in names.include if name != "groups" or entry != GROUPS_DEFAULT]
    unmatched, kind = unmatched_entries(entries, shown), name.removesuffix("s")
    if unmatched:
        yield f"no {kind} of {source} has the name, or matches the expression: {', '.join(unmatched)} ({name} = {', '.join(names.include)})"
    elif not names.include or (entries and not any(re.fullmatch(names.pattern, one) for one in shown)):
        excluded = f" without {name}.exclude = {', '.join(names.exclude)}" if names.exclude else ""
        yield f"{name} = {', '.join(names.include)}{excluded} takes no {kind} of {source}"
