"""Files of Java's own key store format, JKS.

    magic FEEDFEED · version · count · entries · SHA-1(password as UTF-16, "Mighty Aphrodite", all bytes before)
    entry   tag 1 (private key): alias · time · length · EncryptedPrivateKeyInfo · chain length · (type · length · certificate) ...
            tag 2 (trusted):     alias · time · type · length · certificate

A private key is masked with a keystream: SHA-1 over the password and the previous digest, starting
with the salt. SHA-1(password, key) follows it. The first private key in the file is used. Newer
Javas write PKCS12 under this type; see `key_stores`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import textwrap
from typing import Final, NamedTuple

from kmirror.common.errors import KmirrorError

MAGIC: Final = b"\xfe\xed\xfe\xed"
_WHITENER: Final = b"Mighty Aphrodite"
_SHA1_BYTES: Final = 20
_PRIVATE_KEY_TAG, _TRUSTED_TAG = 1, 2


class JavaKeyStoreError(KmirrorError):
    """The file is malformed, or the password is wrong."""


class JavaKeyStore(NamedTuple):
    """DER: the first private key (PKCS 8) with its chain, and the trusted certificates."""

    private_key: bytes | None
    chain: list[bytes]
    trusted: list[bytes]


def to_pem(der: bytes, label: str) -> bytes:
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()


def read_java_key_store(data: bytes, password: str | None, key_password: str | None) -> JavaKeyStore:
    """Reads a JKS file. Without `password` the file's digest is not checked, as in Java."""
    body, digest = data[:-_SHA1_BYTES], data[-_SHA1_BYTES:]
    if password is not None:
        expected = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise JavaKeyStoreError("Keystore was tampered with, or password was incorrect")
    try:
        return _read_entries(_Reader(body), key_password)
    except (struct.error, UnicodeDecodeError) as error:
        raise JavaKeyStoreError(f"the file ends inside an entry: {error}") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 4

    def number(self, form: str) -> int:
        value: int = struct.unpack_from(form, self._data, self._position)[0]
        self._position += struct.calcsize(form)
        return value

    def take(self, size: int) -> bytes:
        data = self._data[self._position : self._position + size]
        if len(data) != size:
            raise JavaKeyStoreError("the file ends inside an entry")
        self._position += size
        return data

    def text(self) -> str:
        return self.take(self.number(">H")).decode()

    def certificate(self, version: int) -> bytes:
        if version >= 2:
            self.text()
        return self.take(self.number(">I"))


def _read_entries(reader: _Reader, key_password: str | None) -> JavaKeyStore:
    version, count = reader.number(">I"), reader.number(">I")
    if version not in (1, 2):
        raise JavaKeyStoreError(f"version {version} of the format is unknown")
    private_key: bytes | None = None
    chain: list[bytes] = []
    trusted: list[bytes] = []
    for _ in range(count):
        tag = reader.number(">I")
        reader.text()
        reader.number(">Q")
        if tag == _TRUSTED_TAG:
            trusted.append(reader.certificate(version))
        elif tag == _PRIVATE_KEY_TAG:
            protected = reader.take(reader.number(">I"))
            certificates = [reader.certificate(version) for _ in range(reader.number(">I"))]
            if private_key is None and key_password is not None:
                private_key, chain = _recover_key(protected, key_password), certificates
        else:
            raise JavaKeyStoreError(f"an entry has the unknown tag {tag}")
    return JavaKeyStore(private_key, chain, trusted)


def _recover_key(protected: bytes, password: str) -> bytes:
    """Removes Sun's key protection: salt, masked key, check."""
    inner = _octet_string(protected)
    salt, masked, check = inner[:_SHA1_BYTES], inner[_SHA1_BYTES:-_SHA1_BYTES], inner[-_SHA1_BYTES:]
    secret = password.encode("utf-16-be")
    key = bytearray()
    digest = salt
    for position in range(0, len(masked), _SHA1_BYTES):
        digest = hashlib.sha1(secret + digest).digest()
        key += bytes(a ^ b for a, b in zip(masked[position : position + _SHA1_BYTES], digest))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise JavaKeyStoreError("Cannot recover key")
    return bytes(key)


def _octet_string(der: bytes) -> bytes:
    """The encrypted data of an EncryptedPrivateKeyInfo: SEQUENCE { algorithm, OCTET STRING }."""
    _, start, _ = der_element(der, 0)
    _, _, end = der_element(der, start)
    _, start, end = der_element(der, end)
    return der[start:end]


def der_element(der: bytes, position: int) -> tuple[int, int, int]:
    """(tag, start, end) of the contents of the DER element at `position`."""
    try:
        tag, length = der[position], der[position + 1]
    except IndexError as error:
        raise JavaKeyStoreError("DER data ends too early") from error
    start = position + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    if start + length > len(der):
        raise JavaKeyStoreError("DER data ends too early")
    return tag, start, start + length
