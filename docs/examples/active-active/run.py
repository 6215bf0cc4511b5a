"""Two clusters that both have producers: each has the other's records in topics of their own."""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, counts, mirror_maker, texts

FILE = Path(__file__).with_name("mm2.properties")

with clusters("A", "B") as (a, b):
    a.produce("accounts", texts("account at A", 30))
    a.produce("orders", texts("order", 10))
    b.produce("accounts", texts("account at B", 20))
    b.produce("customers", texts("customer", 5))
    with mirror_maker(FILE, [a, b]):
        for source, topic, target in ((a, "accounts", b), (a, "orders", b), (b, "accounts", a), (b, "customers", a)):
            copied(source, topic, target, f"{source.alias}.{topic}")
        a.produce("accounts", ["one more account at A"])
        copied(a, "accounts", b, "A.accounts")
        counts(a, b)
        for cluster in (a, b):
            local = cluster.read("accounts")
            check(
                all(record.text.endswith(f"{cluster.alias} {number}") or "more" in record.text for number, record in enumerate(local, 1)),
                "local",
            )
            read = cluster.consume("all-accounts", "^.*accounts", 51)
            print(f"\na consumer at {cluster.alias} that subscribes to ^.*accounts reads")
            for topic, count in sorted(Counter(record.topic for record in read).items()):
                print(f"  {count} records of {topic}")
