"""One cluster is copied to two others, which do not depend on each other."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, counts, mirror_maker, texts, until

FILE = Path(__file__).with_name("mm2.properties")
LAST_STORED = b'{"offset":49}'

with clusters("A", "B", "C") as (a, b, c):
    a.produce("orders", texts("order", 50))
    a.produce("invoices", texts("invoice", 20))
    with mirror_maker(FILE, [a, b, c]):
        for target in (b, c):
            copied(a, "orders", target, "A.orders")
        copied(a, "invoices", b, "A.invoices")
        counts(b, c)

        until("C has stored how far its copy is", lambda: LAST_STORED in [record.value for record in c.read("mm2-offsets.A.internal")])
        c.embedded.stop_node()
        a.produce("orders", texts("order", 50, first=51))
        print(f"\nC is away. B has {len(copied(a, 'orders', b, 'A.orders'))} orders")

        c.embedded.start_node()
        print(f"C is back and has {len(copied(a, 'orders', c, 'A.orders'))} orders")
        check(c.data_topics() == ["A.orders"], "C has orders only")
