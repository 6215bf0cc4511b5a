"""DescribeConfigs against what Apache Kafka 4.3 answered (`golden/12-wire`): names, values,
sources, synonyms, types.

The broker's properties are the recorded ones; what was set at runtime is taken from the recorded
answers (their entries with a dynamic source), everything else we must know by ourselves. `log.dirs`
was rewritten by the recording.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.logs.golden_vectors import COMMITTED, golden_dir, read_recording, recordings

from kmirror.common.uuid import Uuid
from kmirror.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
    ConfigurationsImage,
    MetadataImage,
    TopicImage,
    TopicsImage,
)
from kmirror.server.broker_api_table import ROWS
from kmirror.server.config_views import ConfigSource, ConfigViews, DescribedConfig
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.served_versions import ServedVersions
from kmirror.wire.framing import read_request, read_request_header, read_response

DESCRIBE_CONFIGS, API_VERSIONS = 32, 18
NOT_COMPARED = {"log.dirs"}
SET_AT_RUNTIME = {
    RESOURCE_TOPIC: ConfigSource.TOPIC_CONFIG,
    RESOURCE_GROUP: ConfigSource.GROUP_CONFIG,
    RESOURCE_CLIENT_METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
}


def exchanges(api_key: int) -> Iterator[tuple[str, int, Any, Any]]:
    """(client, version, request, response) of every recorded exchange of an API."""
    folder = golden_dir() / "12-wire"
    for name in recordings(folder, ".jsonl"):
        for line in [] if name.endswith(".decoded.jsonl") else read_recording(folder, name).splitlines():
            pair = json.loads(line)
            if pair["api_key"] != api_key or not pair["response"]:
                continue
            frame = memoryview(base64.b64decode(pair["request"]))
            header, position = read_request_header(frame, 0)
            response = read_response(api_key, pair["api_version"], memoryview(base64.b64decode(pair["response"])))[1]
            yield name, pair["api_version"], read_request(header, frame, position), response


def recorded_config() -> KafkaConfig:
    lines = (golden_dir() / "12-wire" / "broker.properties").read_text().splitlines()
    return KafkaConfig.from_props(dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")))


def entries(config: KafkaConfig, resource_type: int, name: str, recorded: list[Any]) -> list[DescribedConfig]:
    resources: dict[ConfigResource, dict[str, str]] = {}
    if resource_type in SET_AT_RUNTIME:
        own = {entry.name: entry.value for entry in recorded if entry.config_source == SET_AT_RUNTIME[resource_type]}
        resources[ConfigResource(resource_type, name)] = own
    defaults = {entry.name: entry.value for entry in recorded if entry.config_source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG}
    resources[ConfigResource(RESOURCE_BROKER, "")] = defaults
    topics = TopicsImage({}, {name: TopicImage(name, Uuid.ZERO)})
    views = ConfigViews(config, MetadataImage(topics=topics, configs=ConfigurationsImage(resources)))
    if resource_type == RESOURCE_TOPIC:
        return views.topic(name)
    if resource_type == RESOURCE_GROUP:
        return views.group(name)
    return views.client_metrics(name) if resource_type == RESOURCE_CLIENT_METRICS else views.broker()


@pytest.mark.skipif(not (golden_dir() / "12-wire" / "broker.properties").exists(), reason="no 12-wire in this folder of vectors")
def test_every_recorded_resource_is_described_alike() -> None:
    config = recorded_config()
    compared = 0
    for client, version, request, response in exchanges(DESCRIBE_CONFIGS):
        for result in response.results:
            if result.error_code or not result.resource_name:
                continue
            ours = {entry.name: entry for entry in entries(config, result.resource_type, result.resource_name, result.configs)}
            theirs = {entry.name: entry for entry in result.configs}
            where = (client, version, result.resource_type, result.resource_name)
            if result.resource_type != RESOURCE_CLIENT_METRICS:
                assert set(ours) == set(theirs), where
            for name in (set(ours) & set(theirs)) - NOT_COMPARED:
                mine, kafkas = ours[name], theirs[name]
                synonyms = [tuple(synonym) for synonym in mine.synonyms] if request.include_synonyms else []
                assert (
                    mine.value,
                    mine.source,
                    mine.is_sensitive,
                    mine.read_only,
                    synonyms,
                    mine.type if version >= 3 else 0,
                ) == (
                    kafkas.value,
                    kafkas.config_source,
                    kafkas.is_sensitive,
                    kafkas.read_only,
                    [(synonym.name, synonym.value, synonym.source) for synonym in kafkas.synonyms],
                    kafkas.config_type,
                ), (where, name)
                compared += 1
    assert compared > 100 or not COMMITTED, "the recording holds whole brokers and topics"


def test_what_is_served_is_served_in_kafkas_versions() -> None:
    config = recorded_config()
    served = ServedVersions([row.api_key for row in ROWS if row.is_served(config)], unstable=False)
    for client, version, _, response in exchanges(API_VERSIONS):
        kafkas = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        if response.error_code:
            continue
        for row in served.ranges():
            assert kafkas[row.api_key] == (row.advertised_lowest, row.highest), (client, version, row)
