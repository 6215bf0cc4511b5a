"""How a broker reaches the brokers of its cluster: by id, at the addresses in the metadata
image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kmirror.metadata.image import MetadataImage
from kmirror.network.client import DisconnectError, NetworkClient


class InterBrokerChannel:
    """A `BrokerChannel` over the inter-broker listener; the network client belongs to the
    caller.
    """

    def __init__(self, client: NetworkClient, image: Callable[[], MetadataImage], *, listener_name: str, request_timeout_ms: int) -> None:
        self._client = client
        self._image = image
        self._listener_name = listener_name
        self._timeout_ms = request_timeout_ms

    async def send(self, broker_id: int, message: Any) -> Any:
        registration = self._image().cluster.broker(broker_id)
        end_point = registration.listeners.get(self._listener_name) if registration is not None else None
        if end_point is None:
            raise DisconnectError(f"broker {broker_id} has no listener {self._listener_name} in the metadata")
        return await self._client.send(end_point.host, end_point.port, message, timeout_ms=self._timeout_ms)
