"""DescribeUserScramCredentials (key 50) and AlterUserScramCredentials (51). Served: v0 each.

Every broker describes from its metadata, for clients with DESCRIBE on the cluster. It returns the
mechanisms and iterations of the named users, or of all users if none is named. A user without
credentials is RESOURCE_NOT_FOUND, one who is named twice DUPLICATE_RESOURCE. Alterations are
forwarded.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation
from kmirror.common.errors import Errors
from kmirror.server.request import Request
from kmirror.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "
_UNKNOWN = "Attempt to describe a user credential that does not exist: "


async def handle_describe_user_scram_credentials(apis: KafkaApis, request: Request) -> DescribeUserScramCredentialsResponse:
    apis.auth.authorize_cluster_operation(request, AclOperation.DESCRIBE)
    message: DescribeUserScramCredentialsRequest = request.message
    image = apis.metadata_cache.image
    credentials: dict[str, list[CredentialInfo]] = {}
    for (number, user_name), data in sorted(image.scram.items()):
        credentials.setdefault(user_name, []).append(CredentialInfo(number, data.iterations))
    counts = Counter([user.name for user in message.users or []])
    names = counts or dict.fromkeys(user for _, user in sorted(image.scram))
    results = [_describe(credentials, name, is_twice=counts[name] > 1) for name in names]
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _describe(credentials: dict[str, list[CredentialInfo]], user: str, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    if is_twice:
        return DescribeUserScramCredentialsResult(user, Errors.DUPLICATE_RESOURCE, _TWICE + user)
    infos = credentials.get(user)
    if not infos:
        return DescribeUserScramCredentialsResult(user, Errors.RESOURCE_NOT_FOUND, _UNKNOWN + user)
    return DescribeUserScramCredentialsResult(user, Errors.NONE, "", infos)
