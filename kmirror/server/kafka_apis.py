"""Every request of a broker listener comes in here (skeleton; bodies follow).

`KafkaApis(runtime=, config=, cluster_id=, replica_manager=, metadata_cache=, controller=ForwardingChannel, group_coordinator=None, mirror=None, authorizer=None, metrics=)`
`await handle(context) -> list of parts | None | CLOSE` is the network's handler. A handler is
`async def handle_x(apis: KafkaApis, request: Request) -> message | NO_RESPONSE | CLOSE_CONNECTION`; a file of handlers ends with
`HANDLERS: dict[ApiKeys, Handler]`; `apis.register(HANDLERS)` adds more (group coordinator, mirror). What is registered is what ApiVersions advertises.
"""

from __future__ import annotations
