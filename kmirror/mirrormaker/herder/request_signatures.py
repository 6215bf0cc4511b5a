"""Signatures of what workers ask each other (KIP-507, Connect's `InternalRequestSignature`).

    X-Connect-Authorization                  a MAC of the body, in base64; of nothing if there is none
    X-Connect-Request-Signature-Algorithm    HmacSHA256

The key is the group's: its leader writes it to the topic of configs (`session_keys`). Names of algorithms
are Java's, which reads them in any case and gives them back as they were written.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kmirror.common.errors import KmirrorError

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
SIGNATURE_ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"
DIGESTS: Final[Mapping[str, str]] = {
    "HmacMD5": "md5",
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
    "HmacSHA512/224": "sha512_224",
    "HmacSHA512/256": "sha512_256",
    "HmacSHA3-224": "sha3_224",
    "HmacSHA3-256": "sha3_256",
    "HmacSHA3-384": "sha3_384",
    "HmacSHA3-512": "sha3_512",
}
_BY_SMALL_NAME: Final = {name.lower(): digest for name, digest in DIGESTS.items()}
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PADDING: Final = ord("=")

Sign = Callable[[bytes], Mapping[str, str]]
"""Gets a body, returns the headers to send with it."""


class UnreadableSignatureError(KmirrorError):
    """A request's headers say that it is signed, and cannot be read. The text is Java's."""


def digest_of(algorithm: str) -> str | None:
    """Returns the digest of a MAC, None for one that is not known."""
    return _BY_SMALL_NAME.get(algorithm.lower())


def canonical_name(algorithm: str) -> str:
    """Returns the name as keys have it, whatever case it was written in."""
    return next((name for name in DIGESTS if name.lower() == algorithm.lower()), algorithm)


def mac(algorithm: str, key: bytes, body: bytes) -> bytes:
    digest = digest_of(algorithm)
    assert digest is not None, algorithm
    return hmac.new(key, body, digest).digest()


def signature_headers(algorithm: str, key: bytes, body: bytes) -> dict[str, str]:
    return {SIGNATURE_HEADER: b64encode(mac(algorithm, key, body)).decode(), SIGNATURE_ALGORITHM_HEADER: algorithm}


@dataclass(frozen=True)
class RequestSignature:
    body: bytes
    algorithm: str
    signature: bytes

    def is_valid(self, key: bytes) -> bool:
        return hmac.compare_digest(mac(self.algorithm, key, self.body), self.signature)


def request_signature(body: bytes, headers: Mapping[str, str]) -> RequestSignature | None:
    """Returns the signature of a request, None if it has none. `headers` are by names in small letters.
    UnreadableSignatureError, in Java's words, for what cannot be one.
    """
    algorithm, encoded = headers.get(SIGNATURE_ALGORITHM_HEADER.lower()), headers.get(SIGNATURE_HEADER.lower())
    if algorithm is None or encoded is None:
        return None
    if digest_of(algorithm) is None:
        raise UnreadableSignatureError(f"Algorithm {algorithm} not available")
    return RequestSignature(body, algorithm, decoded_base64(encoded))


def decoded_base64(text: str) -> bytes:
    """UnreadableSignatureError, in Java's words. As in Java, the padding may be missing, but not wrong, and bits
    behind the last byte are of no concern.
    """
    data = text.encode("latin-1", "replace")
    if len(data) == 1:
        raise UnreadableSignatureError("Input byte[] should at least have 2 bytes for base64 bytes")
    end = next((place for place, byte in enumerate(data) if byte not in _ALPHABET), len(data))
    over = end % 4
    rest = data[end:]
    if rest:
        if rest[0] != _PADDING:
            signed = rest[0] - 256 if rest[0] > 127 else rest[0]
            raise UnreadableSignatureError(f"Illegal base64 character {signed:x}")
        if over == 0 or (over == 2 and rest[1:2] != b"="):
            raise UnreadableSignatureError("Input byte array has wrong 4-byte ending unit")
    if over == 1:
        raise UnreadableSignatureError("Last unit does not have enough valid bits")
    padding = 4 - over if rest else 0
    if len(rest) > padding:
        raise UnreadableSignatureError(f"Input byte array has incorrect ending byte at {end + padding}")
    number = 0
    for byte in data[:end]:
        number = number << 6 | _ALPHABET.index(byte)
    size = end * 6 // 8
    return (number >> (end * 6 - size * 8)).to_bytes(size)
