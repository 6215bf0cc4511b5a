"""The filters in a mirror's configs: `mirror.groups.include` and `mirror.acl.include`, and where
those of two mirrors overlap.

Both are lists; a group, or an ACL, is selected if one entry matches it. Names and principals are
regexes that must match as a whole. Two mirrors whose filters overlap overwrite each other's offsets
and ACLs in each cycle; the last writer wins (C33). Whether two regexes can match the same name is
estimated from the text that they begin with: there may be an unnecessary warning, but never a
missing one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kmirror.common.acl import AclOperation, AclPermissionType, ResourceType
from kmirror.metadata.image import MetadataImage, StandardAcl
from kmirror.metadata.resource_configs import parse_acl_rule

GROUPS_INCLUDE_CONFIG = "mirror.groups.include"
ACL_INCLUDE_CONFIG = "mirror.acl.include"
BOOTSTRAP_SERVERS_CONFIG = "bootstrap.servers"
DEFAULT_GROUPS = ".*"
DEFAULT_ACLS = "*"
_PLAIN = re.compile(r"(?:[A-Za-z0-9_:@/ =,~#%&!<>'\"-]|\\[^A-Za-z0-9])*")
_REPEATED = ("*", "?", "{")

_log = logging.getLogger(__name__)


class NamePatterns(NamedTuple):
    """The regexes of a list, each compiled separately: if they were joined into one, an entry's
    flags, group names and back-references would break."""

    patterns: tuple[re.Pattern[str], ...]

    def takes(self, name: str) -> bool:
        return any(pattern.fullmatch(name) is not None for pattern in self.patterns)


class AclRule(NamedTuple):
    """One entry of `mirror.acl.include`; None matches any."""

    resource_type: str | None
    resource_name: re.Pattern[str] | None
    operation: str | None
    permission_type: str | None
    principal: re.Pattern[str] | None

    def takes(self, acl: StandardAcl) -> bool:
        return (
            self.resource_type in (None, ResourceType(acl.resource_type).name)
            and (self.resource_name is None or self.resource_name.fullmatch(acl.resource_name) is not None)
            and self.operation in (None, AclOperation(acl.operation).name)
            and self.permission_type in (None, AclPermissionType(acl.permission_type).name)
            and (self.principal is None or self.principal.fullmatch(acl.principal) is not None)
        )


def acl_rules(mirror_configs: Mapping[str, str]) -> list[AclRule]:
    """Returns the entries of `mirror.acl.include`; raises ConfigError for an invalid one
    (CreateMirror refuses those)."""
    return [AclRule(*parse_acl_rule(entry)) for entry in _entries(mirror_configs.get(ACL_INCLUDE_CONFIG, DEFAULT_ACLS))]


def included_groups(mirror_configs: Mapping[str, str]) -> NamePatterns:
    """Returns the patterns of `mirror.groups.include`; each must match a whole name."""
    return name_patterns(_entries(mirror_configs.get(GROUPS_INCLUDE_CONFIG, DEFAULT_GROUPS)))


def name_patterns(entries: Iterable[str]) -> NamePatterns:
    """Compiles entries that were validated. `.*` matches all names, even those with line breaks."""
    return NamePatterns(tuple(re.compile(entry, re.DOTALL) for entry in entries))


def overlapping_mirrors(name: str, configs: Mapping[str, str], others: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Returns other mirrors, with other sources, that select some of the same groups or ACLs: name
    -> the filters in question."""
    found = {}
    for other, theirs in sorted(others.items()):
        if other == name or theirs.get(BOOTSTRAP_SERVERS_CONFIG) == configs.get(BOOTSTRAP_SERVERS_CONFIG):
            continue
        filters = []
        if _groups_overlap(configs, theirs):
            filters.append(GROUPS_INCLUDE_CONFIG)
        if any(_rules_overlap(ours, rule) for ours in acl_rules(configs) for rule in acl_rules(theirs)):
            filters.append(ACL_INCLUDE_CONFIG)
        if filters:
            found[other] = filters
    return found


def overlap_warnings(name: str, configs: Mapping[str, str], others: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns the lines to log when the mirror is created or altered."""
    return [
        f"mirror {name} and mirror {other} have different sources, but {' and '.join(filters)} of both select some of the same names: "
        "each will overwrite what the other one writes"
        for other, filters in overlapping_mirrors(name, configs, others).items()
    ]


def log_overlaps(image: MetadataImage, name: str, configs: Mapping[str, str]) -> None:
    """Logs a warning for each mirror whose filters overlap with those that this one is about to
    have."""
    for text in overlap_warnings(name, configs, {other: image.configs.mirror(other) for other in image.configs.mirror_names()}):
        _log.warning(text)


def _groups_overlap(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    mine = _entries(ours.get(GROUPS_INCLUDE_CONFIG, DEFAULT_GROUPS))
    others = _entries(theirs.get(GROUPS_INCLUDE_CONFIG, DEFAULT_GROUPS))
    return any(patterns_overlap(left, right) for left in mine for right in others)


def _rules_overlap(left: AclRule, right: AclRule) -> bool:
    same = (
        (left.resource_type, right.resource_type),
        (left.permission_type, right.permission_type),
        (left.operation, right.operation),
    )
    names = ((left.resource_name, right.resource_name), (left.principal, right.principal))
    return all(None in pair or pair[0] == pair[1] for pair in same) and all(
        one is None or other is None or patterns_overlap(one.pattern, other.pattern) for one, other in names
    )


def patterns_overlap(left: str, right: str) -> bool:
    """Returns False only if no name can match both."""
    left_start, left_is_name = _beginning(left)
    right_start, right_is_name = _beginning(right)
    if left_is_name:
        return re.fullmatch(right, left_start) is not None
    if right_is_name:
        return re.fullmatch(left, right_start) is not None
    return left_start.startswith(right_start) or right_start.startswith(left_start)


def _beginning(pattern: str) -> tuple[str, bool]:
    """Returns the text that every match begins with, and whether the pattern is nothing but that
    text."""
    if "|" in pattern:
        return "", False
    match = _PLAIN.match(pattern)
    plain = match[0] if match is not None else ""
    if plain == pattern:
        return _unescaped(plain), True
    if pattern[len(plain)] in _REPEATED:
        plain = plain[:-2] if len(plain) > 1 and plain[-2] == "\\" else plain[:-1]
    return _unescaped(plain), False


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _entries(text: str) -> Iterable[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
