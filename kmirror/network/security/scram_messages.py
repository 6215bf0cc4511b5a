"""The four messages of SCRAM (RFC 5802), without channel binding (Kafka's `ScramMessages`).

    client first   n,[a=authzid],n=user,r=nonce[,extensions]        Kafka's extension: tokenauth=true, a delegation token
    server first   r=nonce,s=salt,i=iterations
    client final   c=biws,r=nonce,p=proof                           c: base64 of the first message's head ("n,,")
    server final   v=signature

AuthMessage, which both sides sign, is the client's first message without its head, the server's
first message, and the client's final one without its proof.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from kmirror.network.security.authentication_errors import SaslError

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_VALUE_SAFE = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED = rf"(?:m={_VALUE},)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST = re.compile(rf"n,(?:a=({_SASL_NAME}))?,({_RESERVED}n=({_SASL_NAME}),r=({_NONCE})({_EXTENSIONS}))")
_SERVER_FIRST = re.compile(rf"{_RESERVED}r=({_NONCE}),s=({_BASE64}),i=([0-9]+){_EXTENSIONS}")
_CLIENT_FINAL = re.compile(rf"(c=({_BASE64}),r=({_NONCE}){_EXTENSIONS}),p=({_BASE64})")
_SERVER_FINAL = re.compile(rf"(?:e=({_VALUE_SAFE}))|(?:v=({_BASE64})){_EXTENSIONS}")
GS2_HEADER = "n,,"


class ClientFirstMessage(NamedTuple):
    """`bare` is the message without its head, as it was received."""

    bare: str
    sasl_name: str
    nonce: str
    authorization_id: str
    extensions: dict[str, str]

    @classmethod
    def parse(cls, data: bytes) -> ClientFirstMessage:
        match = _match(_CLIENT_FIRST, data, "client first")
        return cls(match[2], match[3], match[4], match[1] or "", _extensions(match[5]))

    @property
    def token_authenticated(self) -> bool:
        return self.extensions.get("tokenauth", "").lower() == "true"


class ServerFirstMessage(NamedTuple):
    """The server's challenge."""

    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def parse(cls, data: bytes) -> ServerFirstMessage:
        match = _match(_SERVER_FIRST, data, "server first")
        iterations = int(match[3])
        if not 0 < iterations < 1 << 31:
            raise SaslError(f"Invalid SCRAM server first message format: invalid iterations {iterations}")
        return cls(match[1], base64.b64decode(match[2]), iterations)

    def text(self) -> str:
        return f"r={self.nonce},s={base64.b64encode(self.salt).decode()},i={self.iterations}"


class ClientFinalMessage(NamedTuple):
    """The client's proof. `without_proof` is the message up to the proof."""

    without_proof: str
    nonce: str
    proof: bytes

    @classmethod
    def parse(cls, data: bytes) -> ClientFinalMessage:
        match = _match(_CLIENT_FINAL, data, "client final")
        return cls(match[1], match[3], base64.b64decode(match[4]))


class ServerFinalMessage(NamedTuple):
    """The server's signature, or its error."""

    error: str | None
    signature: bytes

    @classmethod
    def parse(cls, data: bytes) -> ServerFinalMessage:
        match = _match(_SERVER_FINAL, data, "server final")
        return cls(match[1], base64.b64decode(match[2] or ""))


def client_final_without_proof(nonce: str) -> str:
    return f"c={base64.b64encode(GS2_HEADER.encode()).decode()},r={nonce}"


def auth_message(client_first_bare: str, server_first: str, client_final_without_proof: str) -> bytes:
    return f"{client_first_bare},{server_first},{client_final_without_proof}".encode()


def _match(pattern: re.Pattern[str], data: bytes, name: str) -> re.Match[str]:
    text = data.decode("utf-8", "replace")
    match = pattern.fullmatch(text)
    if match is None:
        raise SaslError(f"Invalid SCRAM {name} message format: {text}")
    return match


def _extensions(text: str) -> dict[str, str]:
    entries = (entry.partition("=") for entry in text.split(",") if entry)
    return {name: value for name, _, value in entries}
