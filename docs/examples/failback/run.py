"""After a failover with MirrorMaker 2, the way back copies everything again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, mirror_maker, table, texts, twice, until

HERE = Path(__file__).parent


def shown(when: str) -> tuple[object, ...]:
    here, there = a.read("orders"), b.read("orders")
    return when, len(here), twice(here), len(there), twice(there)


with clusters("A", "B") as (a, b):
    a.produce("orders", texts("order", 100))
    with mirror_maker(HERE / "mm2.properties", [a, b]):
        copied(a, "orders", b, "orders")
    rows = [shown("MirrorMaker 2 has copied A to B")]

    b.produce("orders", texts("order", 20, first=101))
    rows.append(shown("applications have moved to B"))

    with mirror_maker(HERE / "back.properties", [a, b]):
        until("A has what B has", lambda: a.count("orders") >= 220)
    rows.append(shown("B is copied back to A"))
    table(("", "at A", "there twice", "at B", "there twice"), *rows)

    check([record.text for record in a.read("orders")[100:]] == [record.text for record in b.read("orders")], "all of B came to A")
    print("\nto bring 20 new records back, 120 were copied")
