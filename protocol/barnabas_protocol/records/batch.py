"""The header of a record batch of magic 2: reading, checking and stamping it, nothing behind it.

Not here: the records themselves (`record.py`) and their compression (`compression.py`). The broker
moves whole batches and needs only what this module gives.

Source: KIP-98 and Kafka's protocol guide, "Record Batch". Layout, 61 bytes, big-endian:

    0   base offset             int64     21  attributes          int16
    8   batch length            int32     23  last offset delta   int32
    12  partition leader epoch  int32     27  base timestamp      int64
    16  magic                   int8      35  max timestamp       int64
    17  crc                     uint32    43  producer id         int64
                                          51  producer epoch      int16
                                          53  base sequence       int32
                                          57  record count        int32

Invariants: the batch length counts the bytes behind itself; the CRC-32C covers everything from the
attributes on, so base offset and leader epoch change in place and all else needs a new CRC.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.checksum import crc32c

HEADER_BYTES = 61
MAGIC = 2
# Base offset and batch length: present in every magic, outside what the batch length counts.
LOG_OVERHEAD_BYTES = 12
BATCH_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES

MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35
RECORD_COUNT_POSITION = 57

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_unpack_header = HEADER.unpack_from
_new_tuple = tuple.__new__

Buffer = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """The thirteen fields as they stand in the bytes; the properties derive the rest."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Inclusive; still right when compaction removed the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """The codec's number, 0 to 7; 5 to 7 are not assigned."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp` is the broker's clock and stands for every record."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction (its marker included)."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch is a marker, which consumers skip."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` says from when tombstones of this batch may be dropped."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapped past 2^31 - 1; -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the rest of the batch need not be in the buffer.

    Checks only what makes the bytes a batch of magic 2 (length and magic). Counts and offsets are
    the validator's business, the CRC is `check_crc`'s.
    Raises: ParseError if fewer than 61 bytes are left, or length or magic cannot be.
    """
    try:
        header = _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise _short_header(buffer, position) from None
    if header[3] != MAGIC:
        raise ParseError(f"record batch of magic {header[3]}", position + MAGIC_POSITION)
    if header[1] < BATCH_LENGTH_MIN:
        raise ParseError(f"record batch length {header[1]} below {BATCH_LENGTH_MIN}", position + 8)
    return header


def is_transactional(buffer: Buffer) -> bool:
    """Whether the buffer begins with a batch of a transaction whose header can be read."""
    if len(buffer) < HEADER_BYTES or not buffer[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT:
        return False
    # What `read_header` checks, without the header.
    length: int = _INT32.unpack_from(buffer, 8)[0]
    return buffer[MAGIC_POSITION] == MAGIC and length >= BATCH_LENGTH_MIN


def _short_header(buffer: Buffer, position: int) -> ParseError:
    """What to say about fewer than 61 bytes: an older, smaller format is named as such."""
    left = len(buffer) - position
    if position >= 0 and left > MAGIC_POSITION and buffer[position + MAGIC_POSITION] != MAGIC:
        magic = buffer[position + MAGIC_POSITION]
        return ParseError(f"record batch of magic {magic}", position + MAGIC_POSITION)
    return ParseError(f"record batch header cut off: {left} of {HEADER_BYTES} bytes", position)


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the whole batch is in the buffer and its checksum is right."""
    end = position + header.batch_length + LOG_OVERHEAD_BYTES
    if end > len(buffer):
        return False
    body = memoryview(buffer)[position + ATTRIBUTES_POSITION : end]
    return crc32c(body) == header.crc


def iterate_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; stops at a trailing partial one.

    Raises: ParseError at a batch whose header cannot be read although its bytes are there.
    """
    position, size = 0, len(buffer)
    while position + HEADER_BYTES <= size:
        header = read_header(buffer, position)
        end = position + header[1] + LOG_OVERHEAD_BYTES
        if end > size:
            return
        yield position, header
        position = end


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Give the batch its place in the log, in the buffer itself; the CRC stays right."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LOG_OVERHEAD_BYTES, leader_epoch)


def stamp_log_append_time(
    buffer: bytearray | memoryview, position: int, append_time_ms: int
) -> None:
    """Make `append_time_ms` the timestamp of every record of the batch, with a new CRC.

    The caller has read the header at `position` and the whole batch is in the buffer.
    """
    attributes = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_POSITION)[0]
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME_BIT)
    _OFFSET.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, append_time_ms)
    stamp_crc(buffer, position)


def stamp_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Compute the CRC anew after a change behind it."""
    end = position + _INT32.unpack_from(buffer, position + 8)[0] + LOG_OVERHEAD_BYTES
    body = memoryview(buffer)[position + ATTRIBUTES_POSITION : end]
    _UINT32.pack_into(buffer, position + CRC_POSITION, crc32c(body))
