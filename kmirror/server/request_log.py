"""Kafka's request log: with the logger `kafka.request.logger` at DEBUG, one line of JSON for every
completed request.

The keys are those of Kafka's `RequestConvertToJson`: isForwarded, requestHeader, request, response,
connection, the times in ms, securityProtocol, principal, listener, clientInformation. Only the size
of record data is written, not the data. Configs that are secret, or that this broker does not know,
appear as `(redacted)`, and so do salted passwords and the keys of delegation tokens (which Kafka
writes). At any higher level a request costs one comparison.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kmirror.metadata.image import RESOURCE_MIRROR
from kmirror.server.request import NoMessage, Request
from kmirror.server.sensitive_configs import REDACTED, is_sensitive_config
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.json_converter import dumps, message_to_json

REQUEST_LOGGER = logging.getLogger("kafka.request.logger")
_NS_IN_MS = 1_000_000.0


def log_completed(request: Request, response: Any, *, throttle_time_ms: int, send_ns: int) -> None:
    """Logs one line about a completed request."""
    REQUEST_LOGGER.debug("Completed request:%s", dumps(describe(request, response, throttle_time_ms=throttle_time_ms, send_ns=send_ns)))


def describe(request: Request, response: Any, *, throttle_time_ms: int, send_ns: int) -> dict[str, Any]:
    """Returns the line's object; `response` is a message, or why there is none."""
    spec = API_TABLE[request.api_key]
    header: dict[str, Any] = {
        "requestApiKey": int(request.api_key),
        "requestApiVersion": request.api_version,
        "correlationId": request.correlation_id,
        "clientId": request.client_id,
        "requestApiKeyName": request.api_key.name,
    }
    if request.api_version < spec.lowest:
        header["requestApiVersionDeprecated"] = True
    answer = None if isinstance(response, NoMessage) else _redacted(request.api_key, message_to_json(response, request.api_version))
    return {
        "isForwarded": False,
        "requestHeader": header,
        "request": _redacted(request.api_key, message_to_json(request.message, request.api_version)),
        "response": answer if answer is not None else "",
        "connection": request.connection_id,
        **_times(request, throttle_time_ms, send_ns),
        "securityProtocol": request.security_protocol,
        "principal": str(request.principal),
        "listener": request.listener_name,
        "clientInformation": {
            "softwareName": request.client_information.software_name,
            "softwareVersion": request.client_information.software_version,
        },
    }


def _times(request: Request, throttle_time_ms: int, send_ns: int) -> dict[str, float]:
    timing = request.timing
    if timing is None:
        return {}
    return {
        "totalTimeMs": _ms(timing.finished_ns - timing.arrived_ns + send_ns),
        "requestQueueTimeMs": _ms(timing.queue_ns),
        "localTimeMs": _ms(timing.local_ns),
        "remoteTimeMs": _ms(timing.remote_ns),
        "throttleTimeMs": throttle_time_ms,
        "responseQueueTimeMs": 0.0,
        "sendTimeMs": _ms(send_ns),
    }


def _ms(time_ns: int) -> float:
    return round(time_ns / _NS_IN_MS, 3)


def _redacted(api_key: ApiKeys, message: dict[str, Any]) -> dict[str, Any]:
    redact = _REDACTIONS.get(api_key)
    if redact is not None:
        redact(message)
    return message


def _redact_configs(message: dict[str, Any]) -> None:
    for resource in message.get("resources", ()):
        _redact_values(resource["resourceType"], resource["configs"])


def _redact_mirror(message: dict[str, Any]) -> None:
    _redact_values(RESOURCE_MIRROR, message.get("config", ()))


def _redact_values(resource_type: int, configs: Iterable[dict[str, Any]]) -> None:
    for config in configs:
        if config["value"] is not None and is_sensitive_config(resource_type, config["name"]):
            config["value"] = REDACTED


def _redact_scram(message: dict[str, Any]) -> None:
    for upsertion in message.get("upsertions", ()):
        upsertion["salt"] = upsertion["saltedPassword"] = REDACTED


def _redact_tokens(message: dict[str, Any]) -> None:
    for holder in (message, *message.get("tokens", ())):
        if "hmac" in holder:
            holder["hmac"] = REDACTED


def _redact_envelope(message: dict[str, Any]) -> None:
    """Redacts a forwarded request; the broker that got it from the client logs it without its
    secrets.
    """
    for name in ("requestData", "responseData"):
        if message.get(name):
            message[name] = REDACTED


def _redact_sasl(message: dict[str, Any]) -> None:
    if "authBytes" in message:
        message["authBytes"] = REDACTED


_REDACTIONS: dict[ApiKeys, Callable[[dict[str, Any]], None]] = {
    ApiKeys.ALTER_CONFIGS: _redact_configs,
    ApiKeys.INCREMENTAL_ALTER_CONFIGS: _redact_configs,
    ApiKeys.CREATE_MIRROR: _redact_mirror,
    ApiKeys.ALTER_USER_SCRAM_CREDENTIALS: _redact_scram,
    ApiKeys.CREATE_DELEGATION_TOKEN: _redact_tokens,
    ApiKeys.RENEW_DELEGATION_TOKEN: _redact_tokens,
    ApiKeys.EXPIRE_DELEGATION_TOKEN: _redact_tokens,
    ApiKeys.DESCRIBE_DELEGATION_TOKEN: _redact_tokens,
    ApiKeys.SASL_AUTHENTICATE: _redact_sasl,
    ApiKeys.ENVELOPE: _redact_envelope,
}
