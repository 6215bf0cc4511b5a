"""A node put together: request handlers, settings, quotas, metrics, the order of start and stop.

In: a `server.properties` (`KafkaConfig`), and requests from `network`'s listeners. Out: responses.
`KafkaApis` passes a request to a handler in `apis/` (one module per family of APIs), which asks
`replica`, `coordinator`, `mirror` or the metadata cache. Requests that change metadata are
forwarded to the controller.

This is the only package that imports all of a broker's packages. It gives each of them the ports
that it needs.

Start reading: `KafkaServer` (one node), `BrokerServer` and `ControllerServer` (its two roles), then
`KafkaApis`, `broker_api_table` and one module of `apis/`. `BrokerMetadataPublisher` shows who acts
on new metadata.

`node_main`, `embedded`, `sim` and `cli` start nodes with `KafkaConfig` and `KafkaServer`. The
packages below may not import this one.
"""
