"""kafka-python against an embedded cluster: its own protocol code, older request versions."""

from __future__ import annotations

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from kmirror import EmbeddedCluster


def test_kafka_python_produces_and_consumes_with_a_group() -> None:
    with EmbeddedCluster() as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        admin.create_topics([NewTopic("kp", 2, 1)])
        assert "kp" in admin.list_topics()
        admin.close()
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", compression_type="gzip")
        for number in range(100):
            producer.send("kp", str(number).encode(), partition=number % 2)
        producer.flush(30)
        producer.close()
        consumer = KafkaConsumer(
            "kp", bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=15000
        )
        values = []
        for message in consumer:
            values.append(message.value)
            if len(values) == 100:
                break
        consumer.commit()
        consumer.close()
        assert sorted(values) == sorted(str(number).encode() for number in range(100))
