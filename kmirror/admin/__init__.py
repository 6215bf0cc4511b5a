"""`AdminClient`: Kafka's Admin as coroutines, with the eight calls of KIP-1279.

In: calls such as `create_topics` or `describe_mirrors`. Out: requests to the right broker (any
broker, a partition's leader, a group's coordinator), and results as plain values, named as in
Kafka's admin package. A failure of a whole request raises `ApiException`; the result holds failures
of single topics, partitions or groups. `NoBrokerError` means that no broker could be reached.

Start reading: `admin_client`, the table of all calls. Each call is in the module of its family
(topics, groups, mirrors, ...), beside the dataclasses that only it needs; `results` has those of
several families. `admin_requests` decides whom to ask, what to try again and when to give up.

`AdminClient` is public (`kmirror.AdminClient`). `cli`, `sim` and the pytest plugin import this
package; no package that runs in a broker does. It imports `network`, `runtime`, `wire` and
`common`.
"""
