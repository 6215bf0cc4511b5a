"""The key that workers of a group sign their requests with, under the protocol "sessioned" (KIP-507).

    inter.worker.key.generation.algorithm    HmacSHA256
    inter.worker.key.size                    in bits; that of the algorithm unless it is set
    inter.worker.key.ttl.ms                  one hour; 0 keeps a key for ever
    inter.worker.signature.algorithm         HmacSHA256
    inter.worker.verification.algorithms     HmacSHA256; what other workers may sign with

The leader writes a key when there is none, when the last one is too old, or when its algorithm or size is
not what the leader is configured with. Everybody reads it in the topic of configs. A request that was
signed with the key before is refused, and comes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.config import ConfigDef, ConfigType, between, invalid_value
from kmirror.common.errors import ConfigError
from kmirror.common.ports import Random
from kmirror.mirrormaker.herder.herder import BAD_REQUEST, HerderError
from kmirror.mirrormaker.herder.request_signatures import DIGESTS, RequestSignature, canonical_name, digest_of, signature_headers

FORBIDDEN: Final = 403
SERVICE_UNAVAILABLE: Final = 503
GENERATION_ALGORITHM_CONFIG: Final = "inter.worker.key.generation.algorithm"
KEY_SIZE_CONFIG: Final = "inter.worker.key.size"
TTL_CONFIG: Final = "inter.worker.key.ttl.ms"
SIGNATURE_ALGORITHM_CONFIG: Final = "inter.worker.signature.algorithm"
VERIFICATION_ALGORITHMS_CONFIG: Final = "inter.worker.verification.algorithms"
DEFAULT_ALGORITHM: Final = "HmacSHA256"
KEY_BYTES: Final[Mapping[str, int]] = {"md5": 64, "sha1": 64}
"""Of Java's generators; others make keys as long as their digest."""
LEAST_KEY_BITS: Final = 40


class SessionKey(NamedTuple):
    key: bytes
    algorithm: str
    created_ms: int


def _is_known(name: str, value: str) -> None:
    if digest_of(value) is None:
        raise invalid_value(
            name, value, f"the algorithm is not supported by kmirror; the supported algorithms are: [{', '.join(sorted(DIGESTS))}]"
        )


def _are_known(name: str, values: list[str]) -> None:
    if not values:
        raise invalid_value(name, "[]", "At least one signature verification algorithm must be provided")
    for value in values:
        _is_known(name, value)


def _definition() -> ConfigDef:
    definition = ConfigDef()
    define = definition.define
    define(TTL_CONFIG, ConfigType.INT, 3_600_000, validator=between(0, 2**31 - 1))
    define(GENERATION_ALGORITHM_CONFIG, ConfigType.STRING, DEFAULT_ALGORITHM, validator=_is_known)
    define(KEY_SIZE_CONFIG, ConfigType.INT, None)
    define(SIGNATURE_ALGORITHM_CONFIG, ConfigType.STRING, DEFAULT_ALGORITHM, validator=_is_known)
    define(VERIFICATION_ALGORITHMS_CONFIG, ConfigType.LIST, DEFAULT_ALGORITHM, validator=_are_known)
    return definition


class SessionConfig(AbstractConfig):
    """ConfigError, in Kafka's words, for what is wrong."""

    def __init__(self, props: Mapping[str, str]) -> None:
        super().__init__(_definition(), {name: value for name, value in props.items() if name.startswith("inter.worker.")})
        self.ttl_ms = self.get_int(TTL_CONFIG)
        self.key_algorithm = canonical_name(self.get_string(GENERATION_ALGORITHM_CONFIG) or "")
        self.signature_algorithm = self.get_string(SIGNATURE_ALGORITHM_CONFIG) or ""
        self.verification_algorithms = self.get_list(VERIFICATION_ALGORITHMS_CONFIG)
        self.key_bytes = self._key_bytes()
        if self.signature_algorithm not in self.verification_algorithms:
            raise invalid_value(
                SIGNATURE_ALGORITHM_CONFIG,
                self.signature_algorithm,
                f"Signature algorithm must be present in {VERIFICATION_ALGORITHMS_CONFIG} list",
            )

    def _key_bytes(self) -> int:
        bits, digest = self.get_optional_int(KEY_SIZE_CONFIG), digest_of(self.key_algorithm) or ""
        if bits is None:
            size = digest.rpartition("_")[2].removeprefix("sha")
            return KEY_BYTES.get(digest) or int(size) // 8
        if bits < LEAST_KEY_BITS and digest not in KEY_BYTES:
            raise ConfigError(
                f"Unable to create key generator with algorithm {self.key_algorithm} and key size {bits}: "
                f"Key length must be at least {LEAST_KEY_BITS} bits"
            )
        return (bits + 7) // 8

    def is_due(self, key: SessionKey | None, now_ms: int) -> bool:
        """Whether the leader must write another key."""
        if key is None or (self.ttl_ms > 0 and key.created_ms + self.ttl_ms <= now_ms):
            return True
        return key.algorithm != self.key_algorithm or len(key.key) != self.key_bytes

    def new_key(self, random: Random, now_ms: int) -> SessionKey:
        return SessionKey(random.token_bytes(self.key_bytes), self.key_algorithm, now_ms)

    def headers(self, key: SessionKey | None, body: bytes) -> dict[str, str]:
        """Returns the signature of a request; none without a key."""
        return {} if key is None else signature_headers(self.signature_algorithm, key.key, body)

    def require_signed(self, signature: RequestSignature | None, key: SessionKey | None) -> None:
        """HerderError, in Connect's words, for a request that no worker of the group has made."""
        if signature is None:
            raise HerderError(BAD_REQUEST, "Internal request missing required signature")
        if signature.algorithm not in self.verification_algorithms:
            raise HerderError(
                BAD_REQUEST,
                f"This worker does not support the '{signature.algorithm}' key signing algorithm used by other workers. "
                f"This worker is currently configured to use: [{', '.join(self.verification_algorithms)}]. "
                "Check that all workers' configuration files permit the same set of signature algorithms, "
                "and correct any misconfigured worker and restart it.",
            )
        if key is None:
            raise HerderError(
                SERVICE_UNAVAILABLE,
                "This worker is still starting up and has not been able to read a session key from the config topic yet",
            )
        if not signature.is_valid(key.key):
            raise HerderError(FORBIDDEN, "Internal request contained invalid signature.")
