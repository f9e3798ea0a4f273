"""The record batches of dead letters: one record for each record of the source that fails.

Pure, and for a thread: batches of the source may be decompressed. Not here: reading the source,
who writes the batch (`dead_letter_writer.py`).

Source: KIP-1191; SHR-37. Invariants: what the source is known to have no record for (control
records, holes of compaction) becomes no dead letter; what cannot be read becomes one without its
key and value, and so does what the topic for dead letters could not hold with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from barnabas_broker.env.disk import Buffer
from barnabas_broker.share.dead_letters import DeadLetters
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import HEADER_BYTES, BatchHeader, iterate_headers
from barnabas_protocol.records.record import Header, Record, encode_batch
from barnabas_protocol.records.record_reader import RecordReader

RECORDS_MAX: Final = 1_000
"""So many dead letters one batch has at most."""
DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024
"""A batch of the source that becomes more is not copied."""
_PORTION: Final = 500
# Of a record: lengths, deltas, counts, and the lengths of its six headers.
_OVERHEAD_BYTES: Final = 80
_PREFIX: Final = "__dlq.errors."


class LetterSource(NamedTuple):
    """Where the records of dead letters were, and for which group."""

    topic: str
    partition: int
    group_id: str


class BuiltLetters(NamedTuple):
    """A batch, None where there is no record; and from which offset on the next one begins."""

    batch: bytes | None
    record_count: int
    next_offset: int


class SourceRecord(NamedTuple):
    """What the source has at an offset, as far as it is known."""

    offset: int
    letters: DeadLetters
    key: bytes | None = None
    value: bytes | None = None


def build_letters(
    source: LetterSource,
    letters: Sequence[DeadLetters],
    next_offset: int,
    read: Sequence[Buffer] | None,
    *,
    copies: bool,
    bytes_max: int,
    now_ms: int,
) -> BuiltLetters:
    """Return the batch of the first dead letters from an offset on.

    `letters` are in the order of offsets; `read` is what the source has from there on, None where
    it cannot be read. `copies`: with keys and values. The batch is not larger than `bytes_max`, but
    for a single record without a value.
    """
    records: list[Record] = []
    size = HEADER_BYTES
    walk = _Walk(letters, next_offset, copies)
    for found in walk.over(read):
        headers = _headers(source, found)
        key, value = found.key, found.value
        record_size = _size(key, value, headers)
        if HEADER_BYTES + record_size > bytes_max:
            key = value = None
            record_size = _size(None, None, headers)
        if records and (size + record_size > bytes_max or len(records) == RECORDS_MAX):
            return BuiltLetters(encode_batch(records), len(records), found.offset)
        records.append(Record(len(records), now_ms, key, value, headers))
        size += record_size
    batch = encode_batch(records) if records else None
    return BuiltLetters(batch, len(records), walk.known_end)


class _Walk:
    """Goes over what was read, and finds the records that become dead letters."""

    def __init__(self, letters: Sequence[DeadLetters], next_offset: int, copies: bool) -> None:
        # Those that are not behind the walk: a read has thousands of batches, and each looks here.
        self._letters = deque(one for one in letters if one.last_offset >= next_offset)
        self._copies = copies
        self.known_end = next_offset  # below it each record has been found

    def over(self, read: Sequence[Buffer] | None) -> Iterator[SourceRecord]:
        """Find the records that were read; of what cannot be read, all offsets."""
        begin = self.known_end
        for buffer in read or ():
            for position, header in iterate_headers(buffer):
                if not self._letters:
                    return
                if header.last_offset >= self.known_end:
                    yield from self._over_batch(buffer, position, header)
                    self._behind(header.last_offset)
        if self.known_end == begin and self._letters:
            end = self._letters[-1].last_offset
            yield from self._all(begin, end)
            self._behind(end)

    def _behind(self, offset: int) -> None:
        """Go on behind an offset."""
        self.known_end = offset + 1
        while self._letters and self._letters[0].last_offset <= offset:
            self._letters.popleft()

    def _over_batch(
        self, buffer: Buffer, position: int, header: BatchHeader
    ) -> Iterator[SourceRecord]:
        first_offset = max(header.base_offset, self.known_end)
        wanted = list(self._within(first_offset, header.last_offset))
        if not wanted or header.is_control:
            return
        if not self._copies and header.record_count == header.last_offset_delta + 1:
            yield from self._all(first_offset, header.last_offset)
            return
        last_found = first_offset - 1
        try:
            for found in self._records(buffer, position, first_offset, wanted):
                yield found
                last_found = found.offset
        except ParseError:
            yield from self._all(last_found + 1, header.last_offset)

    def _records(
        self, buffer: Buffer, position: int, first_offset: int, wanted: Sequence[DeadLetters]
    ) -> Iterator[SourceRecord]:
        """Read the records of one batch. Raises: ParseError."""
        reader: RecordReader[tuple[Any, ...]] = RecordReader(
            tuple,
            "",
            0,
            buffer,
            position,
            first_offset=max(first_offset, wanted[0].first_offset),
            max_decompressed_bytes=DECOMPRESSED_BYTES_MAX,
        )
        left = iter(wanted)
        current = next(left)
        while records := reader.read(_PORTION):
            for record in records:
                offset = record[2]
                while offset > current.last_offset:
                    following = next(left, None)
                    if following is None:
                        return
                    current = following
                if offset >= current.first_offset:
                    key, value = (record[5], record[6]) if self._copies else (None, None)
                    yield SourceRecord(offset, current, key, value)

    def _within(self, first_offset: int, last_offset: int) -> Iterator[DeadLetters]:
        for one in self._letters:
            if one.first_offset > last_offset:
                return
            if one.last_offset >= first_offset:
                yield one

    def _all(self, first_offset: int, last_offset: int) -> Iterator[SourceRecord]:
        for one in self._within(first_offset, last_offset):
            first = max(one.first_offset, first_offset)
            for offset in range(first, min(one.last_offset, last_offset) + 1):
                yield SourceRecord(offset, one)


def _headers(source: LetterSource, found: SourceRecord) -> tuple[Header, ...]:
    """Return what a dead letter says about its record (SHR-37)."""
    told = (
        ("topic", source.topic),
        ("partition", source.partition),
        ("offset", found.offset),
        ("group", source.group_id),
        ("delivery.count", found.letters.delivery_count),
        ("message", found.letters.cause.value),
    )
    return tuple((_PREFIX + name, str(value).encode()) for name, value in told)


def _size(key: bytes | None, value: bytes | None, headers: tuple[Header, ...]) -> int:
    """Return how many bytes a record takes at most."""
    size = _OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    return size + sum(len(name) + len(content or b"") for name, content in headers)
