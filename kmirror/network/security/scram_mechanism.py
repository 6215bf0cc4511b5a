"""The SCRAM mechanisms, and the arithmetic of RFC 5802 on them (Kafka's `ScramMechanism`,
`ScramFormatter`).

    SaltedPassword = Hi(password, salt, iterations)           ClientKey = HMAC(SaltedPassword, "Client Key")
    StoredKey = H(ClientKey)                                  ServerKey = HMAC(SaltedPassword, "Server Key")
    ClientProof = ClientKey XOR HMAC(StoredKey, AuthMessage)  ServerSignature = HMAC(ServerKey, AuthMessage)

The server keeps salt, iterations, StoredKey and ServerKey. They are enough to check a client's
proof and to prove the server's own knowledge, but not to log in. Passwords are taken as UTF-8
without SASLprep, as Kafka does.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum
from typing import NamedTuple

from kmirror.common.ports import Random

MAX_ITERATIONS = 16384
_SALT_AND_NONCE_BYTES = 16
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramCredential(NamedTuple):
    """What the server stores about a user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramMechanism(Enum):
    """A mechanism: its name, its number on the wire and in records, its hash, and the fewest
    iterations.
    """

    SCRAM_SHA_256 = ("SCRAM-SHA-256", 1, "sha256", 4096)
    SCRAM_SHA_512 = ("SCRAM-SHA-512", 2, "sha512", 4096)

    def __init__(self, mechanism_name: str, type: int, algorithm: str, min_iterations: int) -> None:
        self.mechanism_name = mechanism_name
        self.type = type
        self.algorithm = algorithm
        self.min_iterations = min_iterations

    @classmethod
    def for_mechanism_name(cls, name: str) -> ScramMechanism | None:
        return next((mechanism for mechanism in cls if mechanism.mechanism_name == name), None)

    @classmethod
    def for_type(cls, type: int) -> ScramMechanism | None:
        return next((mechanism for mechanism in cls if mechanism.type == type), None)

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.algorithm, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.algorithm)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        return hashlib.pbkdf2_hmac(self.algorithm, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Client Key")

    def stored_key(self, client_key: bytes) -> bytes:
        return self.hash(client_key)

    def server_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Server Key")

    def client_proof(self, salted_password: bytes, auth_message: bytes) -> bytes:
        client_key = self.client_key(salted_password)
        return xor(client_key, self.hmac(self.stored_key(client_key), auth_message))

    def credential_from_salted(self, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
        return ScramCredential(salt, self.stored_key(self.client_key(salted_password)), self.server_key(salted_password), iterations)

    def credential(self, password: str, salt: bytes, iterations: int) -> ScramCredential:
        return self.credential_from_salted(salt, self.salted_password(password, salt, iterations), iterations)


def xor(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


def secure_random_string(random: Random) -> str:
    """A random text of letters and digits for nonces and salts."""
    number = int.from_bytes(random.token_bytes(_SALT_AND_NONCE_BYTES), "big") | 1 << 127
    digits = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def sasl_name(username: str) -> str:
    """A user name as SCRAM writes it, with `=` and `,` escaped."""
    return username.replace("=", "=3D").replace(",", "=2C")


def username(sasl_name: str) -> str:
    """The inverse of `sasl_name`; ValueError for an `=` that escapes nothing."""
    text = sasl_name.replace("=2C", ",")
    if "=" in text.replace("=3D", ""):
        raise ValueError(f"Invalid username: {sasl_name}")
    return text.replace("=3D", "=")
