"""What was fetched as Arrow arrays: offsets, timestamps, keys, values and headers as columns.

For programs that go on with many records at once; no Python object is made per record. Needs
pyarrow and numpy, the extra `columnar`; both are imported at the first use, not with the client.

Not here: which batches a consumer returns, their checksums (`completed_fetch.py`).

Invariants: the columns hold what `decode_records` gives for the same batches; a batch that cannot
be read is told after everything before it; the memory of one chunk is bounded by `CHUNK_BYTES` and
the largest batch that decompresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from barnabas_client.consumer.records import FetchedBatch
from barnabas_client.errors import CorruptRecordError, UsageError
from barnabas_protocol.errors import ErrorCode, ParseError
from barnabas_protocol.records.record import DECOMPRESSED_BYTES_MAX, read_payload

if TYPE_CHECKING:
    import pyarrow

# Large enough that the fixed cost of some fifty numpy calls vanishes, and together with the largest
# batch far below the 2 GiB that offsets of 32 bits can address.
CHUNK_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordColumns:
    """Consecutive records of one partition; all arrays have the same length.

    Timestamps are milliseconds since 1970 in UTC; -1, "none", is the last millisecond of 1969.
    Timestamp types are 0 (set by the producer) and 1 (set by the broker).
    """

    topic: str
    partition: int
    #: int64
    offsets: pyarrow.Array
    #: timestamp[ms, tz=UTC]
    timestamps: pyarrow.Array
    #: int8
    timestamp_types: pyarrow.Array
    #: binary, nullable
    keys: pyarrow.Array
    #: binary, nullable
    values: pyarrow.Array
    #: list<struct<key: string, value: binary>>
    headers: pyarrow.Array
    #: The offset behind these records.
    next_offset: int
    #: Of the last batch; -1 if it has none.
    leader_epoch: int

    def __len__(self) -> int:
        """How many records there are."""
        return len(self.offsets)

    def to_record_batch(self) -> pyarrow.RecordBatch:
        """All columns, topic and partition among them, in the order of `schema()`."""
        pa = _pyarrow()
        count = len(self)
        topics = pa.repeat(pa.scalar(self.topic, pa.string()), count)
        partitions = pa.repeat(pa.scalar(self.partition, pa.int32()), count)
        arrays = [
            *(topics, partitions, self.offsets, self.timestamps, self.timestamp_types),
            *(self.keys, self.values, self.headers),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema())

    def to_table(self) -> pyarrow.Table:
        """Return the same as a table; several go together with `pyarrow.concat_tables`."""
        return _pyarrow().Table.from_batches([self.to_record_batch()])


def schema() -> pyarrow.Schema:
    """The schema of every record batch and table made here.

    Raises: UsageError if pyarrow or numpy is not installed.
    """
    return _arrays().SCHEMA


def iterate_columns(
    batches: Iterable[FetchedBatch],
    *,
    chunk_bytes: int = CHUNK_BYTES,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    include_headers: bool = True,
) -> Iterator[RecordColumns]:
    """The records of the batches, from each one's `first_offset` on, in as few chunks as possible.

    A chunk ends with the batch that fills `chunk_bytes`, or where another partition follows. It
    may be empty; its `next_offset` still counts. Without `include_headers` the headers of all
    records are empty lists: nothing is decoded that nobody asks for.
    Raises: ParseError at a batch that cannot be read, when all before it have been yielded;
        UsageError if pyarrow or numpy is not installed.
    """
    _arrays()
    chunk = _Chunk(include_headers)
    for batch in batches:
        if chunk.batches and not chunk.may_take(batch, chunk_bytes):
            yield from _finish(chunk)
            chunk = _Chunk(include_headers)
        try:
            chunk.add(batch, max_decompressed_bytes)
        except ParseError:
            yield from _finish(chunk)
            raise
    yield from _finish(chunk)


def read_columns(
    batches: Sequence[FetchedBatch],
) -> tuple[list[RecordColumns], CorruptRecordError | None]:
    """All columns of batches of one partition, up to one that cannot be read and why not.

    Raises: UsageError if pyarrow or numpy is not installed.
    """
    found: list[RecordColumns] = []
    chunks = iterate_columns(batches)
    try:
        while (columns := next(chunks, None)) is not None:
            found.append(columns)
    except ParseError as reason:
        topic, partition = batches[0].topic, batches[0].partition
        offset = found[-1].next_offset if found else batches[0].first_offset
        error = CorruptRecordError(
            f"{topic}-{partition} cannot be read at offset {offset}: {reason}. Seek behind it to go"
            " on without these records",
            ErrorCode.CORRUPT_MESSAGE,
        )
        error.position = (topic, partition, offset)
        return found, error
    return found, None


class _Chunk:
    """Batches whose records parts lie one behind the other."""

    __slots__ = ("batches", "include_headers", "parts", "size_bytes")

    def __init__(self, include_headers: bool) -> None:
        self.include_headers = include_headers
        self.batches: list[FetchedBatch] = []
        self.parts: list[bytes | memoryview] = []
        self.size_bytes = 0

    def may_take(self, batch: FetchedBatch, chunk_bytes: int) -> bool:
        last = self.batches[-1]
        is_same = batch.partition == last.partition and batch.topic == last.topic
        return is_same and self.size_bytes < chunk_bytes

    def add(self, batch: FetchedBatch, max_decompressed_bytes: int) -> None:
        _, payload = read_payload(batch.data, 0, max_decompressed_bytes)
        self.batches.append(batch)
        self.parts.append(payload)
        self.size_bytes += len(payload)

    def only(self, index: int) -> _Chunk:
        """One batch as a chunk of its own."""
        chunk = _Chunk(self.include_headers)
        chunk.batches, chunk.parts = [self.batches[index]], [self.parts[index]]
        return chunk

    def before(self, index: int) -> _Chunk:
        """The batches before the index."""
        chunk = _Chunk(self.include_headers)
        chunk.batches, chunk.parts = self.batches[:index], self.parts[:index]
        return chunk


def _finish(chunk: _Chunk) -> Iterator[RecordColumns]:
    """The columns of the chunk; of those before a batch that cannot be read, then the error."""
    if not chunk.batches:
        return
    try:
        columns = _decode(chunk)
    except ParseError:
        for index in range(len(chunk.batches)):
            try:
                _decode(chunk.only(index))
            except ParseError:
                yield from _finish(chunk.before(index))
                raise
        raise
    yield columns


def _decode(chunk: _Chunk) -> RecordColumns:
    """All records of the chunk.

    Raises: ParseError if any of its batches cannot be read.
    """
    last = chunk.batches[-1]
    decoded = _arrays().decode(chunk.batches, chunk.parts, chunk.include_headers)
    offsets, timestamps, timestamp_types, keys, values, headers = decoded
    return RecordColumns(
        topic=last.topic,
        partition=last.partition,
        offsets=offsets,
        timestamps=timestamps,
        timestamp_types=timestamp_types,
        keys=keys,
        values=values,
        headers=headers,
        next_offset=max(last.next_offset, last.first_offset),
        leader_epoch=last.header.leader_epoch,
    )


def _arrays() -> ModuleType:
    """The module that needs numpy and pyarrow.

    Raises: UsageError if one of them is not installed.
    """
    try:
        from barnabas_client.consumer import column_arrays
    except ImportError as error:
        raise UsageError(
            f"columns need pyarrow and numpy ({error}); install them with: pip install"
            " 'barnabas[columnar]'"
        ) from error
    return column_arrays


def _pyarrow() -> Any:
    return _arrays().pa
