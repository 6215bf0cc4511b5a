"""An admin client for a person who does not give up: it repeats each operation while the cluster is
away, and records what it has asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kmirror.admin.admin_client import AdminClient, NoBrokerError
from kmirror.admin.features import UpgradeType
from kmirror.admin.results import ConfigOperation, ConfigResourceType, NewTopic
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.metadata.features import MIRROR_VERSION
from kmirror.network.client import DisconnectError, RequestTimeoutError
from kmirror.runtime.api import Runtime
from kmirror.sim.cluster import PORT
from kmirror.sim.events import History, MirrorDeletionAsked, Told
from kmirror.sim.loop import SimLoop
from kmirror.sim.topic_events import ADD, CREATE_TOPIC, DELETE_TOPIC, asking

MIRROR_PAUSE_MS = 200
_LOST = (DisconnectError, RequestTimeoutError)

Undone = Callable[[], bool]


def never_undone() -> bool:
    return False


@dataclass(slots=True)
class Operator:
    """Admin operations on the clusters. Each is tried until it succeeds, and raises KmirrorError
    after `timeout_ms`.
    """

    loop: SimLoop
    runtime: Runtime
    history: History
    bootstrap: Callable[[str], Sequence[tuple[str, int]]] = lambda cluster: [(cluster, PORT)]
    timeout_ms: int = 60_000
    mirror_configs: dict[str, str] = field(default_factory=dict)
    """The configs that mirrors are created with, besides bootstrap.servers."""
    _admins: dict[str, AdminClient] = field(default_factory=dict)
    _refusals: int = 0

    def admin(self, cluster: str) -> AdminClient:
        if cluster not in self._admins:
            servers = list(self.bootstrap(cluster))
            first = self._refusals % len(servers)
            self._admins[cluster] = AdminClient(self.runtime, servers[first:] + servers[:first], client_id="operator", timeout_ms=2_000)
        return self._admins[cluster]

    async def create_topic(
        self,
        cluster: str,
        name: str,
        partitions: int = 1,
        configs: dict[str, str] | None = None,
        *,
        replication_factor: int = 1,
        replicas: dict[int, list[int]] | None = None,
        mirror_topic_id: Uuid | None = None,
    ) -> None:
        async def attempt() -> None:
            topic = NewTopic(
                name,
                num_partitions=-1 if replicas else partitions,
                replication_factor=-1 if replicas else replication_factor,
                configs=configs or {},
                replicas_assignments=replicas,
                mirror_topic_id=mirror_topic_id,
            )
            with asking(self.history, self.loop, cluster, name, CREATE_TOPIC):
                (await self.admin(cluster).create_topics([topic])).all()

        await self._insist(f"create topic {name} at {cluster}", attempt, done=Errors.TOPIC_ALREADY_EXISTS)

    async def add_partitions(self, cluster: str, topic: str, count: int) -> None:
        """Makes them `count` in all."""

        async def attempt() -> None:
            (await self.admin(cluster).create_partitions({topic: count})).all()

        await self._insist(f"have {count} partitions of {topic} at {cluster}", attempt, done=Errors.INVALID_PARTITIONS)

    async def create_mirror(self, cluster: str, mirror: str, *, source: str) -> None:
        self.history.sources[cluster, mirror] = source

        async def attempt() -> None:
            await self.admin(cluster).create_mirror(
                mirror, {"bootstrap.servers": ",".join(f"{host}:{port}" for host, port in self.bootstrap(source)), **self.mirror_configs}
            )

        await self._insist(f"create mirror {mirror} at {cluster} with source {source}", attempt, done=Errors.INVALID_MIRROR_NAME)

    async def add(self, cluster: str, mirror: str, topic: str) -> None:
        async def attempt() -> None:
            with asking(self.history, self.loop, cluster, topic, ADD):
                (await self.admin(cluster).add_topics_to_mirror(mirror, [topic])).all()

        await self._insist(f"add {topic} to mirror {mirror} at {cluster}", attempt, done=Errors.TOPIC_ALREADY_IN_MIRROR)

    async def remove(self, cluster: str, mirror: str, topic: str) -> None:
        async def attempt() -> None:
            (await self.admin(cluster).remove_topics_from_mirror(mirror, [topic])).all()

        await self._insist(f"remove {topic} from mirror {mirror} at {cluster}", attempt, done=Errors.TOPIC_NOT_IN_MIRROR)

    async def pause(self, cluster: str, mirror: str, topic: str, *, undone: Undone = never_undone) -> None:
        async def attempt() -> None:
            (await self.admin(cluster).pause_mirror_topics(mirror, [topic])).all()

        what = f"pause {topic} in mirror {mirror} at {cluster}"
        await self._insist(what, attempt, done=Errors.MIRROR_TOPIC_ALREADY_PAUSED, undone=undone)

    async def resume(self, cluster: str, mirror: str, topic: str, *, undone: Undone = never_undone) -> None:
        async def attempt() -> None:
            (await self.admin(cluster).resume_mirror_topics(mirror, [topic])).all()

        what = f"resume {topic} in mirror {mirror} at {cluster}"
        await self._insist(what, attempt, done=Errors.MIRROR_TOPIC_NOT_PAUSED, undone=undone)

    async def delete_mirror(self, cluster: str, mirror: str, *, undone: Undone = never_undone) -> None:
        self.history.add(MirrorDeletionAsked(self.loop.now_us, cluster, mirror))

        async def attempt() -> None:
            await self.admin(cluster).delete_mirror(mirror)

        await self._insist(f"delete mirror {mirror} at {cluster}", attempt, done=Errors.UNKNOWN_MIRROR, undone=undone)

    async def switch_off(self, cluster: str) -> None:
        """Lowers mirror.version to 0, which is refused while mirrors are left."""
        await self._set_mirror_version(cluster, 0, UpgradeType.SAFE_DOWNGRADE, "off")

    async def switch_on(self, cluster: str) -> None:
        """Raises mirror.version to 1."""
        await self._set_mirror_version(cluster, 1, UpgradeType.UPGRADE, "on")

    async def _set_mirror_version(self, cluster: str, level: int, upgrade_type: UpgradeType, what: str) -> None:
        async def attempt() -> None:
            found = await self.admin(cluster).update_features({MIRROR_VERSION: (level, upgrade_type)})
            for error in found.values():
                if error is not None:
                    raise error

        await self._insist(f"switch mirroring {what} at {cluster}", attempt, done=Errors.NONE)

    async def delete_topic(self, cluster: str, topic: str, topic_id: Uuid | None = None) -> None:
        """Deletes the topic, by its id if one is given.

        With an id, a request that was given up and is carried out late deletes no other topic of
        that name.
        """

        async def attempt() -> None:
            with asking(self.history, self.loop, cluster, topic, DELETE_TOPIC):
                admin = self.admin(cluster)
                (await (admin.delete_topics([topic]) if topic_id is None else admin.delete_topics_by_ids([topic_id]))).all()

        done = Errors.UNKNOWN_TOPIC_OR_PARTITION if topic_id is None else Errors.UNKNOWN_TOPIC_ID
        await self._insist(f"delete topic {topic} at {cluster}", attempt, done=done)

    async def set_topic_config(self, cluster: str, topic: str, name: str, value: str | None) -> None:
        """Sets a config of the topic, or deletes it if `value` is None."""
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET

        async def attempt() -> None:
            await self.admin(cluster).incremental_alter_configs(ConfigResourceType.TOPIC, topic, [(name, operation, value)])

        await self._insist(f"set {name}={value} of {topic} at {cluster}", attempt, done=Errors.NONE)

    def _ask_another_broker(self) -> None:
        """Makes new clients that try another broker first, since this one may not reach the nodes
        that it needs.
        """
        self._refusals += 1
        for admin in self._admins.values():
            admin.close()
        self._admins.clear()

    def tell(self, what: str) -> None:
        self.history.add(Told(self.loop.now_us, "operator", what))

    async def _insist(self, what: str, attempt: Callable[[], Awaitable[Any]], *, done: Errors, undone: Undone = never_undone) -> None:
        """Tries until the attempt succeeds.

        `done` is the error that a second attempt gets if the first was carried out but its answer
        was lost. A broker that has not heard of an earlier change may answer it too, although
        nothing was carried out, so a caller that must be sure checks the result (`MirrorStage`).
        Any error ends the operation if `undone` says that an earlier request, given up but carried
        out late, has undone what this one builds upon.
        """
        self.tell(what)
        deadline_ms = self.runtime.clock.monotonic_ms() + self.timeout_ms
        tries = 0
        while True:
            tries += 1
            try:
                await attempt()
                return
            except ApiException as error:
                if (error.error is done and tries > 1) or undone():
                    return
                problem = f"{error.error.name}: {error}"
            except (NoBrokerError, *_LOST) as error:
                problem = str(error)
            if self.runtime.clock.monotonic_ms() >= deadline_ms:
                raise KmirrorError(f"{what}: {problem}")
            self._ask_another_broker()
            await self.runtime.sleep_ms(MIRROR_PAUSE_MS)
