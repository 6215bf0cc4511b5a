"""`kafka-mirrors`: an error of a cluster names who asked for what, and what may be missing.

A broker answers "Mirror authorization failed" and no more. `NamedAdmin` adds the user, the operation
and the resource, as `kafka-acls` takes them, to each call that is refused. A broker that closes the
connection without a word may want a login or TLS; a login that fails names its user. Everything else
is an `AdminClient`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import ConfigResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import AuthenticationError

MAX_NAMED: Final = 3
REFUSALS: Final = frozenset(
    {
        Errors.MIRROR_AUTHORIZATION_FAILED,
        Errors.TOPIC_AUTHORIZATION_FAILED,
        Errors.GROUP_AUTHORIZATION_FAILED,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_USER: Final = re.compile(r"""\busername\s*=\s*["']?([^"';\s]+)""")


class _Need(NamedTuple):
    """What a call needs: an operation on a resource, which its arguments name."""

    operation: str
    resource: Callable[..., str]


def _mirror(name: str, *_: object) -> str:
    return f"ClusterMirror:{name}"


def _mirrors(names: Iterable[str] = (), *_: object) -> str:
    return f"ClusterMirror:{_some(names)}"


def _topics(names: Iterable[str | TopicPartition], *_: object) -> str:
    return f"Topic:{_some({name if isinstance(name, str) else name.topic for name in names})}"


def _topic(name: TopicPartition, *_: object) -> str:
    return f"Topic:{name.topic}"


def _config(kind: ConfigResourceType, name: str, *_: object) -> str:
    return f"{'ClusterMirror' if kind is ConfigResourceType.MIRROR else 'Topic'}:{name}"


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + more or "*"


NEEDS: Final[Mapping[str, _Need]] = {
    "create_mirror": _Need("Create", _mirror),
    "delete_mirror": _Need("Alter", _mirror),
    "add_topics_to_mirror": _Need("Alter", _mirror),
    "remove_topics_from_mirror": _Need("Alter", _mirror),
    "pause_mirror_topics": _Need("Alter", _mirror),
    "resume_mirror_topics": _Need("Alter", _mirror),
    "describe_mirrors": _Need("Describe", _mirrors),
    "describe_topics": _Need("Describe", _topics),
    "list_offsets": _Need("Describe", _topics),
    "end_offset_of_epoch": _Need("Describe", _topic),
    "fetch_records": _Need("Read", _topic),
    "describe_configs": _Need("DescribeConfigs", _config),
    "incremental_alter_configs": _Need("AlterConfigs", _config),
}


def user_of(properties: Mapping[str, str]) -> str | None:
    """Returns the name that these settings log in with; None if they have no login."""
    found = _USER.search(properties.get("sasl.jaas.config", ""))
    if found is not None:
        return found[1]
    if properties.get("security.protocol", "PLAINTEXT").startswith("SASL"):
        return f"the {properties.get('sasl.mechanism', 'GSSAPI')} login"
    return "the certificate's subject" if any(name.startswith("ssl.keystore") for name in properties) else None


class NamedAdmin:
    """An `AdminClient` whose refusals name user, operation and resource."""

    def __init__(self, admin: AdminClient, servers: str, properties: Mapping[str, str]) -> None:
        self._admin = admin
        self._servers = servers
        self._user = user_of(properties)
        self._is_plain = properties.get("security.protocol", "PLAINTEXT") == "PLAINTEXT"

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._admin, name)
        if not callable(call) or name == "close":
            return call

        async def asked(*arguments: Any, **named: Any) -> Any:
            try:
                return await call(*arguments, **named)
            except ApiException as error:
                if error.error not in REFUSALS or name not in NEEDS:
                    raise
                raise ApiException(error.error, f"{error.message}: {self._lacks(name, arguments)}") from error
            except AuthenticationError as error:
                raise AuthenticationError(f"{error} (user {self._user or 'ANONYMOUS'})") from error
            except NoBrokerError as error:
                raise NoBrokerError(self._explained(str(error))) from error

        return asked

    def _lacks(self, name: str, arguments: tuple[Any, ...]) -> str:
        need = NEEDS[name]
        resource = need.resource(*arguments)
        return f"user {self._user or 'ANONYMOUS'} needs {need.operation} on {resource} at {self._servers}"

    def _explained(self, text: str) -> str:
        if self._is_plain and text.endswith(" disconnected"):
            return f"{text}: the broker closed the connection; if its listener wants a login or TLS, --command-config gives it"
        return text


def named(admin: AdminClient, servers: str, properties: Mapping[str, str]) -> AdminClient:
    """Returns the client with errors that name who asked for what."""
    return cast(AdminClient, NamedAdmin(admin, servers, properties))
