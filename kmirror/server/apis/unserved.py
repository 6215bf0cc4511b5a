"""ShareGroupHeartbeat (key 76), ShareFetch (78), ShareAcknowledge (79), StreamsGroupHeartbeat (88),
StreamsGroupDescribe (89): APIs that kmirror does not serve.

They are advertised and answered with UNSUPPORTED_VERSION, as Kafka answers them while
`share.version` or `streams.version` is 0. A client of such an API then fails with that error; of an
API that is not advertised, librdkafka's share consumer waits without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kmirror.common.errors import ApiException, Errors
from kmirror.server.request import Request

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_unserved(apis: KafkaApis, request: Request) -> Any:
    raise ApiException(Errors.UNSUPPORTED_VERSION, f"kmirror does not serve {request.api_key.name}")
