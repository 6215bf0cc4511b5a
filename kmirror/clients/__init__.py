"""Kafka's clients for applications inside kmirror: a producer and a consumer that run on `runtime`,
so on sockets and on the simulated loop alike.

In: Kafka's client properties by their dotted names, records, and whole batches. Out: what brokers
answered, with Kafka's errors.

Start reading: `cluster_client` (one client's view of one cluster: metadata, coordinators, requests,
retries), which stands on the pure `cluster_metadata`; `metadata_rounds` says when metadata is asked
for, `coordinator_finder` who coordinates a group. `client_config` holds the configurations.
`kafka_producer` is the producer, `consumer/` the consumer.

This room imports `network`, `admin` (for `Node`) and the rooms below them.
"""
