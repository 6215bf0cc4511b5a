"""The legacy MirrorMaker (KIP-3), as `kafka-mirror-maker` of Apache Kafka 3.9 runs it.

It consumes topics as a member of a group of the source cluster and produces their records, by the
default partitioner, to the same names in the target cluster. What it promises is that nothing is
lost: an offset is committed only when the target has acknowledged every record before it.

    stream 0 ── KafkaConsumer ──┐
    stream 1 ── KafkaConsumer ──┼── message handler ── one KafkaProducer ── target
    stream n ── KafkaConsumer ──┘
       every offset.commit.interval.ms, before partitions are given up, and at the end:
       flush the producer, then commit what was sent before the flush

    settings             properties that guard against loss, the topics' pattern
    message_handler      the handler between consumer and producer
    plugins              handlers and rebalance listeners of users, as `module:attribute`
    user_code            how they are called, and what becomes of what they raise
    mirror_maker_producer, consumer_wrapper    what streams share, and what each has of its own
    mirror_maker_thread  one stream
    mirror_maker         the owner of all of it: start, first failure, clean end, metrics
    cluster_watch        says in the log when a cluster cannot be reached
    stall_watch          says in the log why nothing is mirrored although both can

Names are those of Kafka's class `kafka.tools.MirrorMaker`. A thread of Kafka's is a task here.

One thing differs on purpose. When a stream fails (the handler raises, say), Kafka 3.9 commits
nothing at all. KIP-3 says that what was acknowledged is committed, and so it is here: the streams
flush and commit up to the record that failed. After a failed send both commit nothing.
"""

from kmirror.clients.consumer.consumer_types import ConsumerRebalanceListener, ConsumerRecord
from kmirror.clients.kafka_producer import ProducerRecord
from kmirror.mirrormaker.legacy.message_handler import MirrorMakerMessageHandler

__all__ = ["ConsumerRebalanceListener", "ConsumerRecord", "MirrorMakerMessageHandler", "ProducerRecord"]
