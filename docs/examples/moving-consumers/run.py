"""Groups move from A to B: where they go on, and why there."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, environment, mirror_maker, table, texts, until

FILE = Path(__file__).with_name("mm2.properties")
COMMITTED = {"dispatch": 60, "invoices": 57, "archive": 10}
WAVE = 5

with clusters("A", "B") as (a, b):
    with mirror_maker(FILE, [a, b]):
        for first in range(1, 60, WAVE):
            a.produce("orders", texts("order", WAVE, first))
            copied(a, "orders", b, "A.orders")
            until("their syncs are written", lambda first=first: a.end("mm2-offset-syncs.B.internal") == first + WAVE - 1)
        for group, offset in COMMITTED.items():
            a.commit(group, "orders", [offset])
        at_b = {group: until(f"{group} is at B", lambda group=group: max(0, *b.committed(group, "A.orders"))) for group in COMMITTED}

    command = ["translate-offsets", "--config", str(FILE), "--source", "A", "--target", "B"]
    sys.stdout.flush()
    groups = [word for group in COMMITTED for word in ("--group", group)]
    subprocess.run([sys.executable, "-m", "kmirror.cli.kmirror", *command, *groups], env=environment([a, b]), check=True)

    print()
    rows = []
    for group, offset in COMMITTED.items():
        read = b.consume(group, "A.orders", 60 - at_b[group])
        check([record.text for record in read] == texts("order", 60 - at_b[group], at_b[group] + 1), "no record is skipped")
        rows.append((group, at_b[group], len(read), sum(record.offset < offset for record in read)))
    table(("group", "offset at B", "reads at B", "again"), *rows)
