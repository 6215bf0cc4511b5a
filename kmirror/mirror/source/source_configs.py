"""What a source does with its topics: their overrides, and what holds where they have none.

A topic's answer to DescribeConfigs has every config in force, with the defaults of the broker that
answers. Other brokers of the source may have other defaults, and a partition of the topic may lie
there. So each broker is asked about one more topic, or about a few if one has overrides on configs
that others leave to the brokers. Of all configs only those are compared that delete or refuse
records (`metadata.lossy_configs`).

Old sources have fewer configs. Kafka before 2.3 never compacts because of a record's age, and
before 3.6 has one bound for timestamps of both directions. A topic that we may not describe, or
that gets no answer, is not in the result: nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kmirror.common.errors import Errors, KmirrorError
from kmirror.metadata.image import RESOURCE_TOPIC
from kmirror.metadata.lossy_configs import LOSSY_CONFIGS
from kmirror.mirror.source.source_cluster import SourceCluster, SourceNode
from kmirror.wire.messages import describe_configs

CONFIG_SOURCE_DYNAMIC_TOPIC = 1
TOPICS_PER_REQUEST = 50
OLD_TIMESTAMP_BOUND = "message.timestamp.difference.max.ms"
NO_BOUND = str(2**63 - 1)


@dataclass(frozen=True, slots=True)
class SourceTopicConfigs:
    """The configs of one topic at its source."""

    overrides: dict[str, str]
    defaults: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By config that deletes or refuses records and that the topic does not override: the values of
    the source's brokers, each once. Several if the brokers differ.
    """


async def describe_topic_configs(source: SourceCluster, topics: Iterable[str]) -> tuple[dict[str, SourceTopicConfigs], list[str]]:
    """The topics' configs in force, and the errors for topics without an answer."""
    found, failures = await _describe(source.ask_any, sorted(topics))
    configs = {topic: _split(entries) for topic, entries in found.items()}
    by_broker = await _defaults_of_brokers(source, configs)
    return {topic: SourceTopicConfigs(each.overrides, _merged(each.defaults, by_broker)) for topic, each in configs.items()}, failures


Entries = Sequence[describe_configs.DescribeConfigsResourceResult]


async def _describe(
    ask: Callable[[Any], Awaitable[Any]], topics: Sequence[str], names: Sequence[str] | None = None
) -> tuple[dict[str, Entries], list[str]]:
    found: dict[str, Entries] = {}
    failures = []
    for start in range(0, len(topics), TOPICS_PER_REQUEST):
        asked = topics[start : start + TOPICS_PER_REQUEST]
        keys = None if names is None else list(names)
        resources = [
            describe_configs.DescribeConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=topic, configuration_keys=keys)
            for topic in asked
        ]
        response = await ask(describe_configs.DescribeConfigsRequest(resources=resources))
        answers = {entry.resource_name: entry for entry in response.results}
        failures += [f"configs of source topic {topic}: the response lacks the topic" for topic in asked if topic not in answers]
        for entry in (answers[topic] for topic in asked if topic in answers):
            if entry.error_code:
                text = entry.error_message or Errors.for_code(entry.error_code).message
                failures.append(f"configs of source topic {entry.resource_name}: {text}")
            else:
                found[entry.resource_name] = entry.configs
    return found, failures


def _split(entries: Entries) -> SourceTopicConfigs:
    """Overrides, and the defaults of the broker that answered."""
    values = {entry.name: entry.value for entry in entries if entry.value is not None}
    overrides = {
        name: values[name] for name in (e.name for e in entries if e.config_source == CONFIG_SOURCE_DYNAMIC_TOPIC) if name in values
    }
    if values:
        values = {**_of_older_releases(values), **values}
    return SourceTopicConfigs(overrides, {name: (values[name],) for name in LOSSY_CONFIGS if name in values and name not in overrides})


def _of_older_releases(values: Mapping[str, str]) -> dict[str, str]:
    """What holds at a source that does not have these configs yet."""
    if OLD_TIMESTAMP_BOUND not in values:
        return {}
    bound = values[OLD_TIMESTAMP_BOUND]
    return {"max.compaction.lag.ms": NO_BOUND, "message.timestamp.before.max.ms": bound, "message.timestamp.after.max.ms": bound}


async def _defaults_of_brokers(source: SourceCluster, configs: Mapping[str, SourceTopicConfigs]) -> list[dict[str, tuple[str, ...]]]:
    """The defaults of each broker of the source that answers, in the order of their ids. A source
    of one broker has told them already.
    """
    nodes, topics = source.nodes(), _topics_that_show(configs)
    if len(nodes) < 2 or not topics:
        return []
    return [await _defaults_of(source, node, topics) for node in nodes]


async def _defaults_of(source: SourceCluster, node: SourceNode, topics: Sequence[str]) -> dict[str, tuple[str, ...]]:
    async def ask(request: Any) -> Any:
        return await source.send(node, request)

    defaults: dict[str, tuple[str, ...]] = {}
    try:
        found, _ = await _describe(ask, topics, (*LOSSY_CONFIGS, OLD_TIMESTAMP_BOUND))
    except KmirrorError:
        return {}  # the next cycle asks it again; until then the others' defaults hold
    for entries in found.values():
        defaults.update(_split(entries).defaults)
    return defaults


def _topics_that_show(configs: Mapping[str, SourceTopicConfigs]) -> list[str]:
    """As few topics as possible that together leave to the brokers whatever any topic does."""
    wanted = {name: None for each in configs.values() for name in each.defaults}
    chosen = []
    while wanted:
        topic = max(sorted(configs), key=lambda name: sum(config in configs[name].defaults for config in wanted))
        chosen.append(topic)
        wanted = {name: None for name in wanted if name not in configs[topic].defaults}
    return chosen


def _merged(answered: Mapping[str, tuple[str, ...]], by_broker: Sequence[Mapping[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(dict.fromkeys(value for defaults in by_broker for value in defaults.get(name, ()))) or values
        for name, values in answered.items()
    }
