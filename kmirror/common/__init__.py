"""The vocabulary that every other room shares. Nothing here knows of a log, a node or a network.

It holds Kafka's error codes and the exceptions that carry them (`errors`), `Uuid`,
`TopicPartition`, principals, the vocabulary of ACLs, typed configs (`ConfigDef`), varints, CRC-32C,
the metrics registry with its sensors, and the Protocols of the outside world (`ports`: `Clock`,
`Random`, `FileSystem`).

In and out: plain values. The one long-lived state here is what a `MetricsRegistry` and its sensors
have counted; it belongs to the node that made the registry.

Start reading: `ports.py`, then `errors.py`; `config.py` for settings, `metrics.py` for metrics.

Every room may import every module of this one. This room imports no other room, nor asyncio.
"""
