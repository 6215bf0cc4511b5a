"""Why properties of MirrorMaker 2 are not converted to a mirror's."""

from __future__ import annotations

from typing import Final

NO_COUNTERPART: Final = {
    "replication.policy.separator": "topics keep their names, so there is no separator",
    "replication.policy.internal.topic.separator.enabled": "there are no internal topics to name",
    "offset-syncs.topic.replication.factor": "offsets are equal at both ends: there is nothing to translate, and no offset-syncs topic",
    "offset-syncs.topic.location": "offsets are equal at both ends: there is no offset-syncs topic",
    "offset.lag.max": "offsets are equal at both ends: nothing is translated",
    "emit.offset-syncs.enabled": "offsets are equal at both ends: there is no offset-syncs topic",
    "emit.heartbeats.enabled": "there are no heartbeats; kafka-mirrors --describe and the metrics show whether a mirror lives",
    "emit.heartbeats.interval.seconds": "there are no heartbeats",
    "heartbeats.topic.replication.factor": "there are no heartbeats",
    "heartbeats.topic.retention.ms": "there are no heartbeats",
    "heartbeats.replication.enabled": "there are no heartbeats",
    "emit.checkpoints.enabled": "there are no checkpoints; group offsets are copied as they are",
    "emit.checkpoints.interval.seconds": "group offsets are copied every mirror.metadata.refresh.interval.ms (broker)",
    "checkpoints.topic.replication.factor": "there are no checkpoints",
    "checkpoints.topic.retention.ms": "there are no checkpoints",
    "offset.syncs.topic.retention.ms": "there is no offset-syncs topic",
    "refresh.topics.enabled": "topics are added by name: after new ones were made, give the --add command again",
    "refresh.topics.interval.seconds": "topics are added by name: after new ones were made, give the --add command again",
    "refresh.groups.enabled": "every group that matches is copied, new ones too",
    "refresh.groups.interval.seconds": "the interval is mirror.metadata.refresh.interval.ms of the destination's brokers, for all mirrors",
    "sync.topic.configs.interval.seconds": "the interval is mirror.metadata.refresh.interval.ms of the destination's brokers, for all mirrors",
    "sync.topic.acls.interval.seconds": "the interval is mirror.metadata.refresh.interval.ms of the destination's brokers, for all mirrors",
    "sync.group.offsets.interval.seconds": "the interval is mirror.metadata.refresh.interval.ms of the destination's brokers, for all mirrors",
    "use.defaults.from": "only what is set for a topic itself is copied; defaults are each cluster's own",
    "topic.filter.class": "a custom filter class cannot be used; write the filter as a regular expression",
    "group.filter.class": "a custom filter class cannot be used; write the filter as a regular expression",
    "config.property.filter.class": "a custom filter class cannot be used; write the filter as a regular expression",
    "forwarding.admin.class": "changes are made by the destination's controller",
    "consumer.poll.timeout.ms": "brokers fetch as replicas do: replica.fetch.* of the destination's brokers",
    "readahead.queue.capacity": "brokers fetch as replicas do: replica.fetch.* of the destination's brokers",
    "admin.timeout.ms": "request.timeout.ms of the destination's brokers",
    "tasks.max": "parallelism is mirror.num.replica.fetchers of the destination's brokers, for each source broker and mirror",
    "exactly.once.support": "batches are copied as they are, transactions with them: nothing is duplicated or lost on the way",
    "exactly.once.source.support": "batches are copied as they are, transactions with them: nothing is duplicated or lost on the way",
    "dedicated.mode.enable.internal.rest": "mirroring runs in the brokers; there is no separate process",
    "metric.reporters": "the destination's brokers report the metrics",
    "enabled": "",
    "clusters": "",
    "name": "",
    "connector.class": "",
}
"""Why a property is not converted; empty if it only says what the file is about."""

NO_COUNTERPART_PREFIXES: Final = {
    "transforms": "records are never decoded, so they cannot be transformed; a stream processor behind the mirror can",
    "predicates": "records are never decoded, so there is nothing to test",
    "key.converter": "records are never decoded",
    "value.converter": "records are never decoded",
    "header.converter": "records are never decoded",
    "errors.": "there is no connector whose errors could be tolerated: a partition that fails is FAILED, alone",
    "config.storage": "there is no Connect worker",
    "offset.storage": "there is no Connect worker",
    "status.storage": "there is no Connect worker",
    "config.providers": "the target's brokers resolve expressions: put these lines into their properties",
    "group.id": "there is no Connect worker",
    "producer.": "the target's brokers write to their own logs: there is no producer",
    "consumer.": "the target's brokers fetch: replica.fetch.* and socket.* of theirs apply",
    "admin.": "the target's brokers ask the source with the mirror's own security settings",
    "worker": "there is no Connect worker",
    "task": "there is no Connect worker",
    "rest.": "there is no Connect worker",
    "listeners": "there is no Connect worker",
    "plugin.": "there is no Connect worker",
}


def reason_without_counterpart(name: str) -> str:
    """Returns the reason; empty if the property only says what the file is about."""
    if name in NO_COUNTERPART:
        return NO_COUNTERPART[name]
    for prefix, reason in NO_COUNTERPART_PREFIXES.items():
        if name.startswith(prefix):
            return reason
    return "a mirror has no such setting"
