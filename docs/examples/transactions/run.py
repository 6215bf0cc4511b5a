"""A topic with aborted transactions, copied in two ways."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import Producer
from scene import LIMIT_S, check, clusters, mirror_maker, table, until

FILE = Path(__file__).with_name("mm2.properties")

with clusters("A", "B", "C") as (a, b, c):
    producer = Producer(a.settings(transactional_id="till"))
    producer.init_transactions(LIMIT_S)
    for turn in range(9):
        producer.begin_transaction()
        for number in range(5):
            producer.produce("orders", f"{'aborted' if turn % 3 == 1 else 'committed'} {turn}.{number}".encode())
        producer.flush(LIMIT_S)
        if turn % 3 == 1:
            producer.abort_transaction(LIMIT_S)
        else:
            producer.commit_transaction(LIMIT_S)
    with mirror_maker(FILE, [a, b, c]):
        until("B has all records", lambda: b.count("A.orders") >= 45)
        until("C has those that were committed", lambda: c.count("A.orders") >= 30)
        rows = []
        for cluster, topic in ((a, "orders"), (b, "A.orders"), (c, "A.orders")):
            for isolation in ("read_uncommitted", "read_committed"):
                found = cluster.read(topic, isolation=isolation)
                aborted = sum(record.text.startswith("aborted") for record in found)
                rows.append((cluster.alias, topic, isolation, len(found), aborted, found[-1].offset))
        table(("cluster", "topic", "a consumer with", "reads", "aborted ones", "last offset"), *rows)
        for target in (b, c):
            offsets = [record.offset for record in target.read("A.orders")]
            check(offsets == list(range(len(offsets))), "copies have no gaps, because no marker of a transaction is copied")
        last = ", ".join(
            f"{record.offset} at {cluster.alias}"
            for cluster, topic in ((a, "orders"), (b, "A.orders"), (c, "A.orders"))
            for record in cluster.read(topic)[-1:]
        )
        print(f"\nthe last committed record is at offset {last}")
