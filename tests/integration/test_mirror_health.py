"""A mirror whose source is gone is not well, and says so beside the readiness of its broker."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    create_mirror,
    create_topic,
    numbered,
    produce,
    wait_caught_up,
    wait_for,
)
from support.waiting import REACHED_S

from kmirror.embedded import EmbeddedCluster
from kmirror.server.node_http import HTTP_LISTENER_CONFIG


def page(cluster: EmbeddedCluster, path: str) -> tuple[int, dict[str, Any]]:
    url = f"http://127.0.0.1:{cluster.call(lambda server: server.http.port)}{path}"  # type: ignore[union-attr]
    try:
        with urllib.request.urlopen(url, timeout=REACHED_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_mirror_whose_source_is_gone_is_not_well_though_its_broker_is_ready() -> None:
    settings = {**FAST_MIRROR, HTTP_LISTENER_CONFIG: "127.0.0.1:0"}
    with EmbeddedCluster(mirroring=True) as a, EmbeddedCluster(mirroring=True, config=settings) as b:
        assert page(b, "/health/mirrors") == (200, {"ready": True, "mirrors": {}})
        create_topic(a.bootstrap_servers, "t", 2)
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        wait_for("the mirror is well", lambda: page(b, "/health/mirrors")[0] == 200)
        mirror = page(b, "/health/mirrors")[1]["mirrors"]["m"]
        assert mirror["looked_at"] == ["2 partitions that are led here, 2 of them well"] and mirror["not_looked_at"]
        a.stop_node()
        wait_for("the mirror is not well", lambda: page(b, "/health/mirrors")[0] == 503)
        status, whole = page(b, "/health")
        assert status == 200 and whole["ready"], "the broker serves all the same"
        assert not whole["mirrors"]["m"]["ready"] and any("t-" in reason for reason in whole["mirrors"]["m"]["reasons"])
        a.start_node()
        wait_for("the mirror is well again", lambda: page(b, "/health/mirrors")[0] == 200)
