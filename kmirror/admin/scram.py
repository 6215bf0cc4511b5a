"""AdminClient calls about SCRAM credentials.

A password is never sent: it is salted and hashed here, as in RFC 5802 (PBKDF2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from kmirror.admin.admin_requests import AdminRequests, error_of, raise_for
from kmirror.common.errors import ApiException
from kmirror.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kmirror.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SALT_BYTES = 32
DEFAULT_ITERATIONS = 4_096


class ScramMechanism(IntEnum):
    """`ScramMechanism`, by the numbers of the wire."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A password to store for a user; a random salt unless one is given."""

    user: str
    mechanism: ScramMechanism
    password: bytes
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = None


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    user: str
    mechanism: ScramMechanism


async def describe_user_scram_credentials(
    cluster: AdminRequests, users: Iterable[str] = ()
) -> dict[str, list[tuple[ScramMechanism, int]] | ApiException]:
    """Returns mechanism and iterations of each user's credentials, or what failed.

    Without names it returns those of all users.
    """
    names = [UserName(name=user) for user in users]
    request = DescribeUserScramCredentialsRequest(users=names or None)
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)
    result: dict[str, list[tuple[ScramMechanism, int]] | ApiException] = {}
    for row in response.results:
        error = error_of(row.error_code, row.error_message)
        result[row.user] = error or [(ScramMechanism(info.mechanism), info.iterations) for info in row.credential_infos]
    return result


async def alter_user_scram_credentials(
    cluster: AdminRequests, alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
) -> dict[str, ApiException | None]:
    """Carries out the alterations; returns the outcome for each user."""
    deletions, upsertions = [], []
    for row in alterations:
        if isinstance(row, UserScramCredentialDeletion):
            deletions.append(ScramCredentialDeletion(name=row.user, mechanism=row.mechanism))
            continue
        salt = row.salt if row.salt is not None else _random_salt(cluster)
        salted = hashlib.pbkdf2_hmac(row.mechanism.hash_name, row.password, salt, row.iterations) if row.iterations > 0 else b""
        upsertions.append(
            ScramCredentialUpsertion(name=row.user, mechanism=row.mechanism, iterations=row.iterations, salt=salt, salted_password=salted)
        )
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    response = await cluster.ask_any(request)
    return {row.user: error_of(row.error_code, row.error_message) for row in response.results}


def _random_salt(cluster: AdminRequests) -> bytes:
    return cluster.runtime.random.token_bytes(SALT_BYTES)
