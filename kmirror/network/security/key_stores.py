"""Key stores and trust stores of the types PEM, PKCS12 and JKS (Kafka's `DefaultSslEngineFactory`),
as PEM in memory.

PEM: a file with the certificate chain and the private key, or both inline in
`ssl.keystore.certificate.chain` and `ssl.keystore.key`. Trusted certificates come from a file, or
inline in `ssl.truststore.certificates`. Type JKS also reads a PKCS12 file, as Java does. PKCS12
needs the package `cryptography` (`kmirror[security]`), which is imported only then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kmirror.common.errors import ConfigError
from kmirror.common.ports import FileSystem
from kmirror.network.security.java_key_store import MAGIC as JKS_MAGIC
from kmirror.network.security.java_key_store import JavaKeyStoreError, read_java_key_store, to_pem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import pkcs12

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_NO_PASSWORD_WITH_PEM: Final = "SSL key store password cannot be specified with PEM format, only key password may be specified."

SslProps = Mapping[str, str | None]
"""Settings by their names, without a listener's prefix (`ssl.keystore.location`)."""


class KeyMaterial(NamedTuple):
    """A private key and its certificate chain, leaf first, as PEM, with the key's password if it is
    encrypted.
    """

    certificate_chain: bytes
    private_key: bytes
    key_password: str | None


def load_key_store(props: SslProps, files: FileSystem) -> KeyMaterial | None:
    """Reads the key store; None if none is set.

    ConfigError with Kafka's text for settings that contradict each other.
    """
    kind = _store_type(props, "ssl.keystore.type")
    location, password = props.get("ssl.keystore.location"), props.get("ssl.keystore.password")
    key, chain = props.get("ssl.keystore.key"), props.get("ssl.keystore.certificate.chain")
    key_password = props.get("ssl.key.password")
    if key is not None:
        _check_inline_key(kind, chain, location, password)
        return _pem_key_material((chain or "").encode(), key.encode(), key_password, "ssl.keystore.key")
    if chain is not None:
        raise ConfigError("SSL certificate chain is specified, but private key is not specified")
    if location is None:
        if password is not None:
            raise ConfigError("SSL key store is not specified, but key store password is specified.")
        return None
    data = _read(files, location, "keystore")
    if kind == PEM:
        if password is not None:
            raise ConfigError(_NO_PASSWORD_WITH_PEM)
        return _pem_key_material(data, data, key_password, location)
    if password is None:
        raise ConfigError("SSL key store is specified, but key store password is not specified.")
    if data[:4] == JKS_MAGIC:
        return _jks_key_material(data, password, key_password, location)
    return _pkcs12_key_material(data, password, location)


def load_trust_store(props: SslProps, files: FileSystem) -> str | None:
    """Trusted certificates as PEM; None if no trust store is set."""
    kind = _store_type(props, "ssl.truststore.type")
    location, password = props.get("ssl.truststore.location"), props.get("ssl.truststore.password")
    inline = props.get("ssl.truststore.certificates")
    if inline is not None:
        if kind != PEM:
            raise ConfigError(f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.")
        if location is not None:
            raise ConfigError("Both SSL trust store location and separate trust certificates are specified.")
        if password is not None:
            raise ConfigError("SSL trust store password cannot be specified for PEM format.")
        return _trusted(_CERTIFICATE.findall(inline.encode()), "ssl.truststore.certificates")
    if location is None:
        if password is not None:
            raise ConfigError("SSL trust store is not specified, but trust store password is specified.")
        return None
    data = _read(files, location, "truststore")
    if kind == PEM:
        if password is not None:
            raise ConfigError("SSL trust store password cannot be specified for PEM format.")
        return _trusted(_CERTIFICATE.findall(data), location)
    if data[:4] == JKS_MAGIC:
        return _trusted(_jks(data, password, None, location).certificates, location)
    store = _pkcs12(data, password, location)
    certificates = [entry.certificate for entry in (store.cert, *store.additional_certs) if entry is not None]
    return _trusted([_pem_of(certificate) for certificate in certificates], location)


def _store_type(props: SslProps, name: str) -> str:
    kind = (props.get(name) or JKS).upper()
    if kind not in (PEM, PKCS12, JKS):
        raise ConfigError(f"Invalid value {props.get(name)} for configuration {name}: kmirror reads key stores of type PEM, PKCS12 and JKS")
    return kind


def _check_inline_key(kind: str, chain: str | None, location: str | None, password: str | None) -> None:
    if kind != PEM:
        raise ConfigError(f"SSL private key can be specified only for PEM, but key store type is {kind}.")
    if chain is None:
        raise ConfigError("SSL private key is specified, but certificate chain is not specified.")
    if location is not None:
        raise ConfigError("Both SSL key store location and separate private key are specified.")
    if password is not None:
        raise ConfigError(_NO_PASSWORD_WITH_PEM)


def _read(files: FileSystem, location: str, what: str) -> bytes:
    try:
        return files.read_bytes(location)
    except OSError as error:
        raise ConfigError(f"Failed to load SSL {what} {location}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise ConfigError(f"Failed to load SSL {what} {location!r}: {error}") from error


def _pem_key_material(chain: bytes, key: bytes, key_password: str | None, source: str) -> KeyMaterial:
    certificates, keys = _CERTIFICATE.findall(chain), _PRIVATE_KEY.findall(key)
    if not certificates:
        raise ConfigError(f"Failed to load SSL keystore {source}: no PEM entries of certificates found")
    if not keys:
        raise ConfigError(f"Failed to load SSL keystore {source}: no PEM entry of a private key found")
    return KeyMaterial(b"\n".join(certificates) + b"\n", keys[0] + b"\n", key_password)


def _trusted(certificates: list[bytes], source: str) -> str:
    if not certificates:
        raise ConfigError(f"Failed to load SSL truststore {source}: no trusted certificates found")
    return b"\n".join(certificates).decode() + "\n"


class _JksContents(NamedTuple):
    """What a JKS file holds, as PEM."""

    private_key: bytes | None
    chain: list[bytes]
    certificates: list[bytes]


def _jks(data: bytes, password: str | None, key_password: str | None, location: str) -> _JksContents:
    try:
        store = read_java_key_store(data, password, key_password or password)
    except JavaKeyStoreError as error:
        raise ConfigError(f"Failed to load SSL keystore {location} of type JKS: {error}") from error
    chain = [to_pem(certificate, "CERTIFICATE") for certificate in store.chain]
    trusted = [to_pem(certificate, "CERTIFICATE") for certificate in store.trusted]
    return _JksContents(None if store.private_key is None else to_pem(store.private_key, "PRIVATE KEY"), chain, trusted)


def _jks_key_material(data: bytes, password: str, key_password: str | None, location: str) -> KeyMaterial:
    store = _jks(data, password, key_password, location)
    if store.private_key is None:
        raise ConfigError(f"Failed to load SSL keystore {location} of type JKS: it holds no private key")
    return KeyMaterial(b"".join(store.chain), store.private_key, None)


def _pkcs12(data: bytes, password: str | None, location: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise ConfigError(f"Reading {location} of type PKCS12 needs the package cryptography: pip install 'kmirror[security]'") from error
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(f"Failed to load SSL keystore {location} of type PKCS12: {error}") from error


def _pkcs12_key_material(data: bytes, password: str, location: str) -> KeyMaterial:
    store = _pkcs12(data, password, location)
    if store.key is None or store.cert is None:
        raise ConfigError(f"Failed to load SSL keystore {location} of type PKCS12: it holds no private key with its certificate")
    from cryptography.hazmat.primitives import serialization

    key = store.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = [store.cert.certificate, *(entry.certificate for entry in store.additional_certs)]
    return KeyMaterial(b"".join(_pem_of(certificate) for certificate in chain), key, None)


def _pem_of(certificate: object) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    assert isinstance(certificate, x509.Certificate), f"a store held {type(certificate).__name__}"
    return certificate.public_bytes(Encoding.PEM)
