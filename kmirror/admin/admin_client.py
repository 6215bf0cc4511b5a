"""AdminClient: what an operator asks of a cluster, as coroutines; one class, put together from one family a module.

Names and results are those of Kafka's Admin in snake case; the mirror calls are the KIP's eight (E6). A failure of the whole
request raises `ApiException`; failures of single topics, partitions or groups are in the result. A broker that cannot be
reached is passed over for the next; when none is left: `NoBrokerError`. `timeout_ms` bounds a whole call.
"""

from __future__ import annotations

from kmirror.admin.acls import AclAdmin
from kmirror.admin.admin_requests import DEFAULT_TIMEOUT_MS, NoBrokerError
from kmirror.admin.cluster import ClusterAdmin
from kmirror.admin.configs import ConfigAdmin
from kmirror.admin.features import FeatureAdmin
from kmirror.admin.groups import GroupAdmin
from kmirror.admin.log_dirs import LogDirAdmin
from kmirror.admin.mirrors import MirrorAdmin
from kmirror.admin.quotas import QuotaAdmin
from kmirror.admin.reassignments import ReassignmentAdmin
from kmirror.admin.records import RecordAdmin
from kmirror.admin.scram import ScramAdmin
from kmirror.admin.share_groups import ShareGroupAdmin
from kmirror.admin.tokens import TokenAdmin
from kmirror.admin.topics import TopicAdmin
from kmirror.admin.transactions import TransactionAdmin
from kmirror.common.addresses import parse_bootstrap_servers
from kmirror.common.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED

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


class AdminClient(
    RecordAdmin,
    TopicAdmin,
    ConfigAdmin,
    ClusterAdmin,
    GroupAdmin,
    ShareGroupAdmin,
    AclAdmin,
    QuotaAdmin,
    ScramAdmin,
    TokenAdmin,
    FeatureAdmin,
    LogDirAdmin,
    ReassignmentAdmin,
    TransactionAdmin,
    MirrorAdmin,
):
    """Talks to one cluster. `close` when done; also an async context manager."""

    async def __aenter__(self) -> AdminClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()
