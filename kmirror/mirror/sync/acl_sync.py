"""Access rules: creates here the rules of the source that `mirror.acl.include` selects, and deletes
what may be deleted (SYN8 to SYN13).

A rule of the filter is `resourceType;resourceName;operation;permissionType;principal`, with `*` or
nothing for any; an access rule is synced if a filter rule takes it, with its pattern type. Creating
is unlimited, but deleting is limited, because this cluster has rules of its own and of other
mirrors (C15). Only these are deleted:

    a  a rule on the literal name of an active topic of this mirror that the source does not have
    b  a rule that this owner saw at the source before, and that is gone there

Rules on the cluster, a mirror, a delegation token or a user are never deleted. Rules on the literal
name of a paused or removed topic of the mirror are left as they are (B48). Two mirrors that select
the same rules from different sources overwrite each other; the controller logs a warning when it
creates or alters such a mirror (C33). What an owner has seen is lost with its ownership, because no
record has room for it: a rule of kind b that is deleted at the source while the owner changes (or
restarts) stays here. That is the safe choice: the KIP's "in destination but not in source" is also
true of every rule of this cluster's own. If this cluster has no authorizer, or the mirror's filter
is empty, the source is not asked. A source without an authorizer, or one that does not show us its
rules, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import Errors
from kmirror.metadata.image import MetadataImage, StandardAcl
from kmirror.metadata.mirror_filters import AclRule, acl_rules
from kmirror.mirror.source.source_metadata import describe_all_acls
from kmirror.mirror.sync.sync_cycle import SyncCycle, SyncGauge, is_active
from kmirror.network.node_channels import ControllerChannel
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import create_acls, delete_acls

RULES_PER_REQUEST = 500
NEVER_DELETED = (ResourceType.CLUSTER, ResourceType.CLUSTER_MIRROR, ResourceType.DELEGATION_TOKEN, ResourceType.USER)


class AclChanges(NamedTuple):
    """The rules to create and to delete, sorted."""

    create: list[StandardAcl]
    delete: list[StandardAcl]


class AclSync:
    """The step that syncs access rules; owns the rules it has seen at each mirror's source.
    `enabled`: whether this cluster has an authorizer.
    """

    gauge = SyncGauge.ACL

    def __init__(self, runtime: Runtime, controller: ControllerChannel, image: Callable[[], MetadataImage], *, enabled: bool) -> None:
        self._runtime = runtime
        self._controller = controller
        self._image = image
        self._enabled = enabled
        self._seen: dict[str, set[StandardAcl]] = {}

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        rules = acl_rules(cycle.mirror.configs)
        if not self._enabled or not rules:
            return []
        source = await describe_all_acls(cycle.source)
        seen = self._seen.setdefault(cycle.mirror.name, set())
        image = self._image()
        local, topics = image.acls, frozenset(topic for topic in cycle.topics if is_active(image, cycle.mirror.name, topic))
        idle_topics = frozenset((*cycle.topics, *cycle.idle_topics)) - topics
        changes = await self._runtime.run_blocking(
            lambda: acl_changes(source, set(local.values()), rules=rules, seen=seen, topics=topics, idle_topics=idle_topics)
        )
        failures = await self._create(changes.create)
        failures += await self._delete(changes.delete)
        left = seen.intersection(changes.delete) if failures else set()
        self._seen[cycle.mirror.name] = {acl for acl in source if selected(acl, rules)} | left
        return failures

    def forget(self, mirror_name: str) -> None:
        self._seen.pop(mirror_name, None)

    async def _create(self, acls: Sequence[StandardAcl]) -> list[str]:
        failures = []
        for part in _parts(acls):
            response = await self._controller.send(create_acls.CreateAclsRequest(creations=[_creation(acl) for acl in part]))
            failures += [
                f"ACL {text_of(acl)} was not created: {row.error_message or Errors.for_code(row.error_code).message}"
                for acl, row in zip(part, response.results, strict=True)
                if row.error_code
            ]
        return failures

    async def _delete(self, acls: Sequence[StandardAcl]) -> list[str]:
        failures = []
        for part in _parts(acls):
            response = await self._controller.send(delete_acls.DeleteAclsRequest(filters=[_exact_filter(acl) for acl in part]))
            for acl, row in zip(part, response.filter_results, strict=True):
                errors = [each for each in (row, *row.matching_acls) if each.error_code]
                failures += [
                    f"ACL {text_of(acl)} was not deleted: {each.error_message or Errors.for_code(each.error_code).message}"
                    for each in errors
                ]
        return failures


def acl_changes(
    source: Collection[StandardAcl],
    local: Collection[StandardAcl],
    *,
    rules: Sequence[AclRule],
    seen: Collection[StandardAcl],
    topics: Collection[str],
    idle_topics: Collection[str],
) -> AclChanges:
    """The changes that bring the selected rules here. No I/O."""

    def may_change(acl: StandardAcl) -> bool:
        return selected(acl, rules) and not _is_of_topic(acl, idle_topics)

    create = [acl for acl in source if acl not in local and may_change(acl)]
    delete = [
        acl
        for acl in local
        if acl not in source and acl.resource_type not in NEVER_DELETED and (_is_of_topic(acl, topics) or acl in seen) and may_change(acl)
    ]
    return AclChanges(sorted(create), sorted(delete))


def selected(acl: StandardAcl, rules: Iterable[AclRule]) -> bool:
    """Whether one of the filter's rules takes the access rule (SYN10)."""
    return any(rule.takes(acl) for rule in rules)


def text_of(acl: StandardAcl) -> str:
    """The rule as text for operators."""
    resource = f"{ResourceType(acl.resource_type).name} {acl.resource_name} ({PatternType(acl.pattern_type).name})"
    what = f"{AclPermissionType(acl.permission_type).name} {AclOperation(acl.operation).name}"
    return f"{what} on {resource} for {acl.principal} from {acl.host}"


def _is_of_topic(acl: StandardAcl, topics: Collection[str]) -> bool:
    return acl.resource_type == ResourceType.TOPIC and acl.pattern_type == PatternType.LITERAL and acl.resource_name in topics


def _parts(acls: Sequence[StandardAcl]) -> list[Sequence[StandardAcl]]:
    return [acls[start : start + RULES_PER_REQUEST] for start in range(0, len(acls), RULES_PER_REQUEST)]


def _creation(acl: StandardAcl) -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _exact_filter(acl: StandardAcl) -> delete_acls.DeleteAclsFilter:
    return delete_acls.DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        pattern_type_filter=acl.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
