"""GSSAPI (RFC 4752) with Kerberos 5, both sides, over the library `gssapi` (`kmirror[gssapi]`),
which is imported on first use.

First the sides exchange tokens until both have a security context. Then the server offers security
layers in a wrapped message; it offers only "none", as Kafka does, since TLS does the encryption.
The client answers with its choice and the name that it wants to act as. Whatever that is, it acts as
the name that its ticket proved: aiokafka and kafka-python send the service's name there, and
Kafka's server does not look at it, either.

Server and client take their keys from the keytab of the JAAS entry (`keyTab`, `principal`). A
client with `useTicketCache` uses the tickets of kinit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from kmirror.common.errors import ConfigError
from kmirror.network.security.authentication_errors import SaslError
from kmirror.network.security.jaas_config import JaasConfig
from kmirror.network.security.kerberos_short_namer import KerberosName
from kmirror.network.security.sasl_client import SaslClient, SaslClientFactory
from kmirror.network.security.sasl_server import SaslServer, SaslServerFactory

GSSAPI: Final = "GSSAPI"
_log = logging.getLogger(__name__)
_NO_LAYER: Final = b"\x01\x00\x00\x00"
_LAYER_BYTES: Final = 4


def _library() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise ConfigError("GSSAPI needs the package gssapi and Kerberos' libraries: pip install 'kmirror[gssapi]'") from error
    return gssapi


def service_name(jaas: JaasConfig | None, configured: str | None) -> str:
    """`sasl.kerberos.service.name` or the JAAS option `serviceName`; ConfigError when they differ
    or neither is set.
    """
    option = None if jaas is None else jaas.options.get("serviceName")
    if option is not None and configured is not None and option != configured:
        raise ConfigError(
            f"Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file {option}, value in Kafka config {configured}"
        )
    name = option or configured
    if not name:
        raise ConfigError("No serviceName defined in either JAAS or Kafka config")
    return name


def realm_of(jaas: JaasConfig) -> str:
    """The realm of the entry's principal; "" if it has none."""
    return KerberosName.parse(jaas.options.get("principal", "")).realm or ""


def server_factory(jaas: JaasConfig) -> SaslServerFactory:
    """Makes servers. ConfigError if the library is missing or the keytab has no key for the
    principal.
    """
    credentials = _credentials(_library(), jaas.options, usage="accept", keytab="keytab")

    def make() -> SaslServer:
        return GssapiSaslServer(credentials)

    return make


def client_factory(jaas: JaasConfig | None, configured_service_name: str | None) -> SaslClientFactory:
    gssapi = _library()
    service = service_name(jaas, configured_service_name)
    options = {} if jaas is None else jaas.options

    def make(host: str) -> SaslClient:
        return GssapiSaslClient(_credentials(gssapi, options, usage="initiate", keytab="client_keytab"), f"{service}@{host}")

    return make


def _credentials(gssapi: Any, options: Mapping[str, str], *, usage: str, keytab: str) -> Any:
    principal, path = options.get("principal"), options.get("keyTab")
    name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    store = {keytab: path}
    if path is None:
        store = {}
    elif usage == "initiate":
        store["ccache"] = f"MEMORY:kmirror-{principal}"
    try:
        return gssapi.Credentials(name=name, usage=usage, store=store or None)
    except gssapi.exceptions.GSSError as error:
        raise ConfigError(f"The Kerberos login of {principal or 'the default principal'} failed: {error}") from error


class GssapiSaslServer:
    """Implements `SaslServer`; `authorization_id` is the client's whole Kerberos name."""

    mechanism = GSSAPI
    credential_lifetime_ms: int | None = None
    token_authenticated = False

    def __init__(self, credentials: Any) -> None:
        self._gssapi = _library()
        self._context = self._gssapi.SecurityContext(creds=credentials, usage="accept")
        self._has_offered = False
        self.is_complete = False
        self.authorization_id = ""

    def evaluate_response(self, response: bytes) -> bytes:
        try:
            if self._has_offered:
                return self._accept(response)
            if not self._context.complete:
                answer = self._context.step(response) or b""
                if answer or not self._context.complete:
                    return bytes(answer)
            self._has_offered = True
            return bytes(self._context.wrap(_NO_LAYER, False).message)
        except self._gssapi.exceptions.GSSError as error:
            raise SaslError(f"GSS failure: {error}") from error

    def _accept(self, response: bytes) -> bytes:
        choice = bytes(self._context.unwrap(response).message)
        if len(choice) < _LAYER_BYTES or choice[0] != _NO_LAYER[0]:
            raise SaslError("The client chose a security layer that was not offered")
        authenticated = str(self._context.initiator_name)
        wanted = choice[_LAYER_BYTES:].decode("utf-8", "replace")
        if wanted and wanted != authenticated:
            _log.debug("%s asked to act as %s, which is ignored", authenticated, wanted)
        self.authorization_id, self.is_complete = authenticated, True
        return b""


class GssapiSaslClient:
    """Implements `SaslClient`; `service` is `kafka@host`."""

    def __init__(self, credentials: Any, service: str) -> None:
        self._gssapi = _library()
        name = self._gssapi.Name(service, self._gssapi.NameType.hostbased_service)
        flags = self._gssapi.RequirementFlag
        required = flags.mutual_authentication | flags.out_of_sequence_detection | flags.integrity
        self._context = self._gssapi.SecurityContext(name=name, creds=credentials, usage="initiate", flags=required)
        self.is_complete = False

    def initial_response(self) -> bytes:
        return self._step(None)

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        if self.is_complete:
            return None
        if not self._context.complete:
            return self._step(challenge)
        try:
            offer = bytes(self._context.unwrap(challenge).message)
            if len(offer) != _LAYER_BYTES or not offer[0] & _NO_LAYER[0]:
                raise SaslError("The server insists on a security layer")
            answer = _NO_LAYER + str(self._context.initiator_name).encode()
            self.is_complete = True
            return bytes(self._context.wrap(answer, False).message)
        except self._gssapi.exceptions.GSSError as error:
            raise SaslError(f"GSS failure: {error}") from error

    def _step(self, challenge: bytes | None) -> bytes:
        try:
            return bytes(self._context.step(challenge) or b"")
        except self._gssapi.exceptions.GSSError as error:
            raise SaslError(f"GSS initiate failed: {error}") from error
