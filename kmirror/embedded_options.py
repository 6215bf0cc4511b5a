"""What a cluster inside a test may be asked for: the options of `EmbeddedCluster` and of the pytest
marker, checked in one way.

An option is what its text says: `brokers="3"` is 3, `security="sasl_ssl"` is TLS with passwords for
DEFAULT_USERS. What cannot be meant is a KmirrorError of one line that says what would be right. A
broker warns of a property that it does not know and goes on; a test that runs with a misspelled one
shows nothing, so here it is refused, with the name that is nearest.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kmirror.common.errors import KmirrorError

SEPARATE_CONTROLLER_ID: Final = 3000
CONTROLLER_INDEX: Final = SEPARATE_CONTROLLER_ID - 1
"""The index in `node_config` of a controller in a process of its own (`processes=True`)."""

if TYPE_CHECKING:
    from kmirror.embedded_security import Security

DEFAULT_USERS: Final = {"alice": "alice-secret"}
DEFAULT_MECHANISM: Final = "SCRAM-SHA-256"
SECURITY: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")


def number_of_brokers(value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise KmirrorError(f"brokers is a number from 1, not {value!r}")
    return int(text)


def word(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Returns one of `allowed`, whatever the case it is written in."""
    written = str(value).lower()
    if written not in allowed:
        raise KmirrorError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
    return written


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise KmirrorError(f"{name} is True or False, not {value!r}")
    return value


def strings(name: str, value: object) -> dict[str, str]:
    """Returns a dict as Kafka's properties have it: numbers and truth values as their text."""
    if not isinstance(value, Mapping):
        raise KmirrorError(f"{name} is a dict, not {value!r}")
    return {str(key): str(entry).lower() if isinstance(entry, bool) else str(entry) for key, entry in value.items()}


def security_of(value: Security | str | None, users: Mapping[str, str] = DEFAULT_USERS, mechanism: str = DEFAULT_MECHANISM) -> Security:
    """Returns the `Security` that a word names, with these users; None is plaintext."""
    from kmirror.embedded_security import Security

    if isinstance(value, Security):
        return value
    named = "plaintext" if value is None else word("security", value, SECURITY)
    if named == "ssl":
        return Security.ssl(users=users)
    if named == "sasl_plaintext":
        return Security.sasl_plaintext(users, mechanism=mechanism)
    if named == "sasl_ssl":
        return Security.sasl_ssl(users, mechanism=mechanism)
    return Security("PLAINTEXT")


def node_properties(value: object, brokers: int, *, processes: bool) -> dict[int, dict[str, str]]:
    """Returns the properties of single nodes, by their index. With `processes` the controller has
    one, too.
    """
    if not isinstance(value, Mapping):
        raise KmirrorError(f"node_config is a dict of dicts, not {value!r}")
    found: dict[int, dict[str, str]] = {}
    for index, properties in value.items():
        number = -1 if isinstance(index, bool) or not str(index).isdecimal() else int(index)
        if number == CONTROLLER_INDEX and not processes:
            raise KmirrorError(f"node_config[{index}] is the controller of processes=True; here it is node 0, which is a broker as well")
        if not (0 <= number < brokers or number == CONTROLLER_INDEX):
            raise KmirrorError(f"node_config has the indexes 0 to {brokers - 1}, not {index!r}")
        if number in found:
            raise KmirrorError(f"node_config has the index {number} twice")
        found[number] = strings(f"node_config[{index}]", properties)
    return found


def ensure_in_force(properties: Iterable[str]) -> None:
    """KmirrorError for a property beside which the cluster's own wins."""
    if "log.dir" in properties:
        raise KmirrorError("log.dir has no effect beside log.dirs, which the cluster sets: give log.dirs")


def ensure_needed(given: Mapping[str, object], security: str, scope: str) -> None:
    """KmirrorError for an option that means nothing beside the others."""
    if "users" in given and security == "plaintext":
        raise KmirrorError("users are without effect with security='plaintext', where nobody has a name")
    if "mechanism" in given and not security.startswith("sasl"):
        raise KmirrorError(f"mechanism is without effect with security={security!r}: it is that of sasl_plaintext and sasl_ssl")
    if given.get("clean") and scope == "function":
        raise KmirrorError("clean is without effect with scope='function', where each test has a cluster of its own")


def ensure_known(properties: Iterable[str], unknown: Iterable[str], known: Iterable[str]) -> None:
    """KmirrorError for the first of `properties`, as the user gave them, that is among the
    `unknown` ones.
    """
    missing = set(unknown)
    for name in properties:
        if name in missing:
            near = difflib.get_close_matches(name, list(known), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise KmirrorError(f"there is no broker property {name}{hint}")


def with_own_super_user(given: Mapping[str, str], own: Mapping[str, str]) -> dict[str, Any]:
    """Returns `given`, in which super.users names the cluster's own user as well: without it the
    brokers may not register at their controller.
    """
    name = "super.users"
    if name not in given or name not in own:
        return dict(given)
    users = [user.strip() for user in given[name].split(";") if user.strip()]
    return {**given, name: ";".join(dict.fromkeys([*users, own[name]]))}
