"""`--add-scram` of the storage tool: `SCRAM-SHA-256=[name=alice,password=secret,iterations=8192,salt="..."]` -> a credential record."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Random
from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord

MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
_FIELD = re.compile(r'\s*([a-z]+)=("[^"]*"|[^,]*)\s*')


class ScramArgumentError(KmirrorError):
    """The argument of --add-scram is not one."""


def parse_scram_argument(argument: str, random: Random) -> UserScramCredentialRecord:
    """The record that the argument asks for; a salt that is not given comes from `random`."""
    mechanism, separator, rest = argument.partition("=")
    if not separator:
        raise ScramArgumentError(f"Failed to find equals sign in SCRAM argument '{argument}'")
    if mechanism not in MECHANISMS:
        raise ScramArgumentError(f"The add-scram mechanism {mechanism} is not supported.")
    number, algorithm = MECHANISMS[mechanism]
    fields = _fields(argument, rest)
    if "name" not in fields:
        raise ScramArgumentError("You must supply 'name' to add-scram")
    if ("password" in fields) == ("saltedpassword" in fields):
        if "password" in fields:
            raise ScramArgumentError("You must only supply one of 'password' or 'saltedpassword' to add-scram")
        raise ScramArgumentError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if "saltedpassword" in fields and "salt" not in fields:
        raise ScramArgumentError("You must supply 'salt' with 'saltedpassword' to add-scram")
    iterations = _iterations(fields.get("iterations", str(MIN_ITERATIONS)), mechanism)
    salt = _base64("salt", fields["salt"]) if "salt" in fields else random.token_bytes(26)
    if "saltedpassword" in fields:
        salted = _base64("saltedpassword", fields["saltedpassword"])
    else:
        salted = hashlib.pbkdf2_hmac(algorithm, fields["password"].encode(), salt, iterations)
    client_key = hmac.new(salted, b"Client Key", algorithm).digest()
    return UserScramCredentialRecord(
        name=fields["name"],
        mechanism=number,
        salt=salt,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.new(salted, b"Server Key", algorithm).digest(),
        iterations=iterations,
    )


def _fields(argument: str, text: str) -> dict[str, str]:
    if not (text.startswith("[") and text.endswith("]")):
        raise ScramArgumentError(f"Expected configuration string to be enclosed in brackets in SCRAM argument '{argument}'")
    fields: dict[str, str] = {}
    position, inner = 0, text[1:-1]
    while position < len(inner):
        match = _FIELD.match(inner, position)
        if match is None or (match.end() < len(inner) and inner[match.end()] != ","):
            raise ScramArgumentError(f"Malformed SCRAM argument '{argument}': expected name=value at character {position} of the brackets")
        value = match[2].strip()
        fields[match[1]] = value[1:-1] if value.startswith('"') else value
        position = match.end() + 1
    return fields


def _iterations(text: str, mechanism: str) -> int:
    name = mechanism.replace("-", "_")
    if not text.isdigit():
        raise ScramArgumentError(f"The 'iterations' value must be a number for add-scram using {name}, got '{text}'")
    if int(text) < MIN_ITERATIONS:
        raise ScramArgumentError(f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {name}")
    if int(text) > MAX_ITERATIONS:
        raise ScramArgumentError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {name}")
    return int(text)


def _base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ScramArgumentError(f"The '{name}' value of add-scram is not base64: {text}") from error
