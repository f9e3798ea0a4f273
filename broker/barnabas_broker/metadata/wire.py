"""The primitive types of metadata records: readers and writers, nothing more.

The grammar is in `docs/formats/metadata.md`. Unsigned numbers are varints of seven bits a byte,
lowest first; signed ones are zig-zag coded first. Not Kafka's own metadata format.
"""

from __future__ import annotations

import struct

from barnabas_protocol.errors import ParseError

# Ten groups of seven bits hold 64 bits.
VARINT_BYTES_MAX = 10
# A length prefix above this is damage, not data: nothing in the metadata log is so large.
LENGTH_MAX = 1 << 24
_DOUBLE = struct.Struct(">d")


class RecordWriter:
    """Builds the value of one record."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def unsigned(self, value: int) -> None:
        """Write a number that is never negative."""
        if value < 0:
            raise ValueError(f"{value} is negative")
        while value > 0x7F:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def signed(self, value: int) -> None:
        """Write a number that may be negative."""
        self.unsigned(value << 1 if value >= 0 else (-value << 1) - 1)

    def boolean(self, value: bool) -> None:
        """Write one byte, 0 or 1."""
        self.buffer.append(1 if value else 0)

    def double(self, value: float) -> None:
        """Write eight bytes of IEEE 754, the highest first."""
        self.buffer += _DOUBLE.pack(value)

    def uuid(self, value: bytes) -> None:
        """Write sixteen bytes as they are."""
        if len(value) != 16:
            raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
        self.buffer += value

    def raw(self, value: bytes, size: int) -> None:
        """Write bytes as they are, of a size that the reader knows."""
        if len(value) != size:
            raise ValueError(f"there are {len(value)} bytes, not {size}")
        self.buffer += value

    def data(self, value: bytes) -> None:
        """Write the length, then the bytes as they are."""
        self.unsigned(len(value))
        self.buffer += value

    def string(self, value: str) -> None:
        """Write the length in bytes, then UTF-8."""
        data = value.encode()
        self.unsigned(len(data))
        self.buffer += data

    def optional_string(self, value: str | None) -> None:
        """Write 0 for none, else the length plus one, then UTF-8."""
        if value is None:
            self.unsigned(0)
            return
        data = value.encode()
        self.unsigned(len(data) + 1)
        self.buffer += data


class RecordReader:
    """Takes the value of one record apart. All methods raise ParseError at its end."""

    __slots__ = ("_data", "_position", "version")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.version = 0  # of the record, once that was read: later fields may be missing

    def unsigned(self) -> int:
        """Read a number that is never negative."""
        data, position = self._data, self._position
        value = shift = 0
        # Nearly all numbers are one byte, and a start reads millions of them.
        for byte in data[position : position + VARINT_BYTES_MAX]:
            position += 1
            if byte < 0x80:
                self._position = position
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            shift += 7
        reason = "a varint is too long" if shift == 70 else "a record ends too early"
        raise ParseError(reason, self._position)

    def signed(self) -> int:
        """Read a number that may be negative."""
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def boolean(self) -> bool:
        """Read one byte, 0 or 1."""
        return self._take(1)[0] != 0

    def double(self) -> float:
        """Read eight bytes of IEEE 754."""
        value: float = _DOUBLE.unpack(self._take(8))[0]
        return value

    def uuid(self) -> bytes:
        """Read sixteen bytes."""
        return self._take(16)

    def raw(self, size: int) -> bytes:
        """Read so many bytes."""
        return self._take(self._bounded(size))

    def count(self) -> int:
        """Read the number of items of a list."""
        return self._bounded(self.unsigned())

    def data(self) -> bytes:
        """Read bytes."""
        return self._take(self._bounded(self.unsigned()))

    def string(self) -> str:
        """Read a string."""
        return self._text(self._bounded(self.unsigned()))

    def optional_string(self) -> str | None:
        """Read a string or none."""
        length = self._bounded(self.unsigned())
        return None if length == 0 else self._text(length - 1)

    def _bounded(self, length: int) -> int:
        if length > LENGTH_MAX:
            raise ParseError(f"a length of {length}", self._position)
        return length

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise ParseError("a string is not UTF-8", self._position) from None

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ParseError("a record ends too early", self._position)
        data = self._data[self._position : end]
        self._position = end
        return data
