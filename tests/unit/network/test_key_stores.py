"""Key stores, trust stores and contexts: the types, and the settings that do not go together in
Kafka's words.
"""

from __future__ import annotations

import datetime
import hashlib
import ssl
import struct
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from kmirror.common.errors import ConfigError
from kmirror.embedded_security import Security
from kmirror.network.security import ssl_factory
from kmirror.network.security.key_stores import load_key_store, load_trust_store
from kmirror.network.security.leaf_context import LeafContext
from kmirror.network.security.ssl_factory import client_context, server_context
from kmirror.runtime.os_files import OsFileSystem

FILES = OsFileSystem()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stores")
    Security.ssl(users=["alice"]).prepare(made)
    return made


def der(pem: bytes, label: bytes) -> bytes:
    body = pem.partition(b"-----BEGIN " + label + b"-----")[2].partition(b"-----END")[0]
    import base64

    return base64.b64decode(body)


def jks(entries: bytes, count: int, password: str) -> bytes:
    body = struct.pack(">III", 0xFEEDFEED, 2, count) + entries
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def certificate_entry(certificate: bytes) -> bytes:
    return text("X.509") + struct.pack(">I", len(certificate)) + certificate


def der_wrap(tag: int, data: bytes) -> bytes:
    length = bytes([len(data)]) if len(data) < 128 else b"\x82" + struct.pack(">H", len(data))
    return bytes([tag]) + length + data


def protected(key: bytes, password: str) -> bytes:
    """Sun's key protection, as Java writes it."""
    secret, digest = password.encode("utf-16-be"), b"s" * 20
    masked = bytearray()
    salt = digest
    for position in range(0, len(key), 20):
        digest = hashlib.sha1(secret + digest).digest()
        masked += bytes(a ^ b for a, b in zip(key[position : position + 20], digest))
    inner = salt + bytes(masked) + hashlib.sha1(secret + key).digest()
    return der_wrap(0x30, der_wrap(0x30, b"") + der_wrap(0x04, inner))


def private_jks(folder: Path, password: str) -> bytes:
    pem = (folder / "alice.pem").read_bytes()
    key = protected(der(pem, b"PRIVATE KEY"), password)
    entry = struct.pack(">I", 1) + text("alice") + bytes(8) + struct.pack(">I", len(key)) + key + struct.pack(">I", 1)
    return jks(entry + certificate_entry(der(pem, b"CERTIFICATE")), 1, password)


def test_a_java_key_store_can_be_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "store.jks").write_bytes(private_jks(folder, "store-secret"))
    authority = der((folder / "ca.pem").read_bytes(), b"CERTIFICATE")
    trusted = struct.pack(">I", 2) + text("ca") + bytes(8) + certificate_entry(authority)
    (tmp_path / "trust.jks").write_bytes(jks(trusted, 1, "trust-secret"))
    props = {
        "ssl.keystore.location": str(tmp_path / "store.jks"),
        "ssl.keystore.password": "store-secret",
        "ssl.truststore.location": str(tmp_path / "trust.jks"),
        "ssl.truststore.password": "trust-secret",
    }
    context = server_context(props, FILES, client_auth="required")
    assert isinstance(context, LeafContext) and context.cert_store_stats()["x509_ca"] == 0
    assert context.verify_mode is context.verifying.verify_mode is ssl.CERT_REQUIRED
    assert context.verifying.cert_store_stats()["x509_ca"] == 1
    for wrong, reason in (({"ssl.keystore.password": "x"}, "password was incorrect"), ({"ssl.key.password": "x"}, "Cannot recover key")):
        with pytest.raises(ConfigError, match=reason):
            server_context(props | wrong, FILES, client_auth="none")


@pytest.mark.parametrize("cut", [8, 30, 60])
def test_a_java_key_store_that_breaks_off(folder: Path, tmp_path: Path, cut: int) -> None:
    (tmp_path / "cut.jks").write_bytes(private_jks(folder, "secret")[:cut])
    props: dict[str, str | None] = {"ssl.truststore.location": str(tmp_path / "cut.jks")}
    with pytest.raises(ConfigError, match="Failed to load SSL keystore .* of type JKS"):
        load_trust_store(props, FILES)


def test_a_path_that_no_file_can_have() -> None:
    with pytest.raises(ConfigError, match="Failed to load SSL truststore .*: embedded null byte"):
        load_trust_store({"ssl.truststore.location": "a\0b"}, FILES)


def test_pkcs12_stores_can_be_read(folder: Path, tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    pem = (folder / "alice.pem").read_bytes()
    key, certificate = serialization.load_pem_private_key(pem, None), x509.load_pem_x509_certificate(pem)
    authority = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    protection = serialization.BestAvailableEncryption(b"secret")
    (tmp_path / "a.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"a", key, certificate, [authority], protection))
    props: dict[str, str | None] = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(tmp_path / "a.p12"),
        "ssl.keystore.password": "secret",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(tmp_path / "a.p12"),
        "ssl.truststore.password": "secret",
    }
    assert server_context(props, FILES, client_auth="requested").verify_mode is ssl.CERT_OPTIONAL
    with pytest.raises(ConfigError, match="of type PKCS12"):
        load_key_store(props | {"ssl.keystore.password": "wrong"}, FILES)


def test_inline_pem_and_an_encrypted_key(folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    pem = (folder / "alice.pem").read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    protection = serialization.BestAvailableEncryption(b"key-secret")
    encrypted = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection).decode()
    chain = pem[pem.index(b"-----BEGIN CERTIFICATE") :].decode()
    props: dict[str, str | None] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": encrypted,
        "ssl.keystore.certificate.chain": chain,
        "ssl.key.password": "key-secret",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": (folder / "ca.pem").read_text(),
    }
    assert server_context(props, FILES, client_auth="none").verify_mode is ssl.CERT_NONE
    assert client_context(props, FILES).check_hostname
    with pytest.raises(ConfigError, match="Failed to load the SSL private key"):
        server_context(props | {"ssl.key.password": "wrong"}, FILES, client_auth="none")


P = "ssl.keystore."
T = "ssl.truststore."


@pytest.mark.parametrize(
    ("props", "reason"),
    [
        ({P + "key": "k"}, "SSL private key can be specified only for PEM, but key store type is JKS."),
        ({P + "type": "PEM", P + "key": "k"}, "SSL private key is specified, but certificate chain is not specified."),
        (
            {P + "type": "PEM", P + "key": "k", P + "certificate.chain": "c", P + "location": "x"},
            "Both SSL key store location and separate private key are specified.",
        ),
        (
            {P + "type": "PEM", P + "key": "k", P + "certificate.chain": "c", P + "password": "x"},
            "SSL key store password cannot be specified with PEM format, only key password may be specified.",
        ),
        ({P + "certificate.chain": "c"}, "SSL certificate chain is specified, but private key is not specified"),
        ({P + "password": "x"}, "SSL key store is not specified, but key store password is specified."),
        ({P + "location": "/dev/null"}, "SSL key store is specified, but key store password is not specified."),
        ({P + "location": "/nowhere/x"}, "Failed to load SSL keystore /nowhere/x: No such file or directory"),
        ({P + "type": "BCFKS"}, "Invalid value BCFKS for configuration ssl.keystore.type"),
        ({P + "type": "PEM", P + "location": "/dev/null"}, "Failed to load SSL keystore /dev/null: no PEM entries of certificates found"),
        ({}, "An SSL listener needs a key store"),
    ],
)
def test_key_store_settings_that_do_not_go_together(props: dict[str, str | None], reason: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        server_context(props, FILES, client_auth="none")
    assert str(refusal.value).startswith(reason)


@pytest.mark.parametrize(
    ("props", "reason"),
    [
        ({T + "certificates": "x"}, "SSL trust store certs can be specified only for PEM, but trust store type is JKS."),
        (
            {T + "type": "PEM", T + "certificates": "x", T + "location": "y"},
            "Both SSL trust store location and separate trust certificates are specified.",
        ),
        ({T + "type": "PEM", T + "certificates": "x", T + "password": "y"}, "SSL trust store password cannot be specified for PEM format."),
        (
            {T + "type": "PEM", T + "location": "/dev/null", T + "password": "y"},
            "SSL trust store password cannot be specified for PEM format.",
        ),
        (
            {T + "type": "PEM", T + "certificates": "x"},
            "Failed to load SSL truststore ssl.truststore.certificates: no trusted certificates found",
        ),
        ({T + "password": "y"}, "SSL trust store is not specified, but trust store password is specified."),
        ({"ssl.enabled.protocols": "SSLv3"}, "Invalid value SSLv3 for configuration ssl.enabled.protocols"),
        ({"ssl.cipher.suites": "TLS_NO_WITH_SUCH"}, "Unsupported cipher suite in ssl.cipher.suites"),
    ],
)
def test_trust_settings_that_do_not_go_together(props: dict[str, str | None], reason: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        client_context(props, FILES)
    assert str(refusal.value).startswith(reason)


def weak_store(folder: Path, *, bits: int) -> dict[str, str]:
    """A PEM store whose leaf has a key of `bits`."""
    authority, leaf = (rsa.generate_private_key(public_exponent=65537, key_size=size) for size in (2048, bits))
    now = datetime.datetime(2026, 1, 1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old-broker")]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old-ca")]))
        .public_key(leaf.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=3650))
    )
    certificate = builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    key = leaf.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "weak.pem"
    path.write_bytes(key + certificate)
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}


def test_a_short_key_was_refused_without_the_certificate_and_the_remedy(tmp_path: Path) -> None:
    store = weak_store(tmp_path, bits=1024)
    strict = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    strict.set_ciphers("DEFAULT:@SECLEVEL=2")
    with pytest.raises(ConfigError) as caught:
        ssl_factory._load_key(strict, store, FILES)
    assert "CN=old-broker has an RSA key of 1024 bits" in str(caught.value)
    assert "Make a key of 2048 bits or more" in str(caught.value)


def test_a_sha1_chain_was_refused_without_the_certificate_and_the_remedy() -> None:
    text = ssl_factory._weakness(SIGNED_WITH_SHA1)
    assert text is not None
    assert "CN=old-broker is signed with SHA1" in text
    assert "Have it signed anew with SHA256 by CN=old-ca" in text


SIGNED_WITH_SHA1 = b"""\
-----BEGIN CERTIFICATE-----
MIICrzCCAZcCFGL4osjbQyEuyhQ2IHy9S6cz9FDIMA0GCSqGSIb3DQEBBQUAMBEx
DzANBgNVBAMMBm9sZC1jYTAgFw0yNjExMjgyMzM5NTFaGA8yMTI2MTEwNDIzMzk1
MVowFTETMBEGA1UEAwwKb2xkLWJyb2tlcjCCASIwDQYJKoZIhvcNAQEBBQADggEP
ADCCAQoCggEBANa6Jnkiebju0G1nZ5CYzbpyumcYA/UGiaCpBySLnlu3dFyLbUDD
CH7Q2NzQQpRFWo9WZm18v99SJ4EFlG5P9S1wusFHl2q48DBlMsZDsKD7GiwFjJtg
H7Dyc6g0Ep9nv4lsF8Hb+54Txq3BDGmSMW507h02hc2ZIpxhJJ9QXV5RHNXHntbW
RkINu9RSxi1O399JJPWgm8LmQWA+fMdVO316HY6kT6ALX9nulH5d/AjeH54dzWG2
WaK6X7Rs+ldbWP80wKe+WiG3tMAvo8sXJOeLaQrvlKGKSSaNwxEm4rSC6cf8eW9n
ts0kom8BGHWMnRT6E2MteNBO6MScWPOkxRUCAwEAATANBgkqhkiG9w0BAQUFAAOC
AQEANvhu/jAKanSTaojppG8O3VidstQitCdZvMN6TTt6f5afYv416ycA2Kuhv73r
y8kqgphYNo1K9KHMOlVHUqF5jEYq1LhpXIXbq3rqhmEG7ql8gGFZZlfzHlleRzxv
ygVjJ9+OnfYJD/YME8by2If8HCTF5GArFkJqVHNnE9ien8459qV0+Heoy5pDBgLq
+skmpaPmZVN79opDaM4g/u+T36MGRZts8W295HMPu/MyA+SZMjLvv+z2fbEqmDT5
bx2MYlBAPii4ojF6a8+WR5HYT0nNCemktIjzb64oWuWvON6l1AoOIY36IAuadsjy
gB63U9yJd4BThIpAu9KZ/Qrx2Q==
-----END CERTIFICATE-----
"""
"""Made by the program openssl, since the library `cryptography` does not sign with SHA-1."""
