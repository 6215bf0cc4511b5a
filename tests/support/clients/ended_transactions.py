"""When transactions that were committed or aborted are over for readers of committed records."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka as ck

from support.waiting import REACHED_S


def wait_until_ended(servers: str, topic: str, partition: int = 0, **settings: Any) -> None:
    """Waits until no transaction is open in the partition, so that readers of committed records see all
    of it. A producer is told that its transaction has ended before the markers are written, which is
    what readers wait for.
    """
    common = {"bootstrap.servers": servers, "group.id": "asks-for-ends", "log_level": 0, **settings}
    readers = [ck.Consumer({**common, "isolation.level": f"read_{isolation}"}) for isolation in ("committed", "uncommitted")]
    deadline = time.monotonic() + REACHED_S
    while len({reader.get_watermark_offsets(ck.TopicPartition(topic, partition), REACHED_S)[1] for reader in readers}) > 1:
        assert time.monotonic() < deadline, f"a transaction in {topic} stays open"
        time.sleep(0.01)
    for reader in readers:
        reader.close()
