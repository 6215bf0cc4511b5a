"""`sasl.kerberos.principal.to.local.rules`: turns a Kerberos name into a principal's name (Kafka's
`KerberosShortNamer`).

A name is `service[/host]@REALM`. Rules are tried in order. DEFAULT takes the service of a name in
the default realm. `RULE:[n:format](match)s/from/to/gL` applies to names with n components; in
`format`, `$0` is the realm, `$1` the service and `$2` the host.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.network.security.ssl_principal_mapper import NoMatchingRuleError, expand_java_replacement

_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(r"((DEFAULT)|(RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?))")
_PARAMETER = re.compile(r"\$(\d+)")
_NON_SIMPLE = re.compile(r"[/@]")


class KerberosName(NamedTuple):
    """The parts of a Kerberos name."""

    service_name: str
    host_name: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Parses a name; text without a realm is a service's name. KmirrorError for a malformed
        name with a realm.
        """
        match = _NAME.fullmatch(text)
        if match is not None:
            return cls(match[1], match[2], match[3])
        if "@" in text:
            raise KmirrorError(f"Malformed Kerberos name: {text}")
        return cls(text, None, None)


class KerberosShortNamer:
    """Applies the rules; ConfigError if one is malformed."""

    def __init__(self, default_realm: str, rules: Sequence[str]) -> None:
        self._default_realm = default_realm
        self._texts = list(rules)
        self._rules = [_parse(rule) for rule in rules]

    def short_name(self, principal: str) -> str:
        name = KerberosName.parse(principal)
        if name.host_name is None and name.realm is None:
            return name.service_name
        components = [name.service_name] if name.host_name is None else [name.service_name, name.host_name]
        params = [name.realm or "", *components]
        for rule, text in zip(self._rules, self._texts):
            result = self._apply(rule, params)
            if result is None:
                continue
            if _NON_SIMPLE.search(result):
                raise NoMatchingRuleError(f"Non-simple name {result} after auth_to_local rule {text}")
            return {"L": str.lower, "U": str.upper}.get(rule[10] or "", str)(result)
        raise NoMatchingRuleError(f"No rules apply to {principal}, rules [{', '.join(self._texts)}]")

    def _apply(self, rule: re.Match[str], params: list[str]) -> str | None:
        if rule[2] is not None:
            return params[1] if params[0] == self._default_realm else None
        if int(rule[4]) != len(params) - 1:
            return None
        base = _PARAMETER.sub(lambda part: _parameter(part, params, rule[5]), rule[5])
        if rule[6] is not None and not re.fullmatch(rule[6], base):
            return None
        if rule[7] is None:
            return base
        return re.sub(rule[7], lambda match: expand_java_replacement(rule[8], match), base, count=0 if rule[9] else 1)


def _parameter(part: re.Match[str], params: list[str], form: str) -> str:
    number = int(part[1])
    if number >= len(params):
        raise NoMatchingRuleError(f"index {number} from {form} is outside of the valid range 0 to {len(params) - 1}")
    return params[number]


def _parse(rule: str) -> re.Match[str]:
    match = _RULE.match(rule)
    if match is None:
        raise ConfigError(f"Invalid rule: {rule}")
    if match.end() != len(rule):
        raise ConfigError(f"Invalid rule: `{rule}`, unmatched substring: `{rule[match.end() :]}`")
    if match[2] is None and not match[4]:
        raise ConfigError(f"Invalid rule: {rule}")
    return match
