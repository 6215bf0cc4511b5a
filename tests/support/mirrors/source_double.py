"""A source cluster without brokers, for metadata sync: it takes and answers messages, in the versions
that it is given. There are no connections, so nothing about them is tested here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.image import (
    RESOURCE_TOPIC,
    StandardAcl,
)
from kmirror.network.client import AuthenticationError, DisconnectError, UnsupportedVersionError
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, encode_response, read_request, read_request_header, read_response
from kmirror.wire.messages import (
    describe_acls,
    describe_configs,
    describe_share_group_offsets,
    list_groups,
    metadata,
    offset_fetch,
)


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().rjust(16, b"\x01")[:16])


@dataclass
class SourceTopicDouble:
    """A topic of the source. `leader` is -1 for none; `error` is its error in Metadata answers."""

    partitions: int = 1
    configs: dict[str, str] = field(default_factory=dict)
    id: Uuid = Uuid.ZERO
    leader: int = 10
    error: Errors = Errors.NONE
    config_error: Errors = Errors.NONE


@dataclass
class SourceGroupDouble:
    """A group of the source, whose coordinator is the broker `coordinator`."""

    offsets: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)
    type: str = "Classic"
    state: str = "Stable"
    coordinator: int = 10
    error: Errors = Errors.NONE


class SourceDouble:
    """The source cluster, and the `NetworkClient` to it: `send` answers from its fields."""

    def __init__(self, cluster_id: str = "SRC") -> None:
        self.cluster_id = cluster_id
        self.nodes = {10: ("a", 1), 11: ("b", 2)}
        self.controller_id = 10
        self.topics: dict[str, SourceTopicDouble] = {}
        self.defaults: dict[str, str] = {}
        """What the brokers' properties say about topics, and `defaults_of` one broker's alone."""
        self.defaults_of: dict[int, dict[str, str]] = {}
        self.acls: set[StandardAcl] = set()
        self.groups: dict[str, SourceGroupDouble] = {}
        self.acl_error = Errors.NONE
        self.down: set[int] = set()
        self.refuses_login = False
        self.highest: dict[ApiKeys, int] = {}
        """The highest version of APIs that are old at this source; -1 for an API that it lacks."""
        self.asked: list[tuple[int, ApiKeys, int]] = []
        """The broker, API and version of every request."""
        self.closed = 0

    def topic(self, name: str, partitions: int = 1, **configs: str) -> SourceTopicDouble:
        made = SourceTopicDouble(partitions, {key.replace("_", "."): value for key, value in configs.items()}, topic_id(name))
        self.topics[name] = made
        return made

    def asked_for(self, api_key: ApiKeys) -> list[int]:
        """Returns the brokers that got requests of this API."""
        return [node for node, key, _ in self.asked if key is api_key]

    def close(self) -> None:
        self.closed += 1

    async def api_version(self, host: str, port: int, api_key: int, *, timeout_ms: int, max_version: int | None = None) -> int:
        self._connect(host, port)
        return self._version(ApiKeys(api_key), 99 if max_version is None else max_version)

    async def send(self, host: str, port: int, request: Any, *, timeout_ms: int, version: int | None = None) -> Any:
        node = self._connect(host, port)
        api_key = ApiKeys(request.API_KEY)
        chosen = self._version(api_key, request.HIGHEST_VERSION) if version is None else version
        self.asked.append((node, api_key, chosen))
        answers: dict[ApiKeys, Callable[[int, Any, int], Any]] = {
            ApiKeys.METADATA: self._metadata,
            ApiKeys.DESCRIBE_CONFIGS: self._configs,
            ApiKeys.DESCRIBE_ACLS: self._acls,
            ApiKeys.LIST_GROUPS: self._list_groups,
            ApiKeys.OFFSET_FETCH: self._offset_fetch,
            ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS: self._share_group_offsets,
        }
        return _response_as_read(api_key, chosen, answers[api_key](node, _request_as_read(api_key, chosen, request), chosen))

    def _connect(self, host: str, port: int) -> int:
        node = next(number for number, address in self.nodes.items() if address == (host, port))
        if self.refuses_login:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        if node in self.down:
            raise DisconnectError(f"cannot connect to {host}:{port}: Connection refused")
        return node

    def _version(self, api_key: ApiKeys, ours: int) -> int:
        highest = self.highest.get(api_key, 99)
        if highest < 0:
            raise UnsupportedVersionError(f"the source does not support {api_key.name}")
        return min(highest, ours)

    def _metadata(self, node: int, request: Any, version: int) -> metadata.MetadataResponse:
        rows = []
        for asked in request.topics:
            found = self.topics.get(asked.name)
            if found is None:
                rows.append(metadata.MetadataResponseTopic(error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION, name=asked.name))
                continue
            partitions = [
                metadata.MetadataResponsePartition(partition_index=number, leader_id=found.leader, leader_epoch=3)
                for number in range(0 if found.error else found.partitions)
            ]
            rows.append(metadata.MetadataResponseTopic(error_code=found.error, name=asked.name, topic_id=found.id, partitions=partitions))
        brokers = [
            metadata.MetadataResponseBroker(node_id=number, host=host, port=port)
            for number, (host, port) in self.nodes.items()
            if number not in self.down
        ]
        return metadata.MetadataResponse(cluster_id=self.cluster_id, controller_id=self.controller_id, brokers=brokers, topics=rows)

    def _configs(self, node: int, request: Any, version: int) -> describe_configs.DescribeConfigsResponse:
        rows = []
        for resource in request.resources:
            topic = self.topics[resource.resource_name]
            configs = [
                describe_configs.DescribeConfigsResourceResult(name=name, value=value, config_source=1)
                for name, value in topic.configs.items()
            ]
            configs += [
                describe_configs.DescribeConfigsResourceResult(name=name, value=value, config_source=4)
                for name, value in {**self.defaults, **self.defaults_of.get(node, {})}.items()
                if name not in topic.configs
            ]
            rows.append(
                describe_configs.DescribeConfigsResult(
                    error_code=topic.config_error,
                    error_message=topic.config_error.message if topic.config_error else None,
                    resource_type=RESOURCE_TOPIC,
                    resource_name=resource.resource_name,
                    configs=[] if topic.config_error else configs,
                )
            )
        return describe_configs.DescribeConfigsResponse(results=rows)

    def _acls(self, node: int, request: Any, version: int) -> describe_acls.DescribeAclsResponse:
        if self.acl_error:
            return describe_acls.DescribeAclsResponse(error_code=self.acl_error, error_message=self.acl_error.message)
        rows = [
            describe_acls.DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[
                    describe_acls.AclDescription(
                        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
                    )
                ],
            )
            for acl in sorted(self.acls)
        ]
        return describe_acls.DescribeAclsResponse(error_message=None, resources=rows)

    def _list_groups(self, node: int, request: Any, version: int) -> list_groups.ListGroupsResponse:
        rows = [
            list_groups.ListedGroup(
                group_id=name,
                protocol_type="consumer",
                group_state=group.state if version >= 4 else "",
                group_type=group.type if version >= 5 else "",
            )
            for name, group in self.groups.items()
            if group.coordinator == node and (not request.types_filter or group.type.lower() in request.types_filter)
        ]
        return list_groups.ListGroupsResponse(groups=rows)

    def _share_group_offsets(self, node: int, request: Any, version: int) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponse:
        module = describe_share_group_offsets
        return module.DescribeShareGroupOffsetsResponse(
            groups=[
                self._offsets_of(row.group_id, node, partial(module.DescribeShareGroupOffsetsResponseGroup, group_id=row.group_id),
                                 lambda name, partitions: module.DescribeShareGroupOffsetsResponseTopic(name, partitions=partitions),
                                 lambda partition_index, committed_offset, **_: module.DescribeShareGroupOffsetsResponsePartition(
                                     partition_index, committed_offset))
                for row in request.groups
            ]
        )  # fmt: skip

    def _offset_fetch(self, node: int, request: Any, version: int) -> offset_fetch.OffsetFetchResponse:
        assert version <= 9, "version 10 names topics by id"
        if version < 8:
            assert request.topics is None and not request.groups
            return self._offsets_of(request.group_id, node, offset_fetch.OffsetFetchResponse, offset_fetch.OffsetFetchResponseTopic,
                                    offset_fetch.OffsetFetchResponsePartition)  # fmt: skip
        groups = [
            self._offsets_of(row.group_id, node, offset_fetch.OffsetFetchResponseGroup, offset_fetch.OffsetFetchResponseTopics,
                             offset_fetch.OffsetFetchResponsePartitions)
            for row in request.groups
        ]  # fmt: skip
        for row, answer in zip(request.groups, groups, strict=True):
            answer.group_id = row.group_id
        return offset_fetch.OffsetFetchResponse(groups=groups)

    def _offsets_of(self, name: str, node: int, answer: Any, topic_row: Any, partition_row: Any) -> Any:
        group = self.groups[name]
        if group.coordinator != node:
            return answer(error_code=Errors.NOT_COORDINATOR)
        if group.error:
            return answer(error_code=group.error)
        by_topic: dict[str, list[Any]] = {}
        for tp, (offset, text) in group.offsets.items():
            row = partition_row(partition_index=tp.partition, committed_offset=offset, committed_leader_epoch=9, metadata=text)
            by_topic.setdefault(tp.topic, []).append(row)
        return answer(topics=[topic_row(name=topic, partitions=rows) for topic, rows in by_topic.items()])


def _request_as_read(api_key: ApiKeys, version: int, request: Any) -> Any:
    """Encodes and decodes a request in this version, and fails if the version cannot carry it."""
    frame = memoryview(b"".join(bytes(part) for part in encode_request(RequestHeader(api_key, version, 1, "mirror"), request)))[4:]
    header, position = read_request_header(frame)
    return read_request(header, frame, position)


def _response_as_read(api_key: ApiKeys, version: int, response: Any) -> Any:
    frame = memoryview(b"".join(bytes(part) for part in encode_response(api_key, version, 1, response)))[4:]
    return read_response(api_key, version, frame)[1]
