"""A copy of a copy: A to B to C."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import clusters, copied, mirror_maker, table, texts, until

from kmirror.mirrormaker.remote_cluster_utils import MirrorClient

FILE = Path(__file__).with_name("mm2.properties")

with clusters("A", "B", "C") as (a, b, c):
    a.make("orders", partitions=2)
    a.produce("orders", texts("order", 40), partitions=2)
    with mirror_maker(FILE, [a, b, c]):
        copied(a, "orders", b, "A.orders")
        print(f"C has {len(copied(a, 'orders', c, 'B.A.orders'))} records of A's orders as B.A.orders")
        until("heartbeats of A arrive at C", lambda: c.count("B.A.heartbeats") >= 2)
        until("heartbeats of B arrive at C", lambda: c.count("B.heartbeats") and c.count("heartbeats"))
        print()
        rows = []
        for cluster in (a, b, c):
            names, client = list(cluster.topics()), MirrorClient()
            hops = (f"{alias}: {client.replication_hops(names, alias)}" for alias in client.upstream_clusters(names))
            rows.append((cluster.alias, ", ".join(sorted(client.heartbeat_topics(names))), ", ".join(hops) or "none"))
        table(("at", "heartbeats", "clusters upstream, and how many hops away"), *rows)
