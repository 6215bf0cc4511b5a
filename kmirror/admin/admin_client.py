"""AdminClient: the calls of an operator to a cluster, as coroutines.

Names and results are those of Kafka's Admin in snake case; the mirror calls are the eight of the
KIP (E6). Each call is a function in its family's file (`topics`, `groups`, `mirrors`, ...) over
`AdminRequests`, which knows whom to ask. The class is the table of these functions. To add a call,
write a function in a family and add its line to the table.

A failure of the whole request raises `ApiException`; the result holds failures of single topics,
partitions or groups. If a broker cannot be reached, the next one is asked; `NoBrokerError` means
that none is left. `timeout_ms` bounds a whole call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Concatenate, ParamSpec, Self, TypeVar

from kmirror.admin import (
    acls,
    cluster,
    configs,
    features,
    groups,
    log_dirs,
    mirrors,
    quotas,
    reassignments,
    records,
    scram,
    share_groups,
    tokens,
    topics,
    transactions,
)
from kmirror.admin.admin_requests import DEFAULT_TIMEOUT_MS, AdminRequests, FirstContact, NoBrokerError
from kmirror.common.addresses import parse_bootstrap_servers
from kmirror.common.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED
from kmirror.network.client import NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.api import Runtime

__all__ = [
    "DEFAULT_TIMEOUT_MS",
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "AdminClient",
    "NoBrokerError",
    "parse_bootstrap_servers",
]

P = ParamSpec("P")
T = TypeVar("T")
_SELF = Parameter("self", Parameter.POSITIONAL_ONLY)


def _call(ask: Callable[Concatenate[AdminRequests, P], T]) -> Callable[Concatenate[AdminClient, P], T]:
    """Returns a family's function as a method; the client's requests become its first argument."""

    @wraps(ask)
    def call(admin: AdminClient, /, *arguments: P.args, **named: P.kwargs) -> T:
        return ask(admin._requests, *arguments, **named)

    _, *parameters = signature(ask).parameters.values()
    call.__signature__ = Signature([_SELF, *parameters], return_annotation=signature(ask).return_annotation)  # type: ignore[attr-defined]
    return call


class AdminClient:
    """Talks to one cluster and owns its connections; call `close`, or use it as an async context
    manager.

        from kmirror import AdminClient
        from kmirror.runtime.asyncio_runtime import run

        async def main(runtime):
            async with AdminClient(runtime, [("127.0.0.1", 9092)]) as admin:
                print(await admin.list_topics())

        run(main)

    Every call but `close` is a coroutine. In tests the fixture `kmirror_admin` does the rest.
    """

    def __init__(
        self,
        runtime: Runtime,
        bootstrap_servers: Sequence[tuple[str, int]],
        *,
        client_id: str = "adminclient",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        security: ClientSecurity = ClientSecurity.PLAINTEXT,
        controllers: bool = False,
        first_contact: FirstContact | None = None,
    ) -> None:
        self._bootstrap_servers = tuple(bootstrap_servers)
        self._client = NetworkClient(runtime, client_id, security=security)
        self._requests = AdminRequests(
            runtime,
            self._client,
            bootstrap_servers,
            timeout_ms=timeout_ms,
            controllers=controllers,
            first_contact=first_contact,
        )

    def __repr__(self) -> str:
        servers = ",".join(f"{host}:{port}" for host, port in self._bootstrap_servers)
        return f"<AdminClient {self._client.client_id!r} of {servers}>"

    def close(self) -> None:
        """Closes the connections; calls that wait for an answer fail."""
        self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    list_topics = _call(topics.list_topics)
    list_topic_listings = _call(topics.list_topic_listings)
    describe_topics = _call(topics.describe_topics)
    describe_topics_by_ids = _call(topics.describe_topics_by_ids)
    describe_topic_partitions = _call(topics.describe_topic_partitions)
    create_topics = _call(topics.create_topics)
    delete_topics = _call(topics.delete_topics)
    delete_topics_by_ids = _call(topics.delete_topics_by_ids)
    create_partitions = _call(topics.create_partitions)

    list_offsets = _call(records.list_offsets)
    list_offsets_by_spec = _call(records.list_offsets_by_spec)
    delete_records = _call(records.delete_records)
    end_offset_of_epoch = _call(records.end_offset_of_epoch)
    fetch_records = _call(records.fetch_records)

    describe_configs = _call(configs.describe_configs)
    describe_topic_configs = _call(configs.describe_topic_configs)
    incremental_alter_configs = _call(configs.incremental_alter_configs)
    list_config_resources = _call(configs.list_config_resources)

    describe_cluster = _call(cluster.describe_cluster)
    unregister_broker = _call(cluster.unregister_broker)
    describe_metadata_quorum = _call(cluster.describe_metadata_quorum)
    add_raft_voter = _call(cluster.add_raft_voter)
    remove_raft_voter = _call(cluster.remove_raft_voter)
    broker_api_versions = _call(cluster.broker_api_versions)

    list_groups = _call(groups.list_groups)
    list_consumer_groups = _call(groups.list_consumer_groups)
    describe_consumer_groups = _call(groups.describe_consumer_groups)
    delete_consumer_groups = _call(groups.delete_consumer_groups)
    list_consumer_group_offsets = _call(groups.list_consumer_group_offsets)
    alter_consumer_group_offsets = _call(groups.alter_consumer_group_offsets)
    delete_consumer_group_offsets = _call(groups.delete_consumer_group_offsets)

    describe_share_groups = _call(share_groups.describe_share_groups)
    list_share_group_offsets = _call(share_groups.list_share_group_offsets)
    alter_share_group_offsets = _call(share_groups.alter_share_group_offsets)
    delete_share_group_offsets = _call(share_groups.delete_share_group_offsets)
    delete_share_groups = _call(share_groups.delete_share_groups)

    describe_acls = _call(acls.describe_acls)
    create_acls = _call(acls.create_acls)
    delete_acls = _call(acls.delete_acls)

    describe_client_quotas = _call(quotas.describe_client_quotas)
    alter_client_quotas = _call(quotas.alter_client_quotas)

    describe_user_scram_credentials = _call(scram.describe_user_scram_credentials)
    alter_user_scram_credentials = _call(scram.alter_user_scram_credentials)

    create_delegation_token = _call(tokens.create_delegation_token)
    renew_delegation_token = _call(tokens.renew_delegation_token)
    expire_delegation_token = _call(tokens.expire_delegation_token)
    describe_delegation_token = _call(tokens.describe_delegation_token)

    describe_features = _call(features.describe_features)
    update_features = _call(features.update_features)

    describe_log_dirs = _call(log_dirs.describe_log_dirs)
    alter_replica_log_dirs = _call(log_dirs.alter_replica_log_dirs)

    alter_partition_reassignments = _call(reassignments.alter_partition_reassignments)
    list_partition_reassignments = _call(reassignments.list_partition_reassignments)
    elect_leaders = _call(reassignments.elect_leaders)

    list_transactions = _call(transactions.list_transactions)
    describe_transactions = _call(transactions.describe_transactions)
    describe_producers = _call(transactions.describe_producers)
    abort_transaction = _call(transactions.abort_transaction)
    fence_producers = _call(transactions.fence_producers)
    force_terminate_transaction = _call(transactions.force_terminate_transaction)

    create_mirror = _call(mirrors.create_mirror)
    add_topics_to_mirror = _call(mirrors.add_topics_to_mirror)
    remove_topics_from_mirror = _call(mirrors.remove_topics_from_mirror)
    pause_mirror_topics = _call(mirrors.pause_mirror_topics)
    resume_mirror_topics = _call(mirrors.resume_mirror_topics)
    delete_mirror = _call(mirrors.delete_mirror)
    list_mirrors = _call(mirrors.list_mirrors)
    describe_mirrors = _call(mirrors.describe_mirrors)
