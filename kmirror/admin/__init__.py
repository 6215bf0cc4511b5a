"""`AdminClient`: Kafka's Admin as coroutines, with the eight calls of KIP-1279.

In: calls such as `create_topics` or `describe_mirrors`. Out: requests to the right broker (any
broker, a partition's leader, a group's coordinator), and results as plain values, named as in
Kafka's admin package. A failure of a whole request raises `ApiException`; failures of
single topics, partitions or groups are in the result. When no broker can be reached, it raises
`NoBrokerError`.

Start reading: `admin_client`, the table of all calls. A call stands in the module of its family
(topics, groups, mirrors, ...), beside the dataclasses that only it needs; those of several families
are in `results`. `admin_requests` knows whom to ask, what to try again and when to give up.

`AdminClient` is public (`kmirror.AdminClient`). `cli`, `sim` and the pytest plugin import this
room; no room that runs in a broker does. It imports `network`, `runtime`, `wire` and `common`.
"""
