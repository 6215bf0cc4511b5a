"""Two flows in opposite directions that keep names copy every record for ever."""

import sys
import textwrap
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, mirror_maker, texts, until

FILE = Path(__file__).with_name("mm2.properties")

with clusters("A", "B") as (a, b):
    a.produce("orders", texts("order", 3))
    with mirror_maker(FILE, [a, b]) as program:
        until("records are echoed", lambda: min(a.end("orders"), b.end("orders")) > 30)
        (warning,) = (line.partition("WARNING ")[2] for line in program.log.splitlines() if "without end" in line)
    at_a = Counter(record.text for record in a.read("orders"))
    check(set(at_a) == {"order 1", "order 2", "order 3"} and min(at_a.values()) > 5, "every record is there many times")
    print("3 records were produced at A. MirrorMaker 2 was stopped as soon as this was seen:")
    print(f"A has ~{a.count('orders')} records of orders, B has ~{b.count('orders')}; order 1 is ~{at_a['order 1']} times at A")
    print("\nits log had warned:")
    print(textwrap.fill(warning.partition(" (kmirror.")[0], 95, initial_indent="  ", subsequent_indent="  "))
