"""`Security`: how an `EmbeddedCluster` is secured, and what its clients need to connect.

    Security.sasl_plaintext(users={"alice": "alice-secret"}, mechanism="SCRAM-SHA-256")
    Security.ssl(client_auth="required", users=["alice"])
    Security.sasl_ssl(users={"alice": "alice-secret"}, mechanism="PLAIN")

Every listener of the cluster is secured in this way, including those that brokers and controller
use among themselves. There they log in as `User:broker`, which is a super user if the cluster has
an authorizer. For TLS a throw-away certificate authority is created in the cluster's folder, with a
certificate for the brokers (localhost, 127.0.0.1) and one for every user, `CN=<user>`; this needs
the package `cryptography` (`kmirror[security]`). In every mode the principal is `User:<user>`.

`cluster.client_properties("alice")` gives librdkafka's properties,
`cluster.client_properties("alice", style="java")` those of Kafka's own clients and tools (and of
kmirror's).
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from kmirror.common.errors import KmirrorError
from kmirror.network.security.scram_mechanism import ScramMechanism

BROKER_USER: Final = "broker"
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")
HOSTS: Final = ("localhost", "127.0.0.1")
_PRINCIPAL_RULES: Final = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
_VALIDITY: Final = datetime.timedelta(days=2)
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
ClientAuth = Literal["none", "requested", "required"]
Style = Literal["librdkafka", "java"]


@dataclass(frozen=True, slots=True)
class Security:
    """How the listeners are secured; there is one SASL mechanism for all.

        EmbeddedCluster(security=Security.sasl_ssl({"alice": "alice-secret"}))

    `users` maps users to passwords (OAUTHBEARER and SSL do not use the passwords).
    """

    protocol: str
    users: Mapping[str, str] = field(default_factory=dict)
    mechanism: str = ""
    client_auth: ClientAuth = "none"
    _broker_password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    def __repr__(self) -> str:
        """Names the users, never their passwords."""
        words = [self.protocol, self.mechanism, f"for {', '.join(self.users)}" if self.users else ""]
        return f"<Security {' '.join(filter(None, words))}>"

    def __post_init__(self) -> None:
        if self.uses_sasl and self.mechanism not in MECHANISMS:
            raise KmirrorError(f"an embedded cluster supports the SASL mechanisms {', '.join(MECHANISMS)}, not {self.mechanism}")
        if BROKER_USER in self.users:
            raise KmirrorError(f"the user name {BROKER_USER} is reserved for the brokers")

    @classmethod
    def ssl(cls, *, client_auth: ClientAuth = "none", users: Iterable[str] = ()) -> Security:
        """TLS; with `client_auth="required"` clients must show the certificate of one of `users`."""
        return cls("SSL", dict.fromkeys(users, ""), client_auth=client_auth)

    @classmethod
    def sasl_plaintext(cls, users: Mapping[str, str], *, mechanism: str = "SCRAM-SHA-256") -> Security:
        """Passwords over plain connections."""
        return cls("SASL_PLAINTEXT", dict(users), mechanism)

    @classmethod
    def sasl_ssl(cls, users: Mapping[str, str], *, mechanism: str = "SCRAM-SHA-256", client_auth: ClientAuth = "none") -> Security:
        """Passwords over TLS."""
        return cls("SASL_SSL", dict(users), mechanism, client_auth)

    @property
    def uses_sasl(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    # The cluster's side

    def prepare(self, folder: Path) -> None:
        """Creates the certificates, unless the folder has them already."""
        if self.uses_tls and not (folder / "ca.pem").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _make_certificates(folder, [BROKER_USER, *self.users])

    def broker_properties(self, folder: Path, listener_names: Iterable[str]) -> dict[str, str]:
        """Returns the properties that secure these listeners and the connections among the
        nodes.
        """
        values = {"super.users": f"User:{BROKER_USER}"}
        if self.uses_tls:
            values |= _java_stores(folder, BROKER_USER)
            values |= {"ssl.client.auth": self._server_client_auth, "ssl.principal.mapping.rules": _PRINCIPAL_RULES}
        if self.uses_sasl:
            values |= {
                "sasl.enabled.mechanisms": self.mechanism,
                "sasl.mechanism.inter.broker.protocol": self.mechanism,
                "sasl.mechanism.controller.protocol": self.mechanism,
            }
        for name in listener_names:
            prefix = f"listener.name.{name.lower()}"
            if self.uses_sasl:
                values[f"{prefix}.{self.mechanism.lower()}.sasl.jaas.config"] = self._broker_jaas()
            if self.uses_tls:
                values[f"{prefix}.ssl.client.auth"] = self._server_client_auth
        return values

    @property
    def _server_client_auth(self) -> str:
        """Returns ssl.client.auth; without SASL, brokers identify themselves by their
        certificates.
        """
        return "requested" if self.client_auth == "none" and self.protocol == "SSL" else self.client_auth

    def scram_arguments(self) -> list[str]:
        """The arguments of `--add-scram` for the storage tool."""
        if self.mechanism not in SCRAM_MECHANISMS:
            return []
        users = {BROKER_USER: self._broker_password, **self.users}
        return [self._scram_argument(user, password) for user, password in users.items()]

    def _scram_argument(self, user: str, password: str) -> str:
        """Returns the argument with a salted password, which has no character that its grammar
        reserves.
        """
        mechanism = ScramMechanism.for_mechanism_name(self.mechanism)
        assert mechanism is not None, f"{self.mechanism} is among SCRAM_MECHANISMS"
        salt = secrets.token_bytes(16)
        salted = mechanism.salted_password(password, salt, mechanism.min_iterations)
        fields = {"name": user, "salt": base64.b64encode(salt).decode(), "saltedpassword": base64.b64encode(salted).decode()}
        listed = ",".join(f'{name}="{value}"' for name, value in fields.items())
        return f"{self.mechanism}=[{listed},iterations={mechanism.min_iterations}]"

    def _broker_jaas(self) -> str:
        if self.mechanism == "OAUTHBEARER":
            return self._jaas({"unsecuredLoginStringClaim_sub": BROKER_USER})
        options = {"username": BROKER_USER, "password": self._broker_password}
        if self.mechanism == "PLAIN":
            options |= {f"user_{user}": password for user, password in {BROKER_USER: self._broker_password, **self.users}.items()}
        return self._jaas(options)

    def _jaas(self, options: Mapping[str, str]) -> str:
        def quoted(text: str) -> str:
            return text.replace("\\", "\\\\").replace('"', '\\"')

        listed = "".join(f' {name}="{quoted(value)}"' for name, value in options.items())
        return f"{_LOGIN_MODULES[self.mechanism]} required{listed};"

    # The clients' side

    def client_properties(self, folder: Path, user: str | None, *, style: Style) -> dict[str, str]:
        """Returns the properties without `bootstrap.servers`.

        KmirrorError for a user that the cluster does not have.
        """
        if user is not None and user not in self.users:
            raise KmirrorError(f"the cluster has no user {user}; it has {', '.join(self.users) or 'none'}")
        if self.uses_sasl and user is None:
            raise KmirrorError(f"{self.protocol} needs a user; the cluster has {', '.join(self.users)}")
        values = {"security.protocol": self.protocol}
        if self.uses_tls:
            values |= self._tls_properties(folder, user, style)
        if self.uses_sasl and user is not None:
            values |= self._sasl_properties(user, style)
        return values

    def _tls_properties(self, folder: Path, user: str | None, style: Style) -> dict[str, str]:
        shown = user if self.client_auth != "none" or not self.uses_sasl else None
        if style == "java":
            return _java_stores(folder, shown)
        values = {"ssl.ca.location": str(folder / "ca.pem")}
        if shown is not None:
            store = str(folder / f"{shown}.pem")
            values |= {"ssl.certificate.location": store, "ssl.key.location": store}
        return values

    def _sasl_properties(self, user: str, style: Style) -> dict[str, str]:
        values = {"sasl.mechanism": self.mechanism}
        if self.mechanism == "OAUTHBEARER":
            if style == "java":
                return values | {"sasl.jaas.config": self._jaas({"unsecuredLoginStringClaim_sub": user})}
            return values | {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={user}"}
        if style == "java":
            return values | {"sasl.jaas.config": self._jaas({"username": user, "password": self.users[user]})}
        return values | {"sasl.username": user, "sasl.password": self.users[user]}


def _java_stores(folder: Path, owner: str | None) -> dict[str, str]:
    values = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    if owner is not None:
        values |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / f"{owner}.pem")}
    return values


def _make_certificates(folder: Path, owners: Iterable[str]) -> None:
    """Writes `ca.pem`, and for each owner `<owner>.pem` with private key and certificate."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise KmirrorError("An embedded cluster with TLS needs the package cryptography: pip install 'kmirror[security]'") from error

    def name(common_name: str) -> Any:
        return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, common_name)])

    def certificate(subject: str, public_key: Any, extensions: Iterable[tuple[Any, bool]]) -> Any:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            issuer_name=name("kmirror throw-away CA"),
            subject_name=name(subject),
            public_key=public_key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - datetime.timedelta(minutes=5),
            not_valid_after=now + _VALIDITY,
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(ca_key, hashes.SHA256())

    ca_key = ec.generate_private_key(ec.SECP256R1())
    authority = certificate(
        "kmirror throw-away CA",
        ca_key.public_key(),
        [
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False),
        ],
    )
    addresses: list[Any] = [x509.DNSName(HOSTS[0]), x509.IPAddress(ipaddress.ip_address(HOSTS[1]))]
    for owner in owners:
        key = ec.generate_private_key(ec.SECP256R1())
        issued = certificate(
            owner,
            key.public_key(),
            [
                (x509.SubjectAlternativeName(addresses), False),
                (x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False),
            ],
        )
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path = folder / f"{owner}.pem"
        path.touch(mode=0o600)
        path.write_bytes(private + issued.public_bytes(pem))
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
