"""What a source of an older version answers a mirror, and what it answers others."""

from __future__ import annotations

import pytest

from kmirror.network.client import NetworkClient
from kmirror.sim.cluster import PORT
from kmirror.sim.events import History
from kmirror.sim.fleet import SimFleet
from kmirror.sim.log_watch import KnownChains
from kmirror.sim.loop import SimLoop
from kmirror.sim.old_dialects import DIALECTS
from kmirror.sim.runtime import SimWorld
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.api_versions import ApiVersionsRequest

UNSTABLE = {"unstable.api.versions.enable": "true", "unstable.feature.versions.enable": "true"}


def advertised(dialect: str, client_id: str) -> dict[int, int]:
    world = SimWorld(SimLoop(1))
    fleet = SimFleet(world, History(), KnownChains(), name="a", brokers=1, dialect=dialect, config=UNSTABLE, features={"mirror.version": 1})
    for server in fleet.servers:
        server.start()
    for server in fleet.servers:
        world.loop.run_until_complete(server.wait_started())
    runtime = world.node("clients").boot()
    client = NetworkClient(runtime, client_id)
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    asking = runtime.spawn(client.send("a1", PORT, request, timeout_ms=1_000), name="ask")
    response = world.loop.run_until_complete(asking)
    world.close()
    return {row.api_key: row.max_version for row in response.api_keys}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_mirror_is_answered_as_by_an_old_version(dialect):
    old, ours = advertised(dialect, "broker-1-fetcher-0-mirror-m"), advertised(dialect, "consumer-1")
    assert {key: old[key] for key in DIALECTS[dialect]} == DIALECTS[dialect]
    assert ApiKeys.DESCRIBE_MIRRORS in ours and ApiKeys.DESCRIBE_MIRRORS not in old
    assert ours[ApiKeys.FETCH] > old[ApiKeys.FETCH]
