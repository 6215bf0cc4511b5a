"""Topics that the controller said it had created: each must exist from then on, under its id.

A creation without an answer, or with an error, counts neither way. Ids are read when the cluster is
complete.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.mirrors.mirror_harness import call

from kmirror.admin.results import NewTopic
from kmirror.common.errors import KmirrorError
from kmirror.common.uuid import Uuid
from tools.campaigns.checks import until

ANSWER_MS = 3_000
LISTED_LIMIT_S = 30
A_BLOCK = 10


class CreatedTopics:
    """`acknowledged` is the number of creations that must last."""

    def __init__(self, bootstrap_servers: str, *, prefix: str, replication_factor: int) -> None:
        self._servers, self._prefix, self._replicas = bootstrap_servers, prefix, replication_factor
        self._number = 0
        self._ids: dict[str, Uuid | None] = {}

    @property
    def acknowledged(self) -> int:
        return len(self._ids)

    def create(self) -> str | None:
        """Creates one more topic; returns the reason if it was refused."""
        self._number += 1
        topic = NewTopic(f"{self._prefix}-{self._number:04d}", 1, self._replicas)
        try:
            call(self._servers, lambda admin: admin.create_topics([topic]), timeout_ms=ANSWER_MS).all()
        except (KmirrorError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        self._ids[topic.name] = None
        return None

    def create_until_refused(self, limit: int) -> str | None:
        """Creates up to `limit` topics; returns why the first was refused, if any was."""
        return next((reason for _ in range(limit) if (reason := self.create())), None)

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        """Creates topics while the block runs."""
        ended = threading.Event()

        def work() -> None:
            for _ in range(A_BLOCK):
                if ended.is_set() or self.create() is not None:
                    return

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def check(self, bootstrap_servers: str, *, limit_s: float = LISTED_LIMIT_S) -> None:
        """The brokers at `bootstrap_servers` know exactly these topics.

        A broker that has just started knows what the controller told it.
        """
        lacking, changed = ["no broker answered"], list[str]()

        def there() -> bool:
            try:
                listed = {topic.name: topic.topic_id for topic in call(bootstrap_servers, lambda admin: admin.list_topic_listings())}
            except (KmirrorError, OSError):
                return False
            lacking[:] = [name for name in self._ids if name not in listed]
            changed[:] = [name for name, known in self._ids.items() if known is not None and listed.get(name, known) != known]
            if not lacking and not changed:
                self._ids = {name: listed[name] for name in self._ids}
            return not lacking and not changed

        assert until(there, limit_s), (
            f"of {len(self._ids)} topics {len(lacking)} are gone, {len(changed)} have another id: {[*lacking, *changed][:5]}"
        )
