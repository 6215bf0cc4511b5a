"""CRC-32C: the check value of the polynomial, views without copies, and one CRC from parts."""

from __future__ import annotations

from crc32c import crc32c as reference

from kmirror.common.crc32c import crc32c


def test_check_value_and_the_packages_own_function() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    data = bytes(range(256)) * 50
    assert crc32c(memoryview(bytearray(data))[3:-7]) == reference(data[3:-7])


def test_a_crc_goes_on_from_the_part_before() -> None:
    assert crc32c(b"456789", crc32c(b"123")) == 0xE3069283
