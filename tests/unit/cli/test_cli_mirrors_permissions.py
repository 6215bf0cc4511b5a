"""`kafka-mirrors`: "Mirror authorization failed" said neither who, nor for what, nor on what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import ConfigResourceType
from kmirror.cli.mirrors_permissions import NEEDS, named, user_of
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import AuthenticationError
from kmirror.runtime.asyncio_runtime import run

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ops" password="secret";'
OPS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}


class Refusing:
    """Raises `error` at every call."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        async def asked(*_: object, **__: object) -> None:
            raise self._error

        return asked


def said(error: Exception, properties: dict[str, str], call: Callable[[AdminClient], Awaitable[Any]]) -> KmirrorError:
    refusing: Any = Refusing(error)

    async def main(_: object) -> None:
        await call(named(refusing, "b:9092", properties))

    with pytest.raises(KmirrorError) as found:
        run(main)
    return found.value


@pytest.mark.parametrize(
    ("call", "error", "need"),
    [
        (lambda admin: admin.create_mirror("m", {}), Errors.MIRROR_AUTHORIZATION_FAILED, "Create on ClusterMirror:m"),
        (lambda admin: admin.describe_mirrors(["m"]), Errors.MIRROR_AUTHORIZATION_FAILED, "Describe on ClusterMirror:m"),
        (lambda admin: admin.describe_mirrors(), Errors.MIRROR_AUTHORIZATION_FAILED, "Describe on ClusterMirror:*"),
        (lambda admin: admin.remove_topics_from_mirror("m", ["t"]), Errors.MIRROR_AUTHORIZATION_FAILED, "Alter on ClusterMirror:m"),
        (lambda admin: admin.list_offsets([TopicPartition("t", 0)]), Errors.TOPIC_AUTHORIZATION_FAILED, "Describe on Topic:t"),
        (lambda admin: admin.fetch_records(TopicPartition("t", 0), 0), Errors.TOPIC_AUTHORIZATION_FAILED, "Read on Topic:t"),
        (
            lambda admin: admin.describe_configs(ConfigResourceType.MIRROR, "m"),
            Errors.MIRROR_AUTHORIZATION_FAILED,
            "DescribeConfigs on ClusterMirror:m",
        ),
    ],
)
def test_a_refusal_names_user_operation_and_resource(call: Callable[[AdminClient], Awaitable[Any]], error: Errors, need: str) -> None:
    found = said(ApiException(error), OPS, call)
    assert isinstance(found, ApiException) and found.error is error, "what catches it still does"
    assert found.message.endswith(f": user ops needs {need} at b:9092")
    assert "user ANONYMOUS needs" in str(said(ApiException(error), {}, call))


def test_other_errors_stay_as_they_are() -> None:
    error = ApiException(Errors.UNKNOWN_MIRROR)
    assert said(error, OPS, lambda admin: admin.list_mirrors()) is error


def test_a_login_that_fails_names_its_user_and_never_its_password() -> None:
    found = said(AuthenticationError("the login at b:9092 failed"), OPS, lambda admin: admin.list_mirrors())
    assert str(found) == "the login at b:9092 failed (user ops)" and "secret" not in str(found)


def test_a_connection_that_is_closed_without_a_word_may_want_a_login() -> None:
    closed = NoBrokerError("no broker could be reached: b:9092 disconnected")
    assert "wants a login or TLS, --command-config gives it" in str(said(closed, {}, lambda admin: admin.list_mirrors()))
    assert str(said(closed, OPS, lambda admin: admin.list_mirrors())) == str(closed)


@pytest.mark.parametrize(
    ("properties", "user"),
    [
        (OPS, "ops"),
        ({}, None),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "the GSSAPI login"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "k"}, "the certificate's subject"),
        ({"security.protocol": "SSL"}, None),
    ],
)
def test_who_asks(properties: dict[str, str], user: str | None) -> None:
    assert user_of(properties) == user


def test_every_call_that_is_named_exists() -> None:
    assert [name for name in NEEDS if not hasattr(AdminClient, name)] == []
