"""Blocks of producer ids for brokers (Kafka's `ProducerIdControlManager`)."""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.cluster_control_manager import ClusterControlManager
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kmirror.wire.messages.producer_ids_record import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000
_LAST_BLOCK = (1 << 63) - 1 - PRODUCER_ID_BLOCK_SIZE


class ProducerIdControlManager:
    def __init__(self, state: ControllerState, cluster: ClusterControlManager) -> None:
        self._state = state
        self._cluster = cluster

    def allocate(self, request: AllocateProducerIdsRequest) -> ControllerResult[AllocateProducerIdsResponse]:
        """Allocates the next 1000 ids; the record holds the id that comes after them."""
        self._cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        first = max(self._state.image.next_producer_id, 0)
        if first > _LAST_BLOCK:
            raise ApiException(
                Errors.UNKNOWN_SERVER_ERROR,
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
            )
        record = ProducerIdsRecord(
            broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + PRODUCER_ID_BLOCK_SIZE
        )
        response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
        return ControllerResult([ApiMessageAndVersion(record, 0)], response)
