"""InitProducerId (key 22). Served: v0-v5 (v6, two-phase commit, only with unstable APIs on).

Gives an idempotent producer (no transactional id) a new producer id with epoch 0; ids come in blocks from the controller.
Sent with an id and epoch of its own (v3, KIP-360) it gets a new id, too.

Not implemented: transactional ids. They answer INVALID_REQUEST, since there is no transaction coordinator yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import Errors
from kmirror.server.request_context import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


REFUSED = InitProducerIdResponse(error_code=Errors.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)


async def handle_init_producer_id(apis: KafkaApis, request: Request) -> InitProducerIdResponse:
    message: InitProducerIdRequest = request.message
    if message.transactional_id is not None:
        return REFUSED
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        return REFUSED
    producer_id = await apis.producer_ids.generate()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


HANDLERS = {ApiKeys.INIT_PRODUCER_ID: handle_init_producer_id}
