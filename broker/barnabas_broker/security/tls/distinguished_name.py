"""Whose a client's certificate is, as Kafka's principals have it, and when it ends.

The name is that of RFC 2253, its most specific part first.

Read from the certificate's bytes: Python's `getpeercert()` has another order and other names. The
bytes come from OpenSSL, which has verified them; what cannot be cut is refused all the same.

Source: SEC-4; Java's X500Principal.getName(): nine attribute types have names, all others are
their object identifier and `#` with the value's DER in hexadecimal digits. A character that means
something is escaped, as are blanks at the ends.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

_NAMES: Final = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("550409"): "STREET",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
_STRINGS: Final = {
    12: "utf-8",  # UTF8String
    19: "ascii",  # PrintableString
    20: "latin-1",  # T61String
    22: "ascii",  # IA5String
    27: "latin-1",  # GeneralString
    28: "utf-32-be",  # UniversalString
    30: "utf-16-be",  # BMPString
}
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_ESCAPED: Final = frozenset(',=+<>#;"\\')
SUBJECT_BYTES_MAX: Final = 16 * 1024
"""A longer name would be no principal that anybody could write into a rule."""


_TIMES: Final = {23: "%y%m%d%H%M%SZ", 24: "%Y%m%d%H%M%SZ"}  # UTCTime, GeneralizedTime


class ShownCertificate(NamedTuple):
    """What is read of the certificate that a client shows."""

    subject: str
    not_after_ms: int


class _Element:
    """One value of DER: its tag, where it begins, and where its content is."""

    __slots__ = ("content", "data", "end", "start", "tag")

    def __init__(self, data: bytes, start: int, limit: int) -> None:
        """Cut one that begins at `start`. Raises: ValueError where it reaches beyond `limit`."""
        self.data = data
        self.start = start
        if start + 2 > limit:
            raise ValueError("DER ends too early")
        self.tag = data[start]
        length = data[start + 1]
        content = start + 2
        if length >= 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or content + count > limit:
                raise ValueError("a length in DER is impossible")
            length = int.from_bytes(data[content : content + count], "big")
            content += count
        self.content = content
        self.end = content + length
        if self.end > limit:
            raise ValueError("DER ends too early")

    def children(self) -> list[_Element]:
        """The elements within. Raises: ValueError."""
        found, position = [], self.content
        while position < self.end:
            child = _Element(self.data, position, self.end)
            found.append(child)
            position = child.end
        return found

    @property
    def value(self) -> bytes:
        """The content's bytes."""
        return self.data[self.content : self.end]


def read_shown(certificate: bytes) -> ShownCertificate:
    """The subject's distinguished name and the end of a certificate in DER.

    Raises: ValueError for what is no certificate.
    """
    outer = _Element(certificate, 0, len(certificate))
    if outer.tag != _SEQUENCE or not outer.children():
        raise ValueError("this is no certificate")
    fields = outer.children()[0].children()
    # version?, serial number, algorithm, issuer, validity, subject
    position = 5 if fields and fields[0].tag == _VERSION else 4
    if len(fields) <= position or fields[position].tag != _SEQUENCE:
        raise ValueError("this is no certificate")
    subject, validity = fields[position], fields[position - 1].children()
    if subject.end - subject.content > SUBJECT_BYTES_MAX:
        raise ValueError(f"the subject has more than {SUBJECT_BYTES_MAX} bytes")
    if len(validity) != 2:
        raise ValueError("a validity is two times")
    name = ",".join(_relative_name(part) for part in reversed(subject.children()))
    return ShownCertificate(name, _time_ms(validity[1]))


def _time_ms(element: _Element) -> int:
    form = _TIMES.get(element.tag)
    if form is None:
        raise ValueError("a time in DER is of another kind")
    text = element.value.decode("ascii")
    moment = datetime.strptime(text, form).replace(tzinfo=UTC)
    if element.tag == 23 and moment.year >= 2050:  # two digits are of 1950 to 2049
        moment = moment.replace(year=moment.year - 100)
    return int(moment.timestamp() * 1000)


def _relative_name(part: _Element) -> str:
    return "+".join(_attribute(attribute) for attribute in part.children())


def _attribute(attribute: _Element) -> str:
    children = attribute.children()
    if len(children) != 2:
        raise ValueError("an attribute of a name is a type and a value")
    kind, value = children
    name, encoding = _NAMES.get(kind.value), _STRINGS.get(value.tag)
    if name is None or encoding is None:
        encoded = value.data[value.start : value.end].hex()
        return f"{name or _dotted(kind.value)}=#{encoded}"
    return f"{name}={_escaped(value.value.decode(encoding, errors='replace'))}"


def _dotted(identifier: bytes) -> str:
    if not identifier:
        raise ValueError("an attribute of a name has no type")
    numbers: list[int] = []
    number = 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first, *rest = numbers or [0]
    arc = min(first // 40, 2)
    return ".".join(map(str, (arc, first - 40 * arc, *rest)))


def _escaped(text: str) -> str:
    first = len(text) - len(text.lstrip(" \r"))
    last = len(text.rstrip(" \r"))
    out = []
    for position, character in enumerate(text):
        if character == "\0":
            out.append("\\00")
        elif character in _ESCAPED or not first <= position < last:
            out.append("\\" + character)
        else:
            out.append(character)
    return "".join(out)
