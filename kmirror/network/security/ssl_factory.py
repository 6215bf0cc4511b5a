"""TLS contexts from Kafka's `ssl.*` settings (Kafka's `SslFactory` and `DefaultSslEngineFactory`).

Keys are loaded from memory. Cipher suites have their IANA names and apply to TLS 1.2; TLS 1.3 uses
OpenSSL's own. Clients check the server's certificate, and also its host name unless
`ssl.endpoint.identification.algorithm` is empty. `ssl.client.auth` decides whether servers ask for
a client certificate. Renegotiation is off.

A server sends the certificates of its key store, as Kafka does (`leaf_context`). To a client's
certificate that comes alone OpenSSL adds those of the trust store that signed it.
"""

from __future__ import annotations

import re
import ssl
from typing import Final, TypeVar

from kmirror.common.errors import ConfigError
from kmirror.common.ports import FileSystem
from kmirror.network.security.key_stores import SslProps, load_key_store, load_trust_store
from kmirror.network.security.leaf_context import LeafContext
from kmirror.runtime.memory_files import memory_file

Context = TypeVar("Context", bound=ssl.SSLContext)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
MIN_RSA_BITS: Final = 2048
WEAK_DIGESTS: Final = ("md5", "sha1")
_DEFAULT_PROTOCOLS = "TLSv1.2,TLSv1.3"


def server_context(props: SslProps, files: FileSystem, *, client_auth: str) -> ssl.SSLContext:
    """A server's context, a LeafContext if it asks for certificates of clients.

    ConfigError without a key store, or if a store cannot be read.
    """
    if client_auth.lower() not in _CLIENT_AUTH:
        raise ConfigError(
            f"Invalid value {client_auth} for configuration ssl.client.auth: String must be one of: required, requested, none"
        )
    verify_mode = _CLIENT_AUTH[client_auth.lower()]
    verifying = _with_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), props, files)
    verifying.verify_mode = verify_mode
    if verify_mode == ssl.CERT_NONE:
        return verifying
    _load_trust(verifying, props, files)
    context = _with_key(LeafContext(ssl.PROTOCOL_TLS_SERVER), props, files)
    context.verify_mode, context.verifying = verify_mode, verifying
    return context


def _with_key(context: Context, props: SslProps, files: FileSystem) -> Context:
    _apply_common(context, props)
    if not _load_key(context, props, files):
        raise ConfigError("An SSL listener needs a key store: set ssl.keystore.location, or ssl.keystore.key with ssl.keystore.type=PEM")
    return context


def client_context(props: SslProps, files: FileSystem) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _apply_common(context, props)
    _load_key(context, props, files)
    _load_trust(context, props, files)
    algorithm = props.get("ssl.endpoint.identification.algorithm")
    context.check_hostname = algorithm is None or algorithm.lower() == "https"
    return context


def _apply_common(context: ssl.SSLContext, props: SslProps) -> None:
    names = [name.strip() for name in (props.get("ssl.enabled.protocols") or _DEFAULT_PROTOCOLS).split(",") if name.strip()]
    versions = [_VERSIONS[name] for name in names if name in _VERSIONS]
    if not versions:
        raise ConfigError(f"Invalid value {','.join(names)} for configuration ssl.enabled.protocols: TLSv1.2 and TLSv1.3 are supported")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    suites = [name.strip() for name in (props.get("ssl.cipher.suites") or "").split(",") if name.strip()]
    tls12 = [openssl_cipher_name(name) for name in suites if "_WITH_" in name]
    if tls12:
        try:
            context.set_ciphers(":".join(tls12))
        except ssl.SSLError as error:
            raise ConfigError(f"Unsupported cipher suite in ssl.cipher.suites: {', '.join(suites)}") from error


def openssl_cipher_name(iana: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 -> ECDHE-RSA-AES256-GCM-SHA384."""
    exchange, _, cipher = iana.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"^(AES|CAMELLIA|ARIA)_(\d+)_", r"\1\2_", cipher).replace("_CBC_", "_").replace("POLY1305_SHA256", "POLY1305")
    prefix = "" if exchange == "RSA" else f"{exchange}_"
    return f"{prefix}{cipher}".replace("_", "-")


def _load_key(context: ssl.SSLContext, props: SslProps, files: FileSystem) -> bool:
    material = load_key_store(props, files)
    if material is None:
        return False
    try:
        with memory_file(material.certificate_chain + material.private_key) as path:
            context.load_cert_chain(path, password=material.key_password or "")
    except ssl.SSLError as error:
        why = _weakness(material.certificate_chain) or error.reason or error
        raise ConfigError(f"Failed to load the SSL private key and its certificate chain: {why}") from error
    return True


def _weakness(chain: bytes) -> str | None:
    """What OpenSSL holds against a certificate of a chain, which certificate, and what helps.

    Java's brokers start with such a chain; their clients may refuse it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    for certificate in x509.load_pem_x509_certificates(chain):
        name, key = certificate.subject.rfc4514_string(), certificate.public_key()
        if isinstance(key, RSAPublicKey) and key.key_size < MIN_RSA_BITS:
            return (
                f"the certificate {name} has an RSA key of {key.key_size} bits, which OpenSSL refuses here. "
                f"Make a key of {MIN_RSA_BITS} bits or more"
            )
        digest = certificate.signature_hash_algorithm
        if digest is not None and digest.name in WEAK_DIGESTS and certificate.issuer != certificate.subject:
            return (
                f"the certificate {name} is signed with {digest.name.upper()}, which OpenSSL refuses here. "
                f"Have it signed anew with SHA256 by {certificate.issuer.rfc4514_string()}"
            )
    return None


def _load_trust(context: ssl.SSLContext, props: SslProps, files: FileSystem) -> None:
    trusted = load_trust_store(props, files)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH if context.protocol == ssl.PROTOCOL_TLS_SERVER else ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise ConfigError(f"Failed to load the trusted SSL certificates: {error.reason or error}") from error
