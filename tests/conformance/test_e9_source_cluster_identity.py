"""Another cluster behind a mirror's address is refused in every cycle and after a restart, until
the known one is back (FM8, C13).
"""

from __future__ import annotations

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror import EmbeddedCluster
from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.errors import ApiException

REFRESH_ERRORS = "kafka.server.mirror:type=MirrorMetadataManager,name=MetadataRefreshError"
FAILING = "kafka.server.mirror:type=MirrorFetcherManager,name=FailedPartitionsCount,clientId=MirrorReplica"


def test_fm8_c13_a_replaced_source_is_refused_in_every_cycle_and_after_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as other,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b,
    ):
        address = b.bootstrap_servers
        for cluster in (a, other):
            create_topic(cluster.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        produce(other.bootstrap_servers, "t", numbered("other", 50))
        create_mirror(address, "m", a.bootstrap_servers)
        add(address, "m", "t")
        wait_caught_up(address, a.bootstrap_servers, "m")

        def alter(cluster: EmbeddedCluster, kind: ConfigResourceType, name: str, key: str, value: str) -> None:
            change = [(key, ConfigOperation.SET, value)]
            call(cluster.bootstrap_servers, lambda admin: admin.incremental_alter_configs(kind, name, change))

        def refused() -> bool:
            found = b.metrics()
            errors.append(found[REFRESH_ERRORS]["Value"])
            return errors[-1] >= errors[0] + 2 and found[FAILING]["Value"] == 1

        before = log_bytes(b.log_dir(), "t-0")
        alter(other, ConfigResourceType.TOPIC, "t", "retention.ms", "7654321")
        alter(b, ConfigResourceType.MIRROR, "m", "bootstrap.servers", other.bootstrap_servers)
        errors: list[float] = []
        wait_for("two refused cycles", refused)
        (row,) = partitions_of(address, "m")
        assert (row.state, row.destination_offset) == ("MIRRORING", 20)
        assert f"the source's cluster id is {other.cluster_id}, but mirror m belongs to {a.cluster_id}" in caplog.text
        b.kill_node()
        b.start_node()
        wait_state(address, "m", "MIRRORING")
        errors = []
        wait_for("two refused cycles after the restart", refused)
        assert log_bytes(b.log_dir(), "t-0") == before
        configs = {entry.name: entry.value for entry in call(address, lambda admin: admin.describe_configs(ConfigResourceType.TOPIC, "t"))}
        assert configs["retention.ms"] != "7654321", "nothing of the other cluster's metadata is taken"
        assert {row.mirror_name: row.source_cluster_id for row in call(address, lambda admin: admin.list_mirrors())} == {"m": a.cluster_id}
        with pytest.raises(ApiException):
            alter(b, ConfigResourceType.MIRROR, "m", "source.cluster.id", other.cluster_id)
        produce(a.bootstrap_servers, "t", numbered("a2", 10))
        alter(b, ConfigResourceType.MIRROR, "m", "bootstrap.servers", a.bootstrap_servers)
        wait_caught_up(address, a.bootstrap_servers, "m")
        assert log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0") and len(log_bytes(b.log_dir(), "t-0")) > len(before)
        wait_for("nothing failing", lambda: b.metrics()[FAILING]["Value"] == 0)
