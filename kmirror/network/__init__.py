"""Connections between nodes: a server of request frames, a client for requests, and their security.

In: bytes from `runtime`'s connections. Out, on the server's side: a request frame with its
`RequestContext` (who asks, over which listener), handed to a handler that returns an `Answer`. Out,
on the client's side: response messages, or one exception for every way to lose a peer. Other rooms
decide what a request means.

Start reading: `SocketServer` (one listener) and `NetworkClient` (requests to other nodes), then
`ConnectionQuotas`; `security/` has TLS and SASL for both sides.

Every room from `metadata` upwards may import this one, except `spark`. This room imports `runtime`
and the rooms below it.
"""
