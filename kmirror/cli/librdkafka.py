"""The client of the console and performance tools: confluent-kafka (librdkafka).

The extra `kmirror[clients]` installs it. Users give Java's property names. Most of these are
librdkafka's, too. Some have another name or unit there, some another form (JAAS, key stores), and
some have no counterpart; `translate` leaves those out. Anything else is passed on, so librdkafka's
own properties work as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kmirror.cli.tool_options import CommandError
from kmirror.common.errors import Errors
from kmirror.network.security.jaas_config import JaasConfig

RENAMED = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "max.request.size": "message.max.bytes",
}
DROPPED = frozenset(
    {
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "max.block.ms",
        "max.poll.records",
        "partitioner.class",
        "interceptor.classes",
        "metric.reporters",
        "ssl.truststore.type",
        "ssl.truststore.password",
        "ssl.keystore.type",
        "ssl.keystore.password",
        "sasl.jaas.config",
    }
)
BYTES_PER_KB = 1024


def require_confluent_kafka(tool: str) -> Any:
    """Returns the module; CommandError with one clear line if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise CommandError(f"{tool} needs the package confluent-kafka; install the extra: pip install 'kmirror[clients]'") from error
    return confluent_kafka


def translate(properties: Mapping[str, str]) -> dict[str, Any]:
    """Translate Java's client properties to librdkafka's."""
    settings: dict[str, Any] = {}
    for name, value in properties.items():
        if name == "buffer.memory":
            settings["queue.buffering.max.kbytes"] = max(1, int(value) // BYTES_PER_KB)
        elif name == "ssl.keystore.location":  # a PEM file with certificate and key
            settings |= {"ssl.certificate.location": value, "ssl.key.location": value}
        elif name == "ssl.endpoint.identification.algorithm":
            settings[name] = value or "none"
        elif name not in DROPPED:
            settings[RENAMED.get(name, name)] = value
    settings |= _sasl(properties.get("sasl.jaas.config"))
    return settings


def _sasl(jaas: str | None) -> dict[str, str]:
    """Returns user and password from the login module's options."""
    if not jaas:
        return {}
    options = JaasConfig.parse(jaas).options
    return {f"sasl.{name}": options[name] for name in ("username", "password") if name in options}


def error_text(error: Any) -> str:
    """Returns librdkafka's text of a `KafkaError`.

    If librdkafka has only the number, as for the errors of mirroring, Kafka's text is put in.
    """
    text: str = error.str()
    return text.replace(f"Err-{error.code()}?", Errors.for_code(error.code()).message)


def silent_logger() -> Any:
    """Returns a logger that drops lines: librdkafka's log is not for users of a console tool."""
    import logging

    logger = logging.getLogger("kmirror.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
