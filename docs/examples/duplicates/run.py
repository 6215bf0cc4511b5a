"""What a crash of MirrorMaker 2 does to the copies: at least once, and exactly once."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, mirror_maker, table, texts, twice, until

FILE = Path(__file__).with_name("mm2.properties")


def shown(when: str) -> tuple[object, ...]:
    at_b, at_c = b.read("A.orders"), c.read("A.orders")
    return when, len(at_b), twice(at_b), len(at_c), twice(at_c)


with clusters("A", "B", "C") as (a, b, c):
    a.produce("orders", texts("order", 25))
    with mirror_maker(FILE, [a, b, c]):
        copied(a, "orders", b, "A.orders")
        copied(a, "orders", c, "A.orders")
    rows = [shown("25 records; stopped in good order")]

    with mirror_maker(FILE, [a, b, c]) as program:
        a.produce("orders", texts("order", 5, first=26))
        copied(a, "orders", b, "A.orders")
        copied(a, "orders", c, "A.orders")
        program.kill()
    rows.append(shown("5 records more; killed"))

    with mirror_maker(FILE, [a, b, c]):
        a.produce("orders", ["order 31"])
        until("the last one is at B", lambda: "order 31" in [record.text for record in b.read("A.orders")])
        copied(a, "orders", c, "A.orders")
    rows.append(shown("1 record more; started again"))
    table(("", "at B", "there twice", "at C", "there twice"), *rows)

    again = [record for record in b.read("A.orders") if record.text == "order 26"]
    check(len(again) == 2, "a record is there twice")
    print(f"\norder 26 is at B's offsets {again[0].offset} and {again[1].offset}")
