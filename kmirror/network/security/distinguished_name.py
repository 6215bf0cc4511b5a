"""The subject of an X.509 certificate as Java prints it (`X500Principal.getName()`, RFC 2253):
`CN=alice,OU=Dev,O=Example,C=DE`.

The last attribute of the certificate comes first. Attributes without a name in RFC 2253 are written
as their OID with the value's DER in hex, e.g. `1.2.840.113549.1.9.1=#1612...` for an e-mail
address.
"""

from __future__ import annotations

from typing import Final

from kmirror.network.security.java_key_store import der_element

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS: Final = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
_CONTEXT_0: Final = 0xA0
_ESCAPED: Final = ',=+<>#;"\\'


def subject_of(certificate: bytes) -> str:
    """The subject's name of a DER certificate; JavaKeyStoreError if the bytes are not one."""
    _, start, _ = der_element(certificate, 0)
    _, position, _ = der_element(certificate, start)  # TBSCertificate
    tag, _, end = der_element(certificate, position)
    if tag == _CONTEXT_0:  # version
        _, _, end = der_element(certificate, end)
    for _ in range(3):  # signature algorithm, issuer, validity
        _, _, end = der_element(certificate, end)
    _, start, end = der_element(certificate, end)
    parts = [_relative_name(certificate, first, last) for first, last in _elements(certificate, start, end)]
    return ",".join(reversed(parts))


def _elements(der: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """(start, end) of the contents of each element in der[start:end]."""
    found = []
    while start < end:
        _, first, last = der_element(der, start)
        found.append((first, last))
        start = last
    return found


def _relative_name(der: bytes, start: int, end: int) -> str:
    return "+".join(_attribute(der, first) for first, _ in _elements(der, start, end))


def _attribute(der: bytes, position: int) -> str:
    _, start, end = der_element(der, position)
    oid = _oid(der[start:end])
    value_position = end
    tag, start, end = der_element(der, value_position)
    keyword, encoding = _KEYWORDS.get(oid), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{der[value_position:end].hex()}"
    return f"{keyword}={_escape(der[start:end].decode(encoding, 'replace'))}"


def _oid(data: bytes) -> str:
    first, rest = divmod(data[0], 40) if data[0] < 80 else (2, data[0] - 80)
    numbers = [first, rest]
    value = 0
    for byte in data[1:]:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    return ".".join(str(number) for number in numbers)


def _escape(text: str) -> str:
    stripped = text.strip(" ")
    leading, trailing = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    escaped = "".join(f"\\{char}" if char in _ESCAPED else char for char in stripped)
    return "\\ " * leading + escaped + ("\\ " * trailing if stripped else "")
