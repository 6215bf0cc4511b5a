"""Hands out producer ids from blocks that the controller allocates (Kafka's
`RPCProducerIdManager`).

Ids of a block are used in order. When it is used up, the next one is requested once, however many
producers wait. A block that is not used up when the broker stops is lost, as in Kafka: ids are
unique, but not dense.
"""

from __future__ import annotations

import asyncio

from kmirror.common.errors import ApiException, Errors
from kmirror.network.node_channels import ControllerChannel
from kmirror.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


class ProducerIdManager:
    def __init__(self, broker_id: int, controller: ControllerChannel) -> None:
        self.broker_epoch = -1
        self._broker_id = broker_id
        self._controller = controller
        self._lock = asyncio.Lock()
        self._next = 0
        self._end = 0

    async def generate(self) -> int:
        """Returns a producer id that no other producer of the cluster has.

        ApiException: COORDINATOR_LOAD_IN_PROGRESS (retriable) if there is none.
        """
        async with self._lock:
            if self._next >= self._end:
                await self._allocate_block()
            producer_id = self._next
            self._next += 1
            return producer_id

    async def _allocate_block(self) -> None:
        try:
            response: AllocateProducerIdsResponse = await self._controller.send(
                AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self.broker_epoch)
            )
        except ApiException as error:
            raise ApiException(Errors.COORDINATOR_LOAD_IN_PROGRESS, f"No producer ids from the controller: {error.message}") from error
        if response.error_code != Errors.NONE:
            name = Errors.for_code(response.error_code).name
            raise ApiException(Errors.COORDINATOR_LOAD_IN_PROGRESS, f"The controller refused a block of producer ids: {name}")
        self._next = response.producer_id_start
        self._end = response.producer_id_start + response.producer_id_len
