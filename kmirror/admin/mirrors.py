"""AdminClient calls about mirrors: the KIP's eight (E6).

Changes go through any broker; descriptions are merged from all of them.

Each broker describes the partitions that it leads, so a description needs every live broker. While
a broker has just gone away, or a coordinator or the controller moves, the call is repeated until
its time is up: an answer is complete, or it is an error.

    async with AdminClient(runtime, parse_bootstrap_servers("b:9092")) as admin:
        await admin.create_mirror("dr", {"bootstrap.servers": "a:9092"})
        added = await admin.add_topics_to_mirror("dr", ["orders", "payments"])
        for topic, error in added.failed.items():  # one outcome a topic; `added.all()` raises the first failure
            print(topic, error.message)
        for row in (await admin.describe_mirrors(["dr"]))["dr"].partitions:
            print(row.topic, row.partition, row.state, row.lag)

The other calls, configs of mirrors among them, are those of any AdminClient
(`ConfigResourceType.MIRROR`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kmirror.admin.admin_requests import AdminRequests, NoBrokerError, error_of, raise_for
from kmirror.admin.results import (
    AddTopicsToMirrorOptions,
    AddTopicsToMirrorResult,
    CreateMirrorOptions,
    DeleteMirrorOptions,
    DescribeMirrorsOptions,
    ListMirrorsOptions,
    MirrorDescription,
    MirrorListing,
    MirrorPartitionDescription,
    PauseMirrorTopicsOptions,
    PauseMirrorTopicsResult,
    RemoveTopicsFromMirrorOptions,
    RemoveTopicsFromMirrorResult,
    ResumeMirrorTopicsOptions,
    ResumeMirrorTopicsResult,
)
from kmirror.common.errors import ApiException, Errors, unknown_mirror
from kmirror.wire.messages.add_topics_to_mirror import AddTopicsToMirrorRequest
from kmirror.wire.messages.add_topics_to_mirror import TopicData as TopicToAdd
from kmirror.wire.messages.create_mirror import CreateMirrorRequest, MirrorConfig
from kmirror.wire.messages.delete_mirror import DeleteMirrorRequest
from kmirror.wire.messages.describe_mirrors import DescribeMirrorsRequest, PartitionDetail
from kmirror.wire.messages.list_mirrors import ListMirrorsRequest
from kmirror.wire.messages.pause_mirror_topics import PauseMirrorTopicsRequest
from kmirror.wire.messages.pause_mirror_topics import TopicData as TopicToPause
from kmirror.wire.messages.remove_topics_from_mirror import RemoveTopicsFromMirrorRequest
from kmirror.wire.messages.remove_topics_from_mirror import TopicData as TopicToRemove
from kmirror.wire.messages.resume_mirror_topics import ResumeMirrorTopicsRequest
from kmirror.wire.messages.resume_mirror_topics import TopicData as TopicToResume
from kmirror.wire.mirror_tags import last_known_lag_of, reason_of

UNKNOWN = "UNKNOWN"
"""The state that a leader reports before it has loaded it.

Another broker, which was the leader until now, may still know the state.
"""


async def create_mirror(
    cluster: AdminRequests, mirror_name: str, configs: Mapping[str, str], options: CreateMirrorOptions | None = None
) -> None:
    """Creates a cluster mirror with its configs (at least bootstrap.servers of the source)."""
    config = [MirrorConfig(name=name, value=value) for name, value in configs.items()]
    request = CreateMirrorRequest(mirror_name=mirror_name, config=config)
    await _change(cluster, request, cluster.timeout(options))


async def add_topics_to_mirror(
    cluster: AdminRequests, mirror_name: str, topics: Iterable[str], options: AddTopicsToMirrorOptions | None = None
) -> AddTopicsToMirrorResult:
    """Starts mirroring topics; they become read-only.

    The broker creates those that only the source has.
    """
    data = [TopicToAdd(topic_name=name) for name in sorted(topics)]
    request = AddTopicsToMirrorRequest(mirror_name=mirror_name, topics=data)
    return AddTopicsToMirrorResult(await _mirror_results(cluster, request, cluster.timeout(options)))


async def remove_topics_from_mirror(
    cluster: AdminRequests, mirror_name: str, topics: Iterable[str], options: RemoveTopicsFromMirrorOptions | None = None
) -> RemoveTopicsFromMirrorResult:
    """Stops mirroring topics (failover).

    Each partition is cut to a consistent end and then becomes writable.
    """
    data = [TopicToRemove(topic_name=name) for name in sorted(topics)]
    request = RemoveTopicsFromMirrorRequest(mirror_name=mirror_name, topics=data)
    return RemoveTopicsFromMirrorResult(await _mirror_results(cluster, request, cluster.timeout(options)))


async def pause_mirror_topics(
    cluster: AdminRequests, mirror_name: str, topics: Iterable[str], options: PauseMirrorTopicsOptions | None = None
) -> PauseMirrorTopicsResult:
    """Stops fetching; the topics stay read-only."""
    data = [TopicToPause(topic_name=name) for name in sorted(topics)]
    request = PauseMirrorTopicsRequest(mirror_name=mirror_name, topics=data)
    return PauseMirrorTopicsResult(await _mirror_results(cluster, request, cluster.timeout(options)))


async def resume_mirror_topics(
    cluster: AdminRequests, mirror_name: str, topics: Iterable[str], options: ResumeMirrorTopicsOptions | None = None
) -> ResumeMirrorTopicsResult:
    """Fetches again from where the pause began."""
    data = [TopicToResume(topic_name=name) for name in sorted(topics)]
    request = ResumeMirrorTopicsRequest(mirror_name=mirror_name, topics=data)
    return ResumeMirrorTopicsResult(await _mirror_results(cluster, request, cluster.timeout(options)))


async def delete_mirror(cluster: AdminRequests, mirror_name: str, options: DeleteMirrorOptions | None = None) -> None:
    """Deletes a mirror whose topics are all stopped; failback with it is not possible
    afterwards.
    """
    await _change(cluster, DeleteMirrorRequest(mirror_name=mirror_name), cluster.timeout(options))


async def list_mirrors(cluster: AdminRequests, options: ListMirrorsOptions | None = None) -> list[MirrorListing]:
    """Returns all mirrors, sorted by name."""
    response = await cluster.ask_any(ListMirrorsRequest(), cluster.timeout(options))
    raise_for(response.error_code, response.error_message)
    rows = [MirrorListing(row.mirror_name, row.source_bootstrap, row.source_cluster_id, row.topic_count) for row in response.mirrors]
    return sorted(rows, key=lambda row: row.mirror_name)


async def describe_mirrors(
    cluster: AdminRequests, mirror_names: Iterable[str] = (), options: DescribeMirrorsOptions | None = None
) -> dict[str, MirrorDescription]:
    """Returns mirrors (all when none is named) with their partitions, merged over all brokers.

    UNKNOWN_MIRROR for a name that no broker knows.
    """
    timeout_ms = cluster.timeout(options)
    names = sorted(mirror_names)
    flag = options is not None and options.include_authorized_operations
    request = DescribeMirrorsRequest(mirror_names=names, include_authorized_operations=flag)

    async def ask() -> dict[str, MirrorDescription]:
        await cluster.metadata([])
        merged: dict[str, dict[tuple[str, int], MirrorPartitionDescription]] = {}
        for node_id in sorted(cluster.nodes):
            try:
                response = await cluster.send(cluster.nodes[node_id], request, timeout_ms)
            except NoBrokerError as error:
                raise ApiException(Errors.NETWORK_EXCEPTION, f"broker {node_id} did not describe its partitions: {error}") from error
            if response.error_code != Errors.UNKNOWN_MIRROR:
                raise_for(response.error_code, response.error_message)
            for mirror in response.mirrors:
                if mirror.error_code == Errors.UNKNOWN_MIRROR:
                    continue
                raise_for(mirror.error_code, f"mirror {mirror.mirror_name}: {Errors.for_code(mirror.error_code).message}")
                rows = merged.setdefault(mirror.mirror_name, {})
                for topic in mirror.topics:
                    for row in topic.partitions:
                        key = (topic.topic_name, row.partition_index)
                        if key not in rows or rows[key].state == UNKNOWN:
                            rows[key] = _partition(topic.topic_name, row)
        for name in names:
            if name not in merged:
                raise unknown_mirror(name)
        return {name: MirrorDescription(name, [rows[key] for key in sorted(rows)]) for name, rows in sorted(merged.items())}

    return await cluster.retry(ask, timeout_ms)


async def _mirror_results(cluster: AdminRequests, request: Any, timeout_ms: int) -> dict[str, ApiException | None]:
    """Sends the request with the ids of the topics that exist.

    A topic that is created anew meanwhile has another id.
    """
    known = await cluster.metadata([topic.topic_name for topic in request.topics]) if request.topics else None
    ids = {topic.name: topic.topic_id for topic in known.topics if topic.error_code == Errors.NONE} if known is not None else {}
    for topic in request.topics:
        topic.topic_id = ids.get(topic.topic_name, topic.topic_id)
    response = await _change(cluster, request, timeout_ms)
    return {row.name: error_of(row.error_code, None) for row in response.topics}


async def _change(cluster: AdminRequests, request: Any, timeout_ms: int) -> Any:
    """Sends a change; repeats it while the controller or a coordinator is not available."""

    async def ask() -> Any:
        response = await cluster.ask_any(request, timeout_ms)
        raise_for(response.error_code, response.error_message)
        return response

    return await cluster.retry(ask, timeout_ms)


def _partition(topic: str, row: PartitionDetail) -> MirrorPartitionDescription:
    last_lag = last_known_lag_of(row.unknown_tagged_fields)
    return MirrorPartitionDescription(
        topic,
        row.partition_index,
        row.source_offset,
        row.destination_offset,
        row.lag,
        row.state,
        row.last_mirror_epoch,
        reason_of(row.unknown_tagged_fields),
        -1 if last_lag is None else last_lag[0],
        -1 if last_lag is None else last_lag[1],
    )
