"""The few primitives that hand-written responses append to a bytearray."""

from struct import Struct

_INT = Struct(">i")


def append_unsigned_varint(out: bytearray, value: int) -> None:
    """An unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_count(out: bytearray, count: int, is_flexible: bool) -> None:
    """The length of an array."""
    if is_flexible:
        append_unsigned_varint(out, count + 1)
    else:
        out += _INT.pack(count)


def append_string(out: bytearray, text: str | None, is_flexible: bool) -> None:
    """A string, or null."""
    if text is None:
        out += b"\x00" if is_flexible else b"\xff\xff"
        return
    data = text.encode()
    if is_flexible:
        append_unsigned_varint(out, len(data) + 1)
    else:
        out += len(data).to_bytes(2, "big")
    out += data
