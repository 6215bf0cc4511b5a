"""MirrorMaker 2 with everything off that the legacy MirrorMaker does not do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, counts, mirror_maker, texts, until

FILE = Path(__file__).with_name("mm2.properties")

with clusters("A", "B") as (a, b):
    a.make("orders", partitions=4)
    a.produce("orders", texts("order", 40), partitions=4)
    a.produce("parcels", texts("parcel", 10))
    with mirror_maker(FILE, [a, b]):
        copied(a, "orders", b, "orders")
        copied(a, "parcels", b, "parcels")
        until("MirrorMaker 2 has made its topics", lambda: "heartbeats" in b.topics())
    counts(a, b)
    check(a.data_topics() == list(a.topics()), "A has no topic of MirrorMaker's")
    print(f"\nB has of MirrorMaker's own: {', '.join(name for name in b.topics() if name not in b.data_topics())}")
