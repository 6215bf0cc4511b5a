"""Descriptions of the broker settings that kmirror acts on, for DescribeConfigs.

Settings that are in the table only so that a Kafka properties file is accepted have no description.
"""

from __future__ import annotations

BROKER_CONFIG_DOCS = {
    "advertised.listeners": "The addresses that clients are told to connect to. If not set, `listeners` is used.",
    "auto.create.topics.enable": "Whether a request for a topic that does not exist creates it.",
    "broker.heartbeat.interval.ms": "The time in ms between two heartbeats of the broker to the controller.",
    "broker.id": "The broker's id. It must equal node.id if it is set.",
    "broker.rack": "The rack that this broker is in. Clients are told.",
    "broker.session.timeout.ms": "The time in ms without a heartbeat after which the controller fences a broker.",
    "compression.type": "The codec in which the broker stores batches. `producer` keeps the producer's codec.",
    "compression.gzip.level": "The gzip level at which the broker compresses; -1 is the codec's own default.",
    "compression.lz4.level": "The lz4 level at which the broker compresses.",
    "compression.zstd.level": "The zstd level at which the broker compresses.",
    "connections.max.idle.ms": "The time in ms without a request after which a connection is closed.",
    "controller.listener.names": "The names of the listeners that the controller uses.",
    "controller.quorum.bootstrap.servers": "The addresses (host:port) at which the node first looks for the controller.",
    "controller.quorum.voters": "The controllers, each as id@host:port.",
    "default.replication.factor": "The replication factor of a topic that is created without one.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The largest number of bytes in one fetch response. Its first batch may be larger.",
    "inter.broker.listener.name": "The name of the listener that brokers use to talk to each other.",
    "kmirror.http.listener": (
        "The address (host:port) at which the node serves its metrics and its health over HTTP. If not set, it does "
        "not. This is a setting of kmirror."
    ),
    "kmirror.telemetry.receiver.enable": "Whether clients may push their metrics to this broker (KIP-714). This is a setting of kmirror.",
    "listener.security.protocol.map": "The security protocol of each listener name.",
    "listeners": "The addresses that the node listens on, each as NAME://host:port.",
    "log.cleaner.backoff.ms": "The time in ms that the cleaner waits when there is nothing to clean.",
    "log.cleaner.delete.retention.ms": "The time in ms that a tombstone stays in a compacted topic.",
    "log.cleaner.enable": "Whether compacted topics are compacted.",
    "log.cleaner.min.cleanable.ratio": "The share of a log that must not be cleaned yet before the cleaner works on it.",
    "log.cleanup.policy": "What happens to old segments: delete, compact or both. If empty, nothing happens to them.",
    "log.dir": "The log directory if log.dirs is not set.",
    "log.dirs": "The log directories, separated by commas.",
    "log.flush.interval.messages": "The number of records after which a log is flushed.",
    "log.flush.interval.ms": "The time in ms after which a log is flushed.",
    "log.index.interval.bytes": "The number of bytes of the log between two entries of the offset index.",
    "log.index.size.max.bytes": "The largest size of an index file in bytes.",
    "log.message.timestamp.after.max.ms": "How far in the future, in ms, a record's timestamp may lie.",
    "log.message.timestamp.before.max.ms": "How far in the past, in ms, a record's timestamp may lie.",
    "log.message.timestamp.type": "Whether records keep the producer's timestamps or get the broker's.",
    "log.retention.bytes": "The size of a partition in bytes above which old segments are deleted; -1 is no limit.",
    "log.retention.check.interval.ms": "The time in ms between two searches for segments to delete.",
    "log.retention.hours": "The age in hours at which segments are deleted if neither log.retention.minutes nor log.retention.ms is set.",
    "log.retention.minutes": "The age in minutes at which segments are deleted if log.retention.ms is not set.",
    "log.retention.ms": "The age in ms at which segments are deleted; -1 is never.",
    "log.roll.hours": "The age in hours at which a segment is closed if log.roll.ms is not set.",
    "log.roll.ms": "The age in ms at which a segment is closed.",
    "log.segment.bytes": "The largest size of a segment in bytes.",
    "log.segment.delete.delay.ms": "The time in ms between the removal of a segment from the log and the removal of its files.",
    "max.connections": "The largest number of connections to the broker at a time.",
    "max.connections.per.ip": "The largest number of connections from one address at a time.",
    "max.incremental.fetch.session.cache.slots": "The number of fetch sessions that the broker keeps.",
    "message.max.bytes": "The largest size of a record batch in bytes.",
    "metadata.log.dir": "The directory of the metadata log. If not set, it is the first log directory.",
    "metadata.log.max.record.bytes.between.snapshots": "The number of bytes in the metadata log after which a snapshot is written.",
    "metadata.log.max.snapshot.interval.ms": "The time in ms after which a snapshot is written if there are new records.",
    "min.insync.replicas": "The number of replicas that must be in sync for a produce request with acks=all.",
    "mirror.fetch.backoff.ms": "The time in ms that a mirror fetcher waits after an error.",
    "mirror.metadata.refresh.interval.ms": (
        "The time in ms between two refreshes of a source cluster's metadata. 0 refreshes it on demand only."
    ),
    "mirror.num.replica.fetchers": "The number of fetchers for each source broker and mirror.",
    "mirror.replication.throttled.rate": "The rate in bytes per second for throttled mirror partitions.",
    "mirror.topic.deletion.enable": (
        "Whether __mirror_state may be deleted while there are mirrors. Use it only if the topic is beyond repair."
    ),
    "mirror.topic.num.partitions": "The number of partitions of __mirror_state. Do not change it after the topic was created.",
    "mirror.topic.replication.factor": "The replication factor of __mirror_state.",
    "mirror.truncation.backoff.ms": "The time in ms before a failed step of preparing or stopping a mirror partition is tried again.",
    "node.id": "The id of this node.",
    "num.partitions": "The number of partitions of a topic that is created without one.",
    "num.replica.fetchers": "The number of fetchers for each leader.",
    "offsets.retention.minutes": "The time in minutes that the offsets of an empty group are kept.",
    "offsets.topic.num.partitions": "The number of partitions of __consumer_offsets. Do not change it after the topic was created.",
    "offsets.topic.replication.factor": "The replication factor of __consumer_offsets.",
    "offsets.topic.segment.bytes": "The largest size in bytes of a segment of __consumer_offsets.",
    "process.roles": "The roles of this node: broker, controller or both.",
    "producer.id.expiration.ms": "The time in ms after which the state of an idle producer is removed.",
    "replica.fetch.backoff.ms": "The time in ms that a fetcher waits after an error.",
    "replica.fetch.max.bytes": "The largest number of bytes to fetch from one partition.",
    "replica.fetch.min.bytes": "The number of bytes that a follower's fetch waits for.",
    "replica.fetch.response.max.bytes": "The largest number of bytes to fetch in one response.",
    "replica.fetch.wait.max.ms": "The longest time in ms that a follower's fetch waits.",
    "replica.high.watermark.checkpoint.interval.ms": "The time in ms between two writes of the high watermark checkpoints.",
    "replica.lag.time.max.ms": "The time in ms that a follower may lag before it is removed from the ISR.",
    "replica.socket.receive.buffer.bytes": (
        "The receive buffer (SO_RCVBUF), in bytes, of connections from mirrors to their source. If not set, the system decides."
    ),
    "request.timeout.ms": "The time in ms that the broker waits for responses to its own requests.",
    "socket.receive.buffer.bytes": (
        "The receive buffer (SO_RCVBUF), in bytes, of connections from clients, and of those from mirrors to their "
        "source if replica.socket.receive.buffer.bytes is not set. If neither is set, the system decides."
    ),
    "socket.send.buffer.bytes": (
        "The send buffer (SO_SNDBUF), in bytes, of connections from clients and from mirrors to their source. If not "
        "set, the system decides."
    ),
    "socket.request.max.bytes": "The largest size of a request in bytes.",
    "unclean.leader.election.enable": "Whether a replica outside the ISR may become leader.",
    "unstable.api.versions.enable": "Whether unstable APIs and API versions are served. The APIs of cluster mirroring are among them.",
    "unstable.feature.versions.enable": "Whether unstable feature levels may be chosen. mirror.version is among them.",
}
