"""Kafka's `Uuid`: 16 bytes, written as unpadded base64url (22 characters).

The values 0 and 1 are reserved; random ones whose text begins with '-' are avoided, too, because
command lines take that for an option (Kafka 4.3 `Uuid.randomUuid`).
"""

from __future__ import annotations

import base64
import binascii
from typing import ClassVar, Final

from kmirror.common.ports import Random


class Uuid:
    """An immutable 128-bit id. It is ordered and hashed by its 16 big-endian bytes."""

    __slots__ = ("raw",)
    ZERO: ClassVar[Uuid]
    METADATA_TOPIC_ID: ClassVar[Uuid]

    raw: Final[bytes]

    def __init__(self, raw: bytes) -> None:
        if len(raw) != 16:
            raise ValueError(f"a Uuid has 16 bytes, got {len(raw)}")
        self.raw = raw

    @classmethod
    def from_string(cls, text: str) -> Uuid:
        """Parses 22 (or padded 24) base64url characters; raises ValueError for anything else, as
        Kafka's `Uuid.fromString` does."""
        if len(text) > 24:
            raise ValueError(f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID")
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"`{text}` is not base64url") from error
        if len(raw) != 16:
            raise ValueError(
                f"Input string `{text}` decoded as {len(raw)} bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID"
            )
        return cls(raw)

    @classmethod
    def random(cls, random: Random) -> Uuid:
        """A version-4 UUID that is not reserved and does not begin with '-'."""
        while True:
            raw = bytearray(random.token_bytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            uuid = cls(bytes(raw))
            if not str(uuid).startswith("-"):
                return uuid

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.raw).decode()[:22]

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uuid) and self.raw == other.raw

    def __lt__(self, other: Uuid) -> bool:
        return self.raw < other.raw

    def __hash__(self) -> int:
        return int.from_bytes(self.raw, "big")  # Python folds what is larger than a word

    def __bool__(self) -> bool:
        return self.raw != b"\0" * 16


Uuid.ZERO = Uuid(b"\0" * 16)
Uuid.METADATA_TOPIC_ID = Uuid(b"\0" * 15 + b"\x01")
