"""B is a copy of A; when A is lost, a group goes on at B."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, counts, mirror_maker, texts, twice, until

FILE = Path(__file__).with_name("mm2.properties")

ALREADY_READ = [90, 60, 30]
WAVE = 60

with clusters("A", "B") as (a, b):
    a.make("orders", partitions=3)
    with mirror_maker(FILE, [a, b]):
        for first in range(1, 300, WAVE):
            a.produce("orders", texts("order", WAVE, first), partitions=3)
            copied(a, "orders", b, "A.orders")
        counts(a, b)
        print("each partition of A.orders has the records of A's orders, in their order")

        a.commit("shop", "orders", ALREADY_READ)
        print(f"\nat A, shop has read up to the offsets {ALREADY_READ}")
        moved = until("B has shop's offsets", lambda: min(found := b.committed("shop", "A.orders", 3)) >= 0 and found)
        a.embedded.kill_node()
    check(all(0 < at <= read for at, read in zip(moved, ALREADY_READ, strict=True)), "no offset is beyond what was read")
    print("at B, MirrorMaker 2 has written offsets for it that are not greater")

    print("\nA is lost. shop goes on at B and reads")
    left = [record for record in b.read("A.orders") if record.offset >= ALREADY_READ[record.partition]]
    begins = b.committed("shop", "A.orders", 3)
    read = b.consume("shop", "A.orders", sum(record.offset >= begins[record.partition] for record in b.read("A.orders")))
    check(set(left) <= set(read) and not twice(read), "shop reads what it has not read yet, each record once")
    print(f"  {len(left)} of the {len(left)} records that it had not read at A")
    print(f"  ~{len(read) - len(left)} records once more")
