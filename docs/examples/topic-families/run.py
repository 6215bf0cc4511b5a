"""One program for each family of topics."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, counts, mirror_maker, texts, until

FILE = Path(__file__).with_name("mm2.properties")

with clusters("A", "B") as (a, b):
    for topic in ("shop-orders", "shop-returns", "bank-payments", "staff-salaries"):
        a.produce(topic, texts("record", 20))
    with mirror_maker(FILE, [a, b], FAMILY="shop") as shop, mirror_maker(FILE, [a, b], FAMILY="bank"):
        for topic in ("shop-orders", "shop-returns", "bank-payments"):
            copied(a, topic, b, f"A.{topic}")
        counts(b)

        shop.kill()
        for topic in ("shop-orders", "bank-payments"):
            a.produce(topic, texts("record", 20, first=21))
        copied(a, "bank-payments", b, "A.bank-payments")
        check(b.count("A.shop-orders") == 20, "the shop's topics stand still")
        print(f"\nthe program for shop is killed: B has {b.count('A.bank-payments')} payments, and {b.count('A.shop-orders')} orders")

        with mirror_maker(FILE, [a, b], FAMILY="shop"):
            until("the orders arrive", lambda: "record 40" in [record.text for record in b.read("A.shop-orders")])
            print("the program for shop is started again: the orders arrive")
        check("A.staff-salaries" not in b.data_topics(), "nobody copies salaries")
    kept = [name for name in b.topics() if name.startswith("mm2-offsets")]
    print(f"\nat B, source offsets are kept in {' and '.join(kept)}")
