"""A node put together: request handlers, settings, quotas, metrics, the order of start and stop.

In: a `server.properties` (`KafkaConfig`), and requests from `network`'s listeners. Out: responses.
A request goes from `KafkaApis` to a handler in `apis/` (one module per family of APIs), which asks
`replica`, `coordinator`, `mirror` or the metadata cache. Requests that change metadata go on to the
controller.

This is the one room that sees all rooms of a broker, and it gives each of them the ports that it
needs.

Start reading: `KafkaServer` (one node), `BrokerServer` and `ControllerServer` (its two roles), then
`KafkaApis` and one module of `apis/`; `BrokerMetadataPublisher` for who acts on new metadata.

`node_main`, `embedded`, `sim` and `cli` start nodes with `KafkaConfig` and `KafkaServer`; the rooms
below may not import this one.
"""
