"""The records of one batch in portions, as the tuples that a consumer hands out.

The quick twin of `decode_records` (`record.py`), which stays the plain statement of the format. A
batch is decompressed once and read bit by bit, so that a poll for 500 records neither builds the
objects of a whole MiB nor pays for the same bytes twice.

Not here: checking the CRC, skipping control batches and aborted transactions (the consumer's).

Source: Kafka's protocol guide, "Record"; see `record.py` for the layout.

Invariants: read to its end, a batch gives what `decode_records` gives, or a ParseError where that
raises one; records before the damage have been handed out by then. Nothing is ever read twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Final, Generic, TypeVar

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import Buffer
from barnabas_protocol.records.record import (
    DECOMPRESSED_BYTES_MAX,
    Header,
    read_content,
    read_headers,
    read_payload,
    read_varint,
)
from barnabas_protocol.records.record_rows import ROW_MIN, Row, read_row

RecordTuple = TypeVar("RecordTuple", bound=tuple)  # type: ignore[type-arg]

_new_tuple = tuple.__new__
_NO_HEADERS: Final[tuple[Header, ...]] = ()
# So many records at most are read one by one before a row is looked for again.
_PAUSE_MAX: Final = 512

# What a first byte stands for, as a table: a list look-up costs less than arithmetic. Lengths are
# never negative (but for null, which is looked at before): such a one becomes a length that ends
# behind any buffer, so that the next read fails.
_BEYOND: Final = 1 << 40
_SIGNED: Final = [(number >> 1) ^ -(number & 1) for number in range(128)]
_LENGTH: Final = [_BEYOND if number & 1 else number >> 1 for number in range(128)]
# The low seven bits of a number of two bytes; its high byte adds 64 times its value.
_LENGTH_LOW: Final = [_BEYOND if number & 1 else (number & 0x7F) >> 1 for number in range(256)]


class RecordReader(Generic[RecordTuple]):
    """Reads the batch at `position` from `first_offset` on.

    `record_class` is a tuple type of nine fields: topic, partition, offset, timestamp, timestamp
    type, key, value, headers (a tuple of pairs), leader epoch. It is built without calling it.
    """

    __slots__ = (
        "_constants",
        "_data",
        "_first_offset",
        "_fixed_timestamp",
        "_pause",
        "_position",
        "_record_class",
        "header",
        "remaining_count",
    )

    def __init__(
        self,
        record_class: type[RecordTuple],
        topic: str,
        partition: int,
        buffer: Buffer,
        position: int = 0,
        *,
        first_offset: int = 0,
        max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        """Decompress the batch; no record is read yet.

        Raises: ParseError for a header, size, codec or record count that cannot be.
        """
        header, payload = read_payload(buffer, position, max_decompressed_bytes)
        self.header = header
        #: Records not read yet, those before `first_offset` included; 0 when the batch is done.
        self.remaining_count = header[12]
        self._record_class = record_class
        timestamp_type = 1 if header.is_log_append_time else 0
        self._constants = (topic, partition, header[2], timestamp_type)
        # One copy makes every key and value a plain slice of bytes.
        self._data = bytes(payload)
        self._position = 0
        self._pause = ROW_MIN
        self._first_offset = first_offset
        self._fixed_timestamp = header[8] if timestamp_type else None
        if not header[12] and self._data:
            raise ParseError(f"{len(self._data)} bytes behind the last record", 0)

    def read(self, count_max: int) -> list[RecordTuple]:
        """Up to `count_max` further records; an empty list only when there are no more.

        Raises: ParseError for anything malformed; the reader is of no use afterwards.
        """
        while self.remaining_count:
            records = self._read(min(count_max, self.remaining_count))
            if records[0][2] < self._first_offset:
                first_offset = self._first_offset
                records = [record for record in records if record[2] >= first_offset]
            if records:
                return records
        return []

    @property
    def size_bytes(self) -> int:
        """How large the records are, decompressed; 0 when the batch is done."""
        return len(self._data)

    def contains(self, content: bytes, start: int, end: int) -> bool:
        """Whether these bytes stand somewhere in a part of the decompressed records."""
        return self._data.find(content, start, end) >= 0

    def _read(self, count: int) -> list[RecordTuple]:
        data = self._data
        try:
            records = self._decode_quickly(data, count)
        except IndexError:
            raise ParseError("record cut off", len(data)) from None
        except UnicodeDecodeError as error:
            raise ParseError(f"record header key: {error.reason}", self._position) from None
        self.remaining_count -= count
        if not self.remaining_count:
            if self._position != len(data):
                left = len(data) - self._position
                raise ParseError(f"{left} bytes behind the last record", self._position)
            self._data = b""
        return records

    def _decode_quickly(self, data: bytes, count: int) -> list[RecordTuple]:
        """The next `count` records: rows of alike ones where there are some, others one by one."""
        records: list[RecordTuple] = []
        while len(records) < count:
            left = count - len(records)
            row = None
            if left >= ROW_MIN:
                base_offset, base_timestamp = self.header[0], self.header[7]
                row = read_row(data, self._position, left, base_offset, base_timestamp)
            if row is not None:
                records += self._records_of(row)
                self._position += row.size_bytes
                self._pause = ROW_MIN
                continue
            if left > self._pause:
                left = self._pause
                # Where rows are rare, looking for them must not cost anything.
                self._pause = min(4 * left, _PAUSE_MAX)
            records += self._decode(data, left)
        return records

    def _records_of(self, row: Row) -> Iterator[RecordTuple]:
        topic, partition, epoch, kind = self._constants
        fixed = self._fixed_timestamp
        fields = zip(
            repeat(topic),
            repeat(partition),
            row.offsets,
            row.timestamps if fixed is None else repeat(fixed),
            repeat(kind),
            row.keys,
            row.values,
            repeat(_NO_HEADERS),
            repeat(epoch),
        )
        return map(_new_tuple, repeat(self._record_class), fields)

    def _decode(self, data: bytes, count: int) -> list[RecordTuple]:
        """The next `count` records; IndexError where the data ends too early."""
        # One loop with the usual sizes in line: a call per field would double the time.
        signed, lengths, lengths_low = _SIGNED, _LENGTH, _LENGTH_LOW
        new, record_class, headers_none = _new_tuple, self._record_class, _NO_HEADERS
        topic, partition, epoch, kind = self._constants
        base_offset, base_timestamp, fixed = self.header[0], self.header[7], self._fixed_timestamp
        records: list[RecordTuple] = []
        append, position = records.append, self._position
        key: bytes | None
        value: bytes | None
        for _ in range(count):
            number = data[position]
            if number < 0x80:
                position += 1
                record_end = position + lengths[number]
            elif (second := data[position + 1]) < 0x80:
                position += 2
                record_end = position + lengths_low[number] + (second << 6)
            else:
                number, position = read_varint(data, position)
                record_end = position + number
            # Behind the length stands a byte of attributes, of which none is defined.
            number = data[position + 1]
            if number < 0x80:
                position += 2
                timestamp = base_timestamp + signed[number]
            elif (second := data[position + 2]) < 0x80 and not number & 1:
                position += 3
                timestamp = base_timestamp + lengths_low[number] + (second << 6)
            else:
                number, position = read_varint(data, position + 1)
                timestamp = base_timestamp + number
            number = data[position]
            if number < 0x80:
                position += 1
                offset = base_offset + signed[number]
            elif (second := data[position + 1]) < 0x80 and not number & 1:
                position += 2
                offset = base_offset + lengths_low[number] + (second << 6)
            else:
                number, position = read_varint(data, position)
                offset = base_offset + number
            if (number := data[position]) == 1:
                key = None
                position += 1
            elif number < 0x80:
                key = data[position + 1 : (position := position + 1 + lengths[number])]
            else:
                key, position = read_content(data, position)
            if 1 < (number := data[position]) < 0x80:
                value = data[position + 1 : (position := position + 1 + lengths[number])]
            elif number >= 0x80 and (second := data[position + 1]) < 0x80:
                size = lengths_low[number] + (second << 6)
                value = data[position + 2 : (position := position + 2 + size)]
            else:
                value, position = read_content(data, position)
            if data[position] == 0:
                headers = headers_none
                position += 1
            else:
                headers, position = read_headers(data, position)
            if position != record_end:
                raise ParseError(f"record of {record_end} ends at {position}", position)
            stamp = timestamp if fixed is None else fixed
            record = (topic, partition, offset, stamp, kind, key, value, headers, epoch)
            append(new(record_class, record))
        self._position = position
        return records
