"""Which access rules a remote topic gets (SY2, SY3).

Rules of literal TOPIC resources are copied to the remote name. `ALLOW WRITE` is left out, and
`ALLOW ALL` becomes `ALLOW READ`: nobody but MirrorMaker is to write there. Everything else is
copied, `DENY` and `ALLOW ALTER` too. Rules are only created: one that is removed at the source
stays at the target, and so does a `WRITE` that somebody grants there.

A rule for all topics (`*`) is literal as well. Kafka asks its filter for the name `*` and, with the
default policy, makes a rule for a topic `A.*` that nothing matches. kmirror does the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kmirror.admin.acls import AclBinding, AclBindingFilter
from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.mirrormaker.cycles import TopicSelection

ANY_TOPIC_ACL: Final = AclBindingFilter(resource_type=ResourceType.TOPIC)
"""What is asked of the source."""
NO_AUTHORIZER: Final = (
    "No ACL authorizer is configured on the source Kafka cluster, so no topic ACL syncing will take place. "
    "Consider disabling topic ACL syncing by setting sync.topic.acls.enabled to 'false'."
)
"""Logged once, when the source has no authorizer (SY4)."""


def is_without_authorizer(error: ApiException) -> bool:
    """Whether the source's answer means that there are no rules at all, which is no failure (SY4)."""
    return error.error is Errors.SECURITY_DISABLED


def target_acls(bindings: Iterable[AclBinding], topics: TopicSelection) -> list[AclBinding]:
    """Returns the rules to create at the target, in the order of the source's."""
    return [
        _target_acl(binding, topics)
        for binding in bindings
        if binding.resource_type == ResourceType.TOPIC
        and binding.pattern_type == PatternType.LITERAL
        and not _allows(binding, AclOperation.WRITE)
        and topics.should_replicate_topic(binding.name)
    ]


def _target_acl(binding: AclBinding, topics: TopicSelection) -> AclBinding:
    operation = AclOperation.READ if _allows(binding, AclOperation.ALL) else binding.operation
    return replace(binding, name=topics.remote_topic(binding.name), operation=operation)


def _allows(binding: AclBinding, operation: AclOperation) -> bool:
    return binding.permission_type == AclPermissionType.ALLOW and binding.operation == operation
