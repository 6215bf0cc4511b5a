"""The actions of `kafka-acls`: add, remove and list the rules that a command line means."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import NamedTuple

from kmirror.admin.acls import AclBinding, AclBindingFilter
from kmirror.admin.admin_client import AdminClient
from kmirror.cli.java_names import java_exception
from kmirror.cli.tool_client import with_admin
from kmirror.cli.tool_options import UsageError, print_json
from kmirror.common.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    parse_kafka_principal,
)
from kmirror.common.errors import ApiException, KmirrorError

OTHER_OPERATIONS = {
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.CLUSTER_MIRROR: (
        AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.DELETE, AclOperation.ALTER_CONFIGS,
        AclOperation.DESCRIBE_CONFIGS,
    ),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}  # fmt: skip
PRODUCER_ON_TOPIC = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
PRODUCER_ON_TRANSACTIONAL_ID = (AclOperation.WRITE, AclOperation.DESCRIBE)
CONSUMER_ON_TOPIC = (AclOperation.READ, AclOperation.DESCRIBE)
CONSUMER_ON_GROUP = (AclOperation.READ,)


class Resource(NamedTuple):
    """A resource pattern, or a filter of patterns."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return f"(resourceType={self.resource_type.name}, name={self.name}, patternType={self.pattern_type.name})"


class Entry(NamedTuple):
    """Who may do what from where."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, permissionType={self.permission_type.name})"
        )


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


class AclCommand:
    """One invocation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._pattern_type = PatternType[options.resource_pattern_type.upper()]

    def run(self) -> int:
        options = self._options
        servers = options.bootstrap_server or options.bootstrap_controller
        action = self._add if options.add else self._remove if options.remove else self._list
        controllers = options.bootstrap_controller is not None
        try:
            with_admin(servers, options.command_config, action, controllers=controllers)
        except ApiException as error:
            raise KmirrorError(java_exception(error)) from error
        return 0

    async def _add(self, admin: AdminClient) -> None:
        if self._pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise UsageError(f"A '--resource-pattern-type' value of '{self._pattern_type.name}' is not valid when adding acls.")
        wanted = self._wanted()
        if not all(wanted.values()):
            raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
        for resource, entries in wanted.items():
            existing = await admin.describe_acls(AclBindingFilter(*resource))
            doubled = [entry for entry in entries if _binding(resource, entry) in existing]
            for entry in doubled:
                print(f"Acl (pattern=ResourcePattern{resource}, entry={entry}) already exists.")
            entries = [entry for entry in entries if entry not in doubled]
            if not entries:
                continue
            print(f"Adding ACLs for resource `ResourcePattern{resource}`: \n {_listed(entries)}\n")
            for error in (await admin.create_acls(_binding(resource, entry) for entry in entries)).values():
                if error is not None:
                    raise error

    async def _remove(self, admin: AdminClient) -> None:
        for resource, entries in self._wanted().items():
            shown = f"ResourcePattern{resource}"
            base = AclBindingFilter(*resource)
            if not entries:
                if self._confirmed(f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)"):
                    await admin.delete_acls([base])
            elif self._confirmed(f"Are you sure you want to remove ACLs: \n {_listed(entries)}\n from resource filter `{shown}`? (y/n)"):
                await admin.delete_acls([replace(base, **entry._asdict()) for entry in entries])

    def _confirmed(self, question: str) -> bool:
        if self._options.force:
            return True
        print(question)
        try:
            return input().strip().lower() == "y"
        except EOFError:
            return False

    async def _list(self, admin: AdminClient) -> None:
        resources = self._resources()
        bindings: list[AclBinding] = []
        if not resources:
            bindings = await admin.describe_acls()
        for resource in resources:
            bindings += await admin.describe_acls(AclBindingFilter(*resource))
        bindings = sorted(set(bindings))
        principals = [_principal(text) for text in self._options.principal]
        if self._options.json:
            print_json([_as_json(row) for row in bindings if not principals or row.principal in principals])
        elif not principals:
            _print_acls(bindings)
        for principal in principals if not self._options.json else ():
            print(f"ACLs for principal `{principal}`")
            _print_acls([row for row in bindings if row.principal == principal])

    # --- the meaning of the options ---------------------------------------------------------------

    def _wanted(self) -> dict[Resource, list[Entry]]:
        """Returns the rules to add or remove, by resource."""
        options = self._options
        wanted: dict[Resource, list[Entry]] = {}
        resources = self._resources(needed=True)
        if not options.producer and not options.consumer:
            operations = [parse_operation(text) for text in options.operation] or [AclOperation.ALL]
            wanted = {resource: self._entries(operations) for resource in resources}
        if options.producer:
            for resource in resources:
                if resource.resource_type is ResourceType.TOPIC:
                    wanted[resource] = self._entries(PRODUCER_ON_TOPIC)
                elif resource.resource_type is ResourceType.TRANSACTIONAL_ID:
                    wanted[resource] = self._entries(PRODUCER_ON_TRANSACTIONAL_ID)
            if options.idempotent:
                wanted[CLUSTER] = self._entries([AclOperation.IDEMPOTENT_WRITE])
        if options.consumer:
            for resource in resources:
                if resource.resource_type is ResourceType.TOPIC:
                    wanted[resource] = sorted({*wanted.get(resource, []), *self._entries(CONSUMER_ON_TOPIC)})
                elif resource.resource_type is ResourceType.GROUP:
                    wanted[resource] = sorted({*wanted.get(resource, []), *self._entries(CONSUMER_ON_GROUP)})
        _check_operations(wanted)
        return wanted

    def _entries(self, operations: Iterable[AclOperation]) -> list[Entry]:
        options = self._options
        entries = set()
        for kind, principals, hosts in (
            (AclPermissionType.ALLOW, options.allow_principal, options.allow_host),
            (AclPermissionType.DENY, options.deny_principal, options.deny_host),
        ):
            for principal in principals:
                name = _principal(principal.strip())
                for host in hosts or [WILDCARD]:
                    entries |= {Entry(name, host.strip(), operation, kind) for operation in operations}
        return sorted(entries)

    def _resources(self, *, needed: bool = False) -> list[Resource]:
        options, kind = self._options, self._pattern_type
        resources = [Resource(ResourceType.TOPIC, name.strip(), kind) for name in options.topic]
        if kind is PatternType.LITERAL and (options.cluster or options.idempotent):
            resources.append(CLUSTER)
        resources += [Resource(ResourceType.GROUP, name.strip(), kind) for name in options.group]
        resources += [Resource(ResourceType.TRANSACTIONAL_ID, name, kind) for name in options.transactional_id]
        resources += [Resource(ResourceType.DELEGATION_TOKEN, name.strip(), kind) for name in options.delegation_token]
        resources += [Resource(ResourceType.CLUSTER_MIRROR, name.strip(), kind) for name in options.cluster_mirror]
        resources += [Resource(ResourceType.USER, name.strip(), kind) for name in options.user_principal]
        if needed and not resources:
            raise UsageError(
                "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
                "--cluster-mirror <mirror> or --delegation-token <Delegation Token ID>"
            )
        return list(dict.fromkeys(resources))


def _principal(text: str) -> str:
    try:
        return str(parse_kafka_principal(text))
    except ApiException as error:
        raise KmirrorError(error.message) from error


def parse_operation(text: str) -> AclOperation:
    """Parse `DescribeConfigs` or `describe_configs`, in any case, with or without underscores.

    Returns UNKNOWN for anything else.
    """
    by_name = {operation.name.replace("_", ""): operation for operation in AclOperation}
    return by_name.get(text.strip().replace("_", "").upper(), AclOperation.UNKNOWN)


def _binding(resource: Resource, entry: Entry) -> AclBinding:
    return AclBinding(*resource, entry.principal, entry.host, entry.operation, entry.permission_type)


def _check_operations(wanted: dict[Resource, list[Entry]]) -> None:
    supported = SUPPORTED_OPERATIONS | OTHER_OPERATIONS
    for resource, entries in wanted.items():
        allowed = (*supported[resource.resource_type], AclOperation.ALL)
        if any(entry.operation not in allowed for entry in entries):
            names = ", ".join(operation.name for operation in allowed)
            raise UsageError(f"ResourceType {resource.resource_type.name} only supports operations [{names}]")


def _listed(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


def _print_acls(bindings: list[AclBinding]) -> None:
    resources: dict[Resource, list[Entry]] = {}
    for row in bindings:
        entry = Entry(row.principal, row.host, row.operation, row.permission_type)
        resources.setdefault(Resource(row.resource_type, row.name, row.pattern_type), []).append(entry)
    for resource, entries in resources.items():
        print(f"Current ACLs for resource `ResourcePattern{resource}`:\n{_listed(entries)}\n")


def _as_json(row: AclBinding) -> dict[str, str]:
    values = asdict(row)
    return {
        "resourceType": row.resource_type.name,
        "name": values["name"],
        "patternType": row.pattern_type.name,
        "principal": values["principal"],
        "host": values["host"],
        "operation": row.operation.name,
        "permissionType": row.permission_type.name,
    }
