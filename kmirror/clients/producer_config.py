"""What a producer is configured with (Kafka's `ProducerConfig`), and the rules between settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kmirror.clients.client_config import MAX_INT, METADATA_MAX_IDLE_MS, ClientConfig, common_config_def
from kmirror.common.config import ConfigDef, ConfigType, at_least, between, non_empty_string, valid_string
from kmirror.common.errors import ConfigError
from kmirror.record.compression import CompressionType
from kmirror.runtime.api import Runtime

MAX_IN_FLIGHT_OF_IDEMPOTENCE: Final = 5
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
_GZIP_DEFAULT: Final = -1
_LZ4_DEFAULT: Final = 9
_ZSTD_DEFAULT: Final = 3


def _gzip_level(name: str, value: Any) -> None:
    if value != _GZIP_DEFAULT:
        between(1, 9)(name, value)


def producer_config_def() -> ConfigDef:
    """All keys of a producer. Times are ms, sizes bytes."""
    definition = common_config_def(receive_buffer_bytes=32_768)
    define = definition.define
    define("buffer.memory", ConfigType.LONG, 33_554_432, validator=at_least(0))
    define("retries", ConfigType.INT, MAX_INT, validator=between(0, MAX_INT))
    define("acks", ConfigType.STRING, "all", validator=valid_string("all", "-1", "0", "1"))
    define("compression.type", ConfigType.STRING, "none", validator=valid_string(*(one.text for one in CompressionType)))
    define("compression.gzip.level", ConfigType.INT, _GZIP_DEFAULT, validator=_gzip_level)
    define("compression.lz4.level", ConfigType.INT, _LZ4_DEFAULT, validator=between(1, 17))
    define("compression.zstd.level", ConfigType.INT, _ZSTD_DEFAULT, validator=between(-131_072, 22))
    define("batch.size", ConfigType.INT, 16_384, validator=at_least(0))
    define("partitioner.adaptive.partitioning.enable", ConfigType.BOOLEAN, True)
    define("partitioner.ignore.keys", ConfigType.BOOLEAN, False)
    define("linger.ms", ConfigType.LONG, 5, validator=at_least(0))
    define("delivery.timeout.ms", ConfigType.INT, 120_000, validator=at_least(0))
    define("max.request.size", ConfigType.INT, 1_048_576, validator=at_least(0))
    define("max.block.ms", ConfigType.LONG, 60_000, validator=at_least(0))
    define("metadata.max.idle.ms", ConfigType.LONG, METADATA_MAX_IDLE_MS, validator=at_least(5_000))
    define("max.in.flight.requests.per.connection", ConfigType.INT, 5, validator=at_least(1))
    define("enable.idempotence", ConfigType.BOOLEAN, True)
    define("transaction.timeout.ms", ConfigType.INT, 60_000)
    define("transactional.id", ConfigType.STRING, None, validator=non_empty_string)
    return definition


class ProducerConfig(ClientConfig):
    """Checked settings, with those that others change worked out as Kafka does it: without an
    explicit enable.idempotence, a setting that contradicts it switches it off.
    """

    def __init__(self, props: Mapping[str, Any], runtime: Runtime) -> None:
        """ConfigError with Kafka's text."""
        super().__init__(producer_config_def(), props, runtime)
        self.acks = _ACKS[self.get_string("acks") or "all"]
        self.transactional_id = self.get_string("transactional.id")
        self.retries = self.get_int("retries")
        self.max_in_flight = self.get_int("max.in.flight.requests.per.connection")
        self.idempotent = self._check_idempotence(props)
        self.linger_ms = self.get_int("linger.ms")
        self.request_timeout_ms = self.get_int("request.timeout.ms")
        self.delivery_timeout_ms = self._delivery_timeout(props)
        self.compression = CompressionType.for_name(self.get_string("compression.type") or "none")
        self.compression_level = self._compression_level()
        self.batch_size = max(1, self.get_int("batch.size"))
        self.metadata_max_idle_ms = self.get_int("metadata.max.idle.ms")
        self.max_request_size = self.get_int("max.request.size")
        self.buffer_memory = self.get_int("buffer.memory")
        self.max_block_ms = self.get_int("max.block.ms")
        self.transaction_timeout_ms = self.get_int("transaction.timeout.ms")

    def _check_idempotence(self, props: Mapping[str, Any]) -> bool:
        wanted = self.get_bool("enable.idempotence")
        is_explicit = "enable.idempotence" in props
        faults = []
        if self.retries == 0:
            faults.append("Must set retries to non-zero when using the idempotent producer.")
        if self.acks != -1:
            faults.append("Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence.")
        if self.max_in_flight > MAX_IN_FLIGHT_OF_IDEMPOTENCE:
            faults.append("Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer.")
        if wanted and faults and (is_explicit or self.transactional_id is not None):
            raise ConfigError(faults[0])
        idempotent = wanted and not faults
        if self.transactional_id is not None and not idempotent:
            raise ConfigError("Cannot set a transactional.id without also enabling idempotence.")
        return idempotent

    def _delivery_timeout(self, props: Mapping[str, Any]) -> int:
        timeout_ms = self.get_int("delivery.timeout.ms")
        least_ms = min(self.linger_ms + self.request_timeout_ms, MAX_INT)
        if timeout_ms >= least_ms:
            return timeout_ms
        if "delivery.timeout.ms" in props:
            raise ConfigError("delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms")
        return least_ms

    def _compression_level(self) -> int | None:
        if self.compression in (CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD):
            return self.get_int(f"compression.{self.compression.text}.level")
        return None
