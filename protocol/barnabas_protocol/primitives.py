"""Lengths and integers of the wire: the few encodings that no `struct` format covers.

An unsigned varint is base 128, low group first, at most 5 bytes for 32 bits and 10 for 64. Signed
varints are zig-zag first. Reading functions take a buffer and a position and return the value and
the position after it; all of them raise `ParseError` for anything malformed.
Source: KIP-482 and the protocol guide.
"""

from typing import Final, TypeAlias

from barnabas_protocol.errors import ParseError

Buffer: TypeAlias = bytes | bytearray | memoryview

_UVARINT_BYTES_MAX: Final = 5
_UVARLONG_BYTES_MAX: Final = 10

# Of every length up to this the encoded form is kept: most lengths are short.
_CACHED: Final = 512


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT: Final = tuple(_encode(value) for value in range(_CACHED))


def unsigned_varint(value: int) -> bytes:
    """Return the encoding of a number that is not negative."""
    if value < _CACHED:
        if value < 0:
            raise ValueError(f"an unsigned varint cannot be {value}")
        return _SHORT[value]
    return _encode(value)


def signed_varint(value: int) -> bytes:
    """Return the zig-zag encoding of a signed number of up to 64 bits."""
    return unsigned_varint(value << 1 ^ value >> 63)


def _read_varint(buffer: Buffer, position: int, bytes_max: int, bits: int) -> tuple[int, int]:
    value = 0
    for index in range(bytes_max):
        try:
            byte = buffer[position + index]
        except IndexError:
            raise ParseError("a varint is cut short", position) from None
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value >> bits:
                break
            return value, position + index + 1
    raise ParseError(f"a varint has more than {bits} bits", position)


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of 32 bits."""
    # Nearly all are one byte, and this is called for each tag.
    if position < len(buffer) and (first := buffer[position]) < 0x80:
        return first, position + 1
    return _read_varint(buffer, position, _UVARINT_BYTES_MAX, 32)


def read_unsigned_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of 64 bits."""
    return _read_varint(buffer, position, _UVARLONG_BYTES_MAX, 64)


def read_signed_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zig-zag varint of 32 bits."""
    value, position = _read_varint(buffer, position, _UVARINT_BYTES_MAX, 32)
    return value >> 1 ^ -(value & 1), position


def read_signed_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zig-zag varint of 64 bits."""
    value, position = _read_varint(buffer, position, _UVARLONG_BYTES_MAX, 64)
    return value >> 1 ^ -(value & 1), position


def finish_unsigned_varint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read on after a first byte of 128 or more; the position is behind that byte.

    For compiled readers. The sizes of most record batches have two or three bytes, so those are
    read without a loop; input that ends here is an IndexError or a ParseError.
    """
    second = buffer[position]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 1
    third = buffer[position + 1]
    if third < 0x80:
        return first & 0x7F | (second & 0x7F) << 7 | third << 14, position + 2
    return _read_varint(buffer, position - 1, _UVARINT_BYTES_MAX, 32)


TAGGED_FIELDS_MAX = 10_000
"""In one place, as in Kafka 4.4."""


def skip_tagged_fields(buffer: Buffer, position: int, count: int) -> int:
    """Return the position after `count` tagged fields, of which none is known."""
    if count > TAGGED_FIELDS_MAX:
        raise ParseError(f"{count} tagged fields, {TAGGED_FIELDS_MAX} at most", position)
    for _ in range(count):
        _tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > len(buffer):
            raise ParseError("a tagged field is longer than what is left", position)
    return position


# What hand-written responses append.


def append_unsigned_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_count(out: bytearray, count: int, is_flexible: bool) -> None:
    """Append the length of an array."""
    if not is_flexible:
        out += count.to_bytes(4, "big")
    elif count < 0x7F:  # as nearly always: one byte
        out.append(count + 1)
    else:
        append_unsigned_varint(out, count + 1)


def append_string(out: bytearray, text: str | None, is_flexible: bool) -> None:
    """Append a string, or null."""
    if text is None:
        out += b"\x00" if is_flexible else b"\xff\xff"
        return
    data = text.encode()
    size = len(data)
    if not is_flexible:
        out += size.to_bytes(2, "big")
    elif size < 0x7F:
        out.append(size + 1)
    else:
        append_unsigned_varint(out, size + 1)
    out += data
