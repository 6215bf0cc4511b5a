"""Two ways from A to D: the same records arrive under two names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, counts, mirror_maker, texts, twice

FILE = Path(__file__).with_name("mm2.properties")

with clusters("A", "B", "C", "D") as everywhere:
    a, _, c, d = everywhere
    a.produce("orders", texts("order", 25))
    a.produce("parcels", texts("parcel", 15))
    with mirror_maker(FILE, everywhere):
        for name in ("B.A.orders", "C.A.orders"):
            copied(a, "orders", d, name)
        copied(a, "parcels", d, "B.A.parcels")
        copied(a, "parcels", c, "A.parcels")
        counts(*everywhere)
        print()
        for topic, count in (("orders", 50), ("parcels", 15)):
            read = d.consume(f"reads {topic}", f"^.*{topic}", count)
            print(f"a consumer at D of ^.*{topic} reads {len(read)} records; {twice(read)} of them it had read before")
        check("C.A.parcels" not in d.data_topics(), "the parcels came one way")
