"""Descriptions of the broker settings, for DescribeConfigs.

A setting that Kafka has and that nothing here reads (`configs_without_effect`) is described as
such: what it does in Kafka would be a promise.
"""

from __future__ import annotations

from typing import Final

NO_EFFECT: Final = "This setting of Kafka's is accepted and checked, but has no effect here"
NO_EFFECT_BECAUSE: Final = {
    "remote.": "there is no tiered storage",
    "follower.fetch.last.tiered.": "there is no tiered storage",
    "group.streams.": "streams groups are not served",
    "group.share.": "share fetching is not served",
    "share.fetch.": "share fetching is not served",
    "controller.quorum.": "the controller quorum has one voter",
}
"""Why settings whose names begin so have no effect."""


def no_effect_text(name: str) -> str:
    """Describes a setting that nothing reads."""
    reason = next((reason for prefix, reason in NO_EFFECT_BECAUSE.items() if name.startswith(prefix)), None)
    return f"{NO_EFFECT}." if reason is None else f"{NO_EFFECT}: {reason}."


BROKER_CONFIG_DOCS: Final = {
    "add.partitions.to.txn.retry.backoff.max.ms": (
        "The longest time in ms that the broker retries to add a partition to a transaction before the producer is told to retry."
    ),
    "add.partitions.to.txn.retry.backoff.ms": "The time in ms between two tries of the broker to add a partition to a transaction.",
    "advertised.listeners": "The addresses that clients are told to connect to. If not set, `listeners` is used.",
    "alter.log.dirs.replication.quota.window.num": (
        "The number of windows over which the rate of moves between log directories is measured."
    ),
    "alter.log.dirs.replication.quota.window.size.seconds": (
        "The length in seconds of one window over which the rate of moves between log directories is measured."
    ),
    "authorizer.class.name": (
        "The class that decides what principals may do. Only Kafka's StandardAuthorizer is known; if empty, everything is allowed."
    ),
    "auto.create.topics.enable": "Whether a request for a topic that does not exist creates it.",
    "auto.leader.rebalance.enable": "Whether the controller gives leadership back to preferred replicas by itself.",
    "broker.heartbeat.interval.ms": "The time in ms between two heartbeats of the broker to the controller.",
    "broker.id": "The broker's id. It must equal node.id if it is set.",
    "broker.rack": "The rack that this broker is in. Clients are told.",
    "broker.session.timeout.ms": "The time in ms without a heartbeat after which the controller fences a broker.",
    "compression.gzip.level": "The gzip level at which the broker compresses; -1 is the codec's own default.",
    "compression.lz4.level": "The lz4 level at which the broker compresses.",
    "compression.type": "The codec in which the broker stores batches. `producer` keeps the producer's codec.",
    "compression.zstd.level": "The zstd level at which the broker compresses.",
    "config.providers": "The names of the config providers whose references (such as ${file:path:key}) are resolved in values.",
    "connection.failed.authentication.delay.ms": (
        "The time in ms that a connection stays open after its login failed, so that guessing passwords is slow."
    ),
    "connections.max.idle.ms": "The time in ms without a request after which a connection is closed.",
    "connections.max.reauth.ms": "The time in ms for which a SASL login is valid; afterwards the client must log in again. 0 is no limit.",
    "controlled.shutdown.enable": "Whether a broker that stops first hands its leaderships over to others.",
    "controller.listener.names": "The names of the listeners that the controller uses.",
    "controller.quorum.bootstrap.servers": "The addresses (host:port) at which the node first looks for the controller.",
    "controller.quorum.voters": "The controllers, each as id@host:port.",
    "controller.quota.window.num": "The number of windows over which the rate of topic changes is measured for its quota.",
    "controller.quota.window.size.seconds": "The length in seconds of one window over which the rate of topic changes is measured.",
    "default.replication.factor": "The replication factor of a topic that is created without one.",
    "delegation.token.expiry.check.interval.ms": "The time in ms between two searches for expired delegation tokens.",
    "delegation.token.expiry.time.ms": "The time in ms after which a delegation token expires unless it is renewed.",
    "delegation.token.max.lifetime.ms": "The time in ms after which a delegation token can no longer be renewed.",
    "delegation.token.secret.key": (
        "The secret with which delegation tokens are signed; equal at all brokers and controllers. Without it there are no tokens."
    ),
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The largest number of bytes in one fetch response. Its first batch may be larger.",
    "follower.replication.throttled.rate": (
        "The rate in bytes per second at which this broker may copy the replicas that are throttled for followers."
    ),
    "group.consumer.assignment.interval.ms": "The least time in ms between two assignments of a consumer group.",
    "group.consumer.assignors": "The assignors of consumer groups (KIP-848), the default one first.",
    "group.consumer.heartbeat.interval.ms": "The time in ms between two heartbeats that members of consumer groups are told to keep.",
    "group.consumer.max.assignment.interval.ms": "The largest value that a group may set for its assignment interval, in ms.",
    "group.consumer.max.heartbeat.interval.ms": "The largest value that a group may set for its heartbeat interval, in ms.",
    "group.consumer.max.session.timeout.ms": "The largest value that a group may set for its session timeout, in ms.",
    "group.consumer.max.size": "The largest number of members of a consumer group.",
    "group.consumer.migration.policy": (
        "In which directions a group may change between the classic and the consumer protocol while it has members."
    ),
    "group.consumer.min.assignment.interval.ms": "The smallest value that a group may set for its assignment interval, in ms.",
    "group.consumer.min.heartbeat.interval.ms": "The smallest value that a group may set for its heartbeat interval, in ms.",
    "group.consumer.min.session.timeout.ms": "The smallest value that a group may set for its session timeout, in ms.",
    "group.consumer.regex.refresh.interval.ms": (
        "The time in ms after which a group's regular expressions are matched against the topics again."
    ),
    "group.consumer.session.timeout.ms": "The time in ms without a heartbeat after which a member leaves its consumer group.",
    "group.coordinator.rebalance.protocols": "The protocols of groups that are served.",
    "group.initial.rebalance.delay.ms": "The time in ms that the first rebalance of an empty classic group waits for more members.",
    "group.max.session.timeout.ms": "The largest session timeout in ms that a member of a classic group may ask for.",
    "group.max.size": "The largest number of members of a classic group.",
    "group.min.session.timeout.ms": "The smallest session timeout in ms that a member of a classic group may ask for.",
    "group.share.max.session.timeout.ms": "The largest value that a share group may set for its session timeout, in ms.",
    "group.share.min.session.timeout.ms": "The smallest value that a share group may set for its session timeout, in ms.",
    "group.share.session.timeout.ms": "The time in ms without a heartbeat after which a member leaves its share group.",
    "initial.broker.registration.timeout.ms": "The time in ms after which a broker that could not register with the controller ends.",
    "inter.broker.listener.name": "The name of the listener that brokers use to talk to each other.",
    "kmirror.http.listener": (
        "The address (host:port) at which the node serves its metrics and its health over "
        "HTTP. If not set, it does not. This is a setting of kmirror."
    ),
    "kmirror.telemetry.receiver.enable": "Whether clients may push their metrics to this broker (KIP-714). This is a setting of kmirror.",
    "leader.imbalance.check.interval.seconds": (
        "The time in seconds between two searches for leaderships to give back to preferred replicas."
    ),
    "leader.replication.throttled.rate": (
        "The rate in bytes per second at which this broker may serve the replicas that are throttled for leaders."
    ),
    "listener.security.protocol.map": "The security protocol of each listener name.",
    "listeners": "The addresses that the node listens on, each as NAME://host:port.",
    "log.cleaner.backoff.ms": "The time in ms that the cleaner waits when there is nothing to clean.",
    "log.cleaner.dedupe.buffer.size": "The memory in bytes for the keys of one pass, over all cleaner threads.",
    "log.cleaner.delete.retention.ms": "The time in ms that a tombstone stays in a compacted topic.",
    "log.cleaner.enable": "Whether compacted topics are compacted.",
    "log.cleaner.io.buffer.load.factor": "How full the memory for keys may become, as a share of it.",
    "log.cleaner.io.max.bytes.per.second": "The rate in bytes per second at which the cleaner may read and write.",
    "log.cleaner.max.compaction.lag.ms": "The longest time in ms that a record may stay uncleaned in a compacted topic.",
    "log.cleaner.min.cleanable.ratio": "The share of a log that must not be cleaned yet before the cleaner works on it.",
    "log.cleaner.min.compaction.lag.ms": "The time in ms for which a record stays uncleaned at least.",
    "log.cleaner.threads": "The number of logs that are cleaned at the same time.",
    "log.cleanup.policy": "What happens to old segments: delete, compact or both. If empty, nothing happens to them.",
    "log.dir": "The log directory if log.dirs is not set.",
    "log.dir.failure.timeout.ms": "The time in ms after which a broker ends if it cannot tell the controller that a log directory failed.",
    "log.dirs": "The log directories, separated by commas.",
    "log.flush.interval.messages": "The number of records after which a log is flushed.",
    "log.flush.interval.ms": "The time in ms after which a log is flushed.",
    "log.flush.offset.checkpoint.interval.ms": "The time in ms between two writes of the recovery points.",
    "log.flush.scheduler.interval.ms": "The time in ms between two searches for logs to flush.",
    "log.flush.start.offset.checkpoint.interval.ms": "The time in ms between two writes of the log start offsets.",
    "log.index.interval.bytes": "The number of bytes of the log between two entries of the offset index.",
    "log.index.size.max.bytes": "The largest size of an index file in bytes.",
    "log.initial.task.delay.ms": "The time in ms between the start of the broker and the first run of its periodic tasks on logs.",
    "log.local.retention.bytes": (
        "The size in bytes that stays on this disk of a partition with tiered storage; -2 is log.retention.bytes."
    ),
    "log.local.retention.ms": "The time in ms that segments stay on this disk of a partition with tiered storage; -2 is log.retention.ms.",
    "log.message.timestamp.after.max.ms": "How far in the future, in ms, a record's timestamp may lie.",
    "log.message.timestamp.before.max.ms": "How far in the past, in ms, a record's timestamp may lie.",
    "log.message.timestamp.type": "Whether records keep the producer's timestamps or get the broker's.",
    "log.preallocate": "Whether a new segment's file gets its whole size at once.",
    "log.retention.bytes": "The size of a partition in bytes above which old segments are deleted; -1 is no limit.",
    "log.retention.check.interval.ms": "The time in ms between two searches for segments to delete.",
    "log.retention.hours": "The age in hours at which segments are deleted if neither log.retention.minutes nor log.retention.ms is set.",
    "log.retention.minutes": "The age in minutes at which segments are deleted if log.retention.ms is not set.",
    "log.retention.ms": "The age in ms at which segments are deleted; -1 is never.",
    "log.roll.hours": "The age in hours at which a segment is closed if log.roll.ms is not set.",
    "log.roll.jitter.hours": "The largest random time in hours that is taken from log.roll.hours, if log.roll.jitter.ms is not set.",
    "log.roll.jitter.ms": "The largest random time in ms that is taken from log.roll.ms, so that segments do not end at the same moment.",
    "log.roll.ms": "The age in ms at which a segment is closed.",
    "log.segment.bytes": "The largest size of a segment in bytes.",
    "log.segment.delete.delay.ms": "The time in ms between the removal of a segment from the log and the removal of its files.",
    "max.connection.creation.rate": "The largest number of new connections per second.",
    "max.connections": "The largest number of connections to the broker at a time.",
    "max.connections.per.ip": "The largest number of connections from one address at a time.",
    "max.connections.per.ip.overrides": "Other limits for single addresses or host names, as address:count.",
    "max.incremental.fetch.session.cache.slots": "The number of fetch sessions that the broker keeps.",
    "max.request.partition.size.limit": "The largest number of partitions in one answer of DescribeTopicPartitions.",
    "message.max.bytes": "The largest size of a record batch in bytes.",
    "metadata.log.dir": "The directory of the metadata log. If not set, it is the first log directory.",
    "metadata.log.max.record.bytes.between.snapshots": "The number of bytes in the metadata log after which a snapshot is written.",
    "metadata.log.max.snapshot.interval.ms": "The time in ms after which a snapshot is written if there are new records.",
    "metadata.log.segment.bytes": "The largest size in bytes of a segment of the metadata log.",
    "metadata.log.segment.ms": "The age in ms at which a segment of the metadata log is closed.",
    "metadata.max.idle.interval.ms": (
        "The time in ms after which the controller writes a record that says nothing, so that brokers see that it lives. 0 is never."
    ),
    "metadata.max.retention.bytes": "The size in bytes of metadata log and snapshots above which the oldest are deleted.",
    "metadata.max.retention.ms": "The age in ms at which segments and snapshots of the metadata log are deleted.",
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
    "num.replica.alter.log.dirs.threads": (
        "The number of replicas' moves between log directories at the same time; if not set, one for each directory."
    ),
    "num.replica.fetchers": "The number of fetchers for each leader.",
    "offset.metadata.max.bytes": "The largest size of the text that a consumer may commit with an offset.",
    "offsets.retention.check.interval.ms": "The time in ms between two searches for expired offsets.",
    "offsets.retention.minutes": "The time in minutes that the offsets of an empty group are kept.",
    "offsets.topic.num.partitions": "The number of partitions of __consumer_offsets. Do not change it after the topic was created.",
    "offsets.topic.replication.factor": "The replication factor of __consumer_offsets.",
    "offsets.topic.segment.bytes": "The largest size in bytes of a segment of __consumer_offsets.",
    "process.roles": "The roles of this node: broker, controller or both.",
    "producer.id.expiration.check.interval.ms": "The time in ms between two searches for producers whose state has expired.",
    "producer.id.expiration.ms": "The time in ms after which the state of an idle producer is removed.",
    "queued.max.request.bytes": "The memory in bytes that the unfinished requests of all connections may hold; -1 is no limit.",
    "quota.window.num": "The number of windows over which clients' rates are measured for their quotas.",
    "quota.window.size.seconds": "The length in seconds of one window over which clients' rates are measured.",
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "The rate in bytes per second at which replicas move between this broker's log directories."
    ),
    "replica.fetch.backoff.ms": "The time in ms that a fetcher waits after an error.",
    "replica.fetch.max.bytes": "The largest number of bytes to fetch from one partition.",
    "replica.fetch.min.bytes": "The number of bytes that a follower's fetch waits for.",
    "replica.fetch.response.max.bytes": "The largest number of bytes to fetch in one response.",
    "replica.fetch.wait.max.ms": "The longest time in ms that a follower's fetch waits.",
    "replica.high.watermark.checkpoint.interval.ms": "The time in ms between two writes of the high watermark checkpoints.",
    "replica.lag.time.max.ms": "The time in ms that a follower may lag before it is removed from the ISR.",
    "replica.selector.class": "The class that chooses the replica a consumer reads from (KIP-392); if not set, the leader.",
    "replica.socket.receive.buffer.bytes": (
        "The receive buffer (SO_RCVBUF), in bytes, of connections from mirrors to their source. If not set, the system decides."
    ),
    "replication.quota.window.num": "The number of windows over which the rate of throttled replication is measured.",
    "replication.quota.window.size.seconds": (
        "The length in seconds of one window over which the rate of throttled replication is measured."
    ),
    "request.timeout.ms": "The time in ms that the broker waits for responses to its own requests.",
    "sasl.enabled.mechanisms": "The SASL mechanisms that the listener offers.",
    "sasl.jaas.config": "The login module and its options, for listeners as listener.name.NAME.MECHANISM.sasl.jaas.config.",
    "sasl.kerberos.principal.to.local.rules": "The rules by which Kerberos principals become short names; the first that matches wins.",
    "sasl.kerberos.service.name": "The name of the service in Kerberos, that of the brokers' principal.",
    "sasl.mechanism.controller.protocol": "The SASL mechanism by which nodes log in at the controller.",
    "sasl.mechanism.inter.broker.protocol": "The SASL mechanism by which brokers log in at each other.",
    "sasl.oauthbearer.clock.skew.seconds": "How far in seconds the clock of a token's issuer may differ.",
    "sasl.oauthbearer.expected.audience": "The audiences of which a token must name one.",
    "sasl.oauthbearer.expected.issuer": "The issuer that a token must name.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "The time in ms after which the issuer's keys are fetched again.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "The longest time in ms between two tries to fetch the issuer's keys.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "The time in ms before the issuer's keys are asked for again after a failure.",
    "sasl.oauthbearer.jwks.endpoint.url": "Where the issuer's keys are, with which tokens are verified: an http, https or file URL.",
    "sasl.oauthbearer.scope.claim.name": "The name of the claim that holds a token's scopes.",
    "sasl.oauthbearer.sub.claim.name": "The name of the claim that holds a token's principal.",
    "sasl.oauthbearer.token.endpoint.url": "Where a node gets its own tokens.",
    "sasl.server.callback.handler.class": (
        "The class that checks logins, for listeners as listener.name.NAME.MECHANISM.sasl.server.callback.handler.class."
    ),
    "sasl.server.max.receive.size": "The largest number of bytes that a client may send before it has logged in.",
    "security.inter.broker.protocol": "The security protocol among brokers, if inter.broker.listener.name is not set.",
    "security.providers": "The classes of Java's security providers. There is no JVM here to load them.",
    "server.max.startup.time.ms": "The time in ms after which a broker that is still starting ends.",
    "share.coordinator.cold.partition.snapshot.interval.ms": (
        "The time in ms after which the state of a share partition that did not change is written whole again."
    ),
    "share.coordinator.snapshot.update.records.per.snapshot": (
        "The number of updates of a share partition's state between two writes of the whole state."
    ),
    "share.coordinator.state.topic.min.isr": "The number of in-sync replicas that writes to the topic of share states need.",
    "share.coordinator.state.topic.num.partitions": "The number of partitions of the topic of share states.",
    "share.coordinator.state.topic.prune.interval.ms": (
        "The time in ms between two deletions of old records from the topic of share states."
    ),
    "share.coordinator.state.topic.replication.factor": "The replication factor of the topic of share states.",
    "share.coordinator.state.topic.segment.bytes": "The largest size in bytes of a segment of the topic of share states.",
    "share.coordinator.write.timeout.ms": "The time in ms that a write of share states waits for its replicas.",
    "socket.connection.setup.timeout.max.ms": "The longest time in ms to wait for a connection to a node, after failures.",
    "socket.connection.setup.timeout.ms": "The time in ms to wait for the first connection to a node.",
    "socket.receive.buffer.bytes": (
        "The receive buffer (SO_RCVBUF), in bytes, of connections from clients, and of those "
        "from mirrors to their source if replica.socket.receive.buffer.bytes is not set. If "
        "neither is set, the system decides."
    ),
    "socket.request.max.bytes": "The largest size of a request in bytes.",
    "socket.send.buffer.bytes": (
        "The send buffer (SO_SNDBUF), in bytes, of connections from clients and from mirrors "
        "to their source. If not set, the system decides."
    ),
    "ssl.cipher.suites": "The cipher suites that may be used; if not set, the library's.",
    "ssl.client.auth": "Whether clients must (required), may (requested) or need not (none) show a certificate.",
    "ssl.enabled.protocols": "The versions of TLS that may be used.",
    "ssl.endpoint.identification.algorithm": "Whether a server's certificate must name its host (https); if empty, it need not.",
    "ssl.key.password": "The password of the private key.",
    "ssl.keystore.certificate.chain": "The node's certificate and those that signed it, as PEM text.",
    "ssl.keystore.key": "The node's private key, as PEM text.",
    "ssl.keystore.location": "The file with the node's certificate and private key.",
    "ssl.keystore.password": "The password of the file in ssl.keystore.location.",
    "ssl.keystore.type": "The format of the key store: JKS, PKCS12 or PEM.",
    "ssl.principal.mapping.rules": "The rules by which a certificate's name becomes a principal's; the first that matches wins.",
    "ssl.truststore.certificates": "The certificates that are trusted, as PEM text.",
    "ssl.truststore.location": "The file with the certificates that are trusted.",
    "ssl.truststore.password": "The password of the file in ssl.truststore.location.",
    "ssl.truststore.type": "The format of the trust store: JKS, PKCS12 or PEM.",
    "telemetry.max.bytes": "The largest size in bytes of the metrics that a client may push at once (KIP-714).",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "The time in ms between two searches for transactions that took too long, which are aborted."
    ),
    "transaction.max.timeout.ms": "The longest timeout in ms that a producer may set for its transactions.",
    "transaction.partition.verification.enable": (
        "Whether a broker asks the coordinator if a transaction has the partition before it appends to it."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "The time in ms between two searches for transactional ids that have expired."
    ),
    "transaction.state.log.min.isr": "The number of in-sync replicas that writes to the topic of transactions need.",
    "transaction.state.log.num.partitions": "The number of partitions of the topic of transactions.",
    "transaction.state.log.replication.factor": "The replication factor of the topic of transactions.",
    "transaction.state.log.segment.bytes": "The largest size in bytes of a segment of the topic of transactions.",
    "transaction.two.phase.commit.enable": "Whether producers may take part in a two-phase commit, whose transactions do not time out.",
    "transactional.id.expiration.ms": "The time in ms without a transaction after which a transactional id is forgotten.",
    "unclean.leader.election.enable": "Whether a replica outside the ISR may become leader.",
    "unclean.leader.election.interval.ms": "The time in ms between two searches for partitions whose leader may be elected uncleanly.",
    "unstable.api.versions.enable": "Whether unstable APIs and API versions are served. The APIs of cluster mirroring are among them.",
    "unstable.feature.versions.enable": "Whether unstable feature levels may be chosen. mirror.version is among them.",
}
