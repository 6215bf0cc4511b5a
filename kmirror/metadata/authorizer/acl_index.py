"""ACL rules, indexed by resource and principal, so that a look-up never walks through unrelated
rules.

The rules of a resource type are kept by principal, then by pattern. A resource name is covered by
its literal pattern, by the literal `*`, and by each of its own prefixes that is a pattern. Only
prefix lengths that some pattern has are tried, so a look-up costs a few dict accesses per length,
whatever the number of rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

from kmirror.common.acl import WILDCARD, PatternType, ResourceType
from kmirror.metadata.image import StandardAcl

T = TypeVar("T")
Pattern = tuple[int, str]
"""Pattern type and name."""

_ANY_NAME: Pattern = (PatternType.LITERAL, WILDCARD)


class _TypeIndex:
    """The rules of one resource type."""

    def __init__(self) -> None:
        self.by_principal: dict[str, dict[Pattern, list[StandardAcl]]] = {}
        self.patterns: Counter[Pattern] = Counter()
        self.prefix_lengths: Counter[int] = Counter()

    def add(self, acl: StandardAcl) -> None:
        pattern = (acl.pattern_type, acl.resource_name)
        self.by_principal.setdefault(acl.principal, {}).setdefault(pattern, []).append(acl)
        self.patterns[pattern] += 1
        if acl.pattern_type == PatternType.PREFIXED:
            self.prefix_lengths[len(acl.resource_name)] += 1

    def remove(self, acl: StandardAcl) -> None:
        pattern = (acl.pattern_type, acl.resource_name)
        by_pattern = self.by_principal[acl.principal]
        by_pattern[pattern].remove(acl)
        if not by_pattern[pattern]:
            del by_pattern[pattern]
            if not by_pattern:
                del self.by_principal[acl.principal]
        _decrement(self.patterns, pattern)
        if acl.pattern_type == PatternType.PREFIXED:
            _decrement(self.prefix_lengths, len(acl.resource_name))

    def covering(self, name: str) -> list[Pattern]:
        """The patterns that have rules and cover `name`."""
        candidates = [(int(PatternType.LITERAL), name), _ANY_NAME]
        candidates += [(int(PatternType.PREFIXED), name[:length]) for length in self.prefix_lengths if length <= len(name)]
        return [pattern for pattern in dict.fromkeys(candidates) if pattern in self.patterns]


class AclIndex:
    """A set of rules. A rule that was added twice must be removed twice."""

    def __init__(self) -> None:
        self._types: dict[int, _TypeIndex] = {}

    def add(self, acl: StandardAcl) -> None:
        self._types.setdefault(acl.resource_type, _TypeIndex()).add(acl)

    def remove(self, acl: StandardAcl) -> None:
        self._types[acl.resource_type].remove(acl)

    def covering(self, resource_type: ResourceType, name: str) -> list[Pattern]:
        """Returns the patterns that cover a resource and have rules, of any principal."""
        index = self._types.get(resource_type)
        return [] if index is None else index.covering(name)

    def rules(self, resource_type: ResourceType, principal: str, pattern: Pattern) -> list[StandardAcl]:
        """Returns the rules of exactly this principal (`User:*` is one, too) and pattern."""
        by_pattern = self._types[resource_type].by_principal.get(principal)
        return [] if by_pattern is None else by_pattern.get(pattern, [])

    def of_principal(self, resource_type: ResourceType, principal: str) -> Iterator[StandardAcl]:
        """Yields all rules of exactly this principal on resources of one type."""
        index = self._types.get(resource_type)
        for acls in () if index is None else index.by_principal.get(principal, {}).values():
            yield from acls


def _decrement(counts: Counter[T], key: T) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
