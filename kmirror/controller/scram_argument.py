"""`--add-scram` of the storage tool:
`SCRAM-SHA-256=[name=alice,password=secret,iterations=8192,salt="..."]` -> a credential record."""

from __future__ import annotations

import base64
import binascii
import re

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Random
from kmirror.network.security.scram_mechanism import MAX_ITERATIONS, ScramMechanism
from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord

_FIELD = re.compile(r'\s*([a-z]+)=("[^"]*"|[^,]*)\s*')


class ScramArgumentError(KmirrorError):
    """The argument of --add-scram is malformed."""


def parse_scram_argument(argument: str, random: Random) -> UserScramCredentialRecord:
    """Returns the record for the argument; a salt that is not given is drawn from `random`."""
    name, separator, rest = argument.partition("=")
    if not separator:
        raise ScramArgumentError(f"Failed to find equals sign in SCRAM argument '{argument}'")
    mechanism = ScramMechanism.for_mechanism_name(name)
    if mechanism is None:
        raise ScramArgumentError(f"The add-scram mechanism {name} is not supported.")
    fields = _fields(argument, rest)
    if "name" not in fields:
        raise ScramArgumentError("You must supply 'name' to add-scram")
    if ("password" in fields) == ("saltedpassword" in fields):
        if "password" in fields:
            raise ScramArgumentError("You must only supply one of 'password' or 'saltedpassword' to add-scram")
        raise ScramArgumentError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if "saltedpassword" in fields and "salt" not in fields:
        raise ScramArgumentError("You must supply 'salt' with 'saltedpassword' to add-scram")
    iterations = _iterations(fields.get("iterations", str(mechanism.min_iterations)), mechanism)
    salt = _base64("salt", fields["salt"]) if "salt" in fields else random.token_bytes(26)
    if "saltedpassword" in fields:
        salted = _base64("saltedpassword", fields["saltedpassword"])
    else:
        salted = mechanism.salted_password(fields["password"], salt, iterations)
    credential = mechanism.credential_from_salted(salt, salted, iterations)
    return UserScramCredentialRecord(name=fields["name"], mechanism=mechanism.type, **credential._asdict())


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


def _iterations(text: str, mechanism: ScramMechanism) -> int:
    name = mechanism.name
    if not text.isdigit():
        raise ScramArgumentError(f"The 'iterations' value must be a number for add-scram using {name}, got '{text}'")
    if int(text) < mechanism.min_iterations:
        raise ScramArgumentError(f"The 'iterations' value must be >= {mechanism.min_iterations} for add-scram using {name}")
    if int(text) > MAX_ITERATIONS:
        raise ScramArgumentError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {name}")
    return int(text)


def _base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ScramArgumentError(f"The '{name}' value of add-scram is not valid base64: {text}") from error
