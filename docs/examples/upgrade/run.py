"""A new version takes over from the old one while records are written."""

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, copied, mirror_maker, texts, twice, until

FILE = Path(__file__).with_name("mm2.properties")

with clusters("A", "B") as (a, b):
    stopped, written = threading.Event(), []

    def write() -> None:
        while not stopped.wait(0.05):
            a.produce("orders", texts("order", 2, first=2 * len(written) + 1))
            written.append(len(written))

    def goes_on(what: str) -> None:
        before = b.count("A.orders")
        until(what, lambda: b.count("A.orders") >= before + 20)
        print(f"{what}: records go on arriving")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with mirror_maker(FILE, [a, b]) as old:
            goes_on("the old program runs")
            with mirror_maker(FILE, [a, b]) as new:
                until("the new program has joined", lambda: "Joined group" in new.log)
                goes_on("the new program runs beside it")
                old.stop()
                goes_on("the old program is stopped")
                stopped.set()
                writer.join()
                found = copied(a, "orders", b, "A.orders")
    finally:
        stopped.set()
    check(len(found) == 2 * len(written) and not twice(found), "nothing is lost, and nothing is there twice")
    print("each record is at B, in the order of A, and none is there twice")
