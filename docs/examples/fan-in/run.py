"""Topics of several clusters come together in one."""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, counts, mirror_maker, texts, twice

FILE = Path(__file__).with_name("mm2.properties")

with clusters("north", "south", "hub") as (north, south, hub):
    for cluster, count in ((north, 40), (south, 30), (hub, 20)):
        cluster.make("sales", partitions=2)
        cluster.produce("sales", texts(f"sold in {cluster.alias}", count), partitions=2)
        cluster.produce("scratch", ["not to be copied"])
    with mirror_maker(FILE, [north, south, hub]):
        for cluster in (north, south):
            copied(cluster, "sales", hub, f"{cluster.alias}.sales")
        counts(north, south, hub)
        read = hub.consume("totals", "^(.*[.])?sales", 90)
        check(not twice(read), "no record comes twice")
        print("\na consumer at hub that subscribes to ^(.*[.])?sales reads")
        for origin, count in sorted(Counter(record.text.split()[2] for record in read).items()):
            print(f"  {count} records of {origin}, each once")
