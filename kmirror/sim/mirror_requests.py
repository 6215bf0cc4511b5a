"""MirrorRequests: what operators ask of the clusters about one topic in one mirror, until the
controller says that it is done.

A client may give up a request that is then carried out late, after those that followed it, and an
answer may come from a broker that is behind. So nobody believes an answer. What counts is the
topic's `mirror.name` at the controller (called its association here). If it is not what was asked
for, `way_back` says which request leads the topic back into its mirror.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from kmirror.admin.admin_client import AdminClient
from kmirror.common.errors import Errors, KmirrorError
from kmirror.metadata.mirror_names import MIRROR_NAME_CONFIG
from kmirror.sim.events import History
from kmirror.sim.fleet import SimFleet
from kmirror.sim.loop import SimLoop
from kmirror.sim.mirror_operators import Controls, MirrorOperator
from kmirror.sim.operator import Operator
from kmirror.sim.runtime import SimRuntime

LOOKS = 30
LOOK_PAUSE_MS = 100
OPERATOR_TIMEOUT_MS = 2_000


def way_back(mirror: str, association: str | None) -> str | None:
    """Returns the request that leads a topic with that association ("" for none, None: nobody can
    tell) back into the mirror; None if it is in it.
    """
    if association == mirror:
        return None
    return "resume" if association == f"{mirror}.paused" else "add"


class MirrorRequests:
    """About `topic` in `mirror`, at the cluster that each method names.

    `until(what, condition)` waits, but not for ever.
    """

    def __init__(
        self,
        mirror: str,
        topic: str,
        operator: Operator,
        fleets: Mapping[str, SimFleet],
        history: History,
        *,
        loop: SimLoop,
        clients: SimRuntime,
        until: Callable[[str, Callable[[], bool]], Awaitable[None]],
        patience_ms: int,
    ) -> None:
        self._mirror = mirror
        self._topic = topic
        self._operator = operator
        self._fleets = fleets
        self._history = history
        self._loop = loop
        self._clients = clients
        self._until = until
        self._patience_ms = patience_ms
        self._seen: dict[str, set[str | None]] = {}

    # What the controller says

    def association(self, cluster: str) -> str | None:
        """The topic's `mirror.name`, "" for none; None while there is no controller."""
        fleet = self._fleets[cluster]
        if not fleet.controller.is_serving:
            return None
        association = fleet.image().configs.topic(self._topic).get(MIRROR_NAME_CONFIG, "")
        self._seen.setdefault(cluster, set()).add(association)
        return association

    def is_mirrored(self, cluster: str) -> bool:
        """Whether the topic is in the mirror and not paused, as far as anybody can tell."""
        return self.association(cluster) in (self._mirror, None)

    def is_in(self, cluster: str) -> bool:
        """Returns whether the topic is in the mirror, paused or not."""
        return self.association(cluster) in (self._mirror, f"{self._mirror}.paused")

    def is_out(self, cluster: str) -> bool:
        """Whether the topic is in no mirror, or was removed from it."""
        association = self.association(cluster)
        return association is not None and association not in (self._mirror, f"{self._mirror}.paused")

    # One operator, who insists

    async def start_mirror(self, source: str, destination: str) -> None:
        """Creates the mirror, unless it exists, and adds the topic; waits for nothing after that."""
        fleet = self._fleets[destination]
        await self._until(f"the controller of {destination} serves", lambda: fleet.controller.is_serving)
        if self._mirror not in fleet.image().configs.mirror_names():
            await self._operator.create_mirror(destination, self._mirror, source=source)
        await self._insist("add", destination, [self._mirror], self._add)

    async def pause_and_resume(self, destination: str, pause_ms: int) -> None:
        await self._insist("pause", destination, [f"{self._mirror}.paused"], self._pause)
        await asyncio.sleep(pause_ms / 1000)
        await self._insist("resume", destination, [self._mirror], self._resume)

    async def remove(self, destination: str) -> None:
        removed = [f"{self._mirror}.removed", f"{self._mirror}.paused.removed"]
        await self._insist("remove", destination, removed, self._remove)

    async def set_right(self, source: str, destination: str) -> None:
        """Repeats what a late request has undone: one that was given up, and carried out after
        those that followed it.
        """
        back = way_back(self._mirror, self.association(destination))
        if back == "resume":
            await self._insist("resume", destination, [self._mirror], self._resume)
        elif back == "add":
            await self.start_mirror(source, destination)

    async def delete_topic(self, cluster: str) -> None:
        """Deletes until the controller has no such topic; KmirrorError if it goes on having one."""
        fleet = self._fleets[cluster]
        deadline_us = self._deadline_us()
        while True:
            topic = fleet.image().topics.topic(self._topic) if fleet.controller.is_serving else None
            if topic is None and fleet.controller.is_serving:
                return
            if self._loop.now_us > deadline_us:
                raise KmirrorError(f"delete {self._topic} at {cluster}: it is still there after {self._patience_ms} ms")
            if topic is not None:
                await self._operator.delete_topic(cluster, self._topic, topic.id)
            await asyncio.sleep(LOOK_PAUSE_MS / 1000)

    async def _insist(self, what: str, cluster: str, wanted: Sequence[str], ask: Callable[[str], Awaitable[None]]) -> None:
        """Asks again and again, until the association is one of those wanted; KmirrorError if it
        never is. Except for a removal, it first repeats what a late request undoes meanwhile.
        """
        deadline_us = self._deadline_us()
        while True:
            await ask(cluster)
            for _ in range(LOOKS):
                if self.association(cluster) in wanted:
                    return
                await asyncio.sleep(LOOK_PAUSE_MS / 1000)
            found = self.association(cluster)
            if what != "remove" and found is not None and found not in wanted:
                await self._lead_back(cluster, found)
            if self._loop.now_us > deadline_us:
                found = self.association(cluster)
                raise KmirrorError(
                    f"{what} {self._topic} at {cluster}: {MIRROR_NAME_CONFIG} is {found!r} after {self._patience_ms} ms, "
                    f"not {' or '.join(map(repr, wanted))}"
                )

    async def _lead_back(self, cluster: str, association: str) -> None:
        back = way_back(self._mirror, association)
        if back == "resume":
            await self._operator.resume(cluster, self._mirror, self._topic)
        elif back == "add":
            await self._add(cluster)

    async def _add(self, cluster: str) -> None:
        await self._operator.add(cluster, self._mirror, self._topic)

    async def _remove(self, cluster: str) -> None:
        await self._operator.remove(cluster, self._mirror, self._topic)

    async def _pause(self, cluster: str) -> None:
        await self._operator.pause(cluster, self._mirror, self._topic, undone=partial(self.is_out, cluster))

    async def _resume(self, cluster: str) -> None:
        await self._operator.resume(cluster, self._mirror, self._topic, undone=partial(self.is_out, cluster))

    def _deadline_us(self) -> int:
        return self._loop.now_us + self._patience_ms * 1000

    # Several operators, who quarrel

    def operators(self, source: str, destination: str, *names: str) -> list[MirrorOperator]:
        """People with admin clients of their own for the mirror of `source` at `destination`."""
        self._history.sources[destination, self._mirror] = source
        bootstrap = self._fleets[destination].bootstrap
        servers = ",".join(f"{host}:{port}" for host, port in self._fleets[source].bootstrap)
        configs = {"bootstrap.servers": servers, **self._operator.mirror_configs}
        seen = set(self._seen.get(destination, ()))
        controls = Controls(destination, self._mirror, self._topic, configs, lambda: self.association(destination), seen=seen)
        return [
            MirrorOperator(
                self._loop,
                name,
                AdminClient(self._clients, bootstrap[number:] + bootstrap[:number], client_id=name, timeout_ms=OPERATOR_TIMEOUT_MS),
                controls,
                self._history,
            )
            for number, name in enumerate(names)
        ]

    async def have_it_mirrored(self, operator: MirrorOperator, destination: str) -> None:
        """Whatever the topic's association was, makes the requests that lead into the mirror, until
        the controller says that it is there.
        """
        deadline_us = self._deadline_us()
        while self._loop.now_us <= deadline_us:
            back = way_back(self._mirror, self.association(destination))
            if back is None:
                return
            if await operator.attempt(back) == Errors.UNKNOWN_MIRROR.name and back == "add":
                await operator.attempt("create mirror")
            await asyncio.sleep(LOOK_PAUSE_MS / 1000)
        raise KmirrorError(f"{self._topic} at {destination} does not get into the mirror, it is {self.association(destination)!r}")
