"""Arrow arrays over the bytes that were fetched, without an object per record.

Needs pyarrow and numpy (extra `columnar`), so this module is imported only when columns are asked
for. Not here: finding the fields (`column_scan.py`), batches (`columns.py`).

Keys and values are cut out in C++: their starts and ends, written alternately, are the offsets of
an array whose every second element is what lies between two of them; `take` copies the others.

Invariants: positions rise and fit in 31 bits, which the bound of a chunk sees to (`columns.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barnabas_client.consumer.column_scan import (
    Booleans,
    Contents,
    Headers,
    Integers,
    scan,
)
from barnabas_client.consumer.record_walk import walk
from barnabas_client.consumer.records import FetchedBatch
from barnabas_protocol.errors import ParseError

_DECODED: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")

HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])

#: The columns of a record batch or table, the same for every topic.
SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER_TYPE), nullable=False),
    ]
)


def decode(
    batches: Sequence[FetchedBatch],
    parts: Sequence[bytes | memoryview],
    include_headers: bool = True,
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Offsets, timestamps, timestamp types, keys, values and headers of all records in order.

    `parts` are the decompressed records of the batches; together they are below 2 GiB. Headers
    that are not wanted are empty lists; that they can be parsed is checked all the same.
    Raises: ParseError if any batch cannot be read.
    """
    data, positions = _in_one_buffer(parts)
    starts = array("q")
    ends = [position + len(part) for position, part in zip(positions, parts, strict=True)]
    for batch, position, end in zip(batches, positions, ends, strict=True):
        walk(data, position, end, batch.header.record_count, starts)
    if not starts:
        return tuple(pa.array([], SCHEMA.field(name).type) for name in _DECODED)
    counts = np.array([batch.header.record_count for batch in batches])
    fields = scan(data, *_extents(starts, np.array(ends), counts))
    offsets = _sums([batch.header.base_offset for batch in batches], counts, fields.offset_deltas)
    timestamps, types = _timestamps(batches, counts, fields.timestamp_deltas)
    keys, values = fields.keys, fields.values
    headers = fields.headers if include_headers else None
    first_offsets = np.repeat([batch.first_offset for batch in batches], counts)
    is_wanted = offsets >= first_offsets
    if not is_wanted.all():
        offsets, timestamps, types = offsets[is_wanted], timestamps[is_wanted], types[is_wanted]
        keys, values = keys.only(is_wanted), values.only(is_wanted)
        headers = None if headers is None else headers.of_records(is_wanted)
    return (
        integer_array(offsets, pa.int64()),
        integer_array(timestamps, SCHEMA.field("timestamp").type),
        integer_array(types, pa.int8()),
        binary_array(data, keys),
        binary_array(data, values),
        header_array(data, headers, len(offsets)),
    )


def _in_one_buffer(
    parts: Sequence[bytes | memoryview],
) -> tuple[bytes | bytearray, list[int]]:
    """A buffer that holds all parts in their order, and where each begins in it.

    Uncompressed batches of one answer lie in one buffer already: fresh memory for a copy of them
    would cost more than anything else here.
    """
    whole = parts[0].obj if isinstance(parts[0], memoryview) else None
    if isinstance(whole, (bytes, bytearray)):
        base, positions, last = pa.py_buffer(whole).address, [], 0
        for part in parts:
            if not isinstance(part, memoryview) or part.obj is not whole:
                break
            position = pa.py_buffer(part).address - base if part else last
            if position < last:
                break
            positions.append(position)
            last = position + len(part)
        else:
            return whole, positions
    joined = b"".join(parts)
    sizes = [len(part) for part in parts]
    return joined, [0, *accumulate(sizes[:-1])]


def _extents(starts: array[int], batch_ends: Integers, counts: Integers) -> tuple[Any, Any]:
    """Where every record begins and ends: where the next one begins, or its batch ends."""
    begins: Integers = np.frombuffer(starts, np.int64)
    ends = np.empty_like(begins)
    ends[:-1] = begins[1:]
    has_records = counts > 0
    ends[np.cumsum(counts)[has_records] - 1] = batch_ends[has_records]
    return begins, ends


def _timestamps(
    batches: Sequence[FetchedBatch], counts: Integers, deltas: Integers
) -> tuple[Integers, NDArray[np.int8]]:
    """The timestamps of all records, and their types."""
    headers = [batch.header for batch in batches]
    types = np.repeat(np.array([header.is_log_append_time for header in headers], np.int8), counts)
    if types.any():
        # The broker's clock stands for every record of such a batch.
        deltas = np.where(types, 0, deltas)
    bases = [h.max_timestamp if h.is_log_append_time else h.base_timestamp for h in headers]
    return _sums(bases, counts, deltas), types


def _sums(bases: list[int], counts: Integers, deltas: Integers) -> Integers:
    """What the batch says plus what each of its records says.

    Raises: ParseError if a sum does not fit in 64 bits.
    """
    base = np.repeat(np.array(bases, np.int64), counts)
    sums = base + deltas
    if (((base ^ sums) & (deltas ^ sums)) < 0).any():
        raise ParseError("offset or timestamp of more than 64 bits", 0)
    return sums


def integer_array(numbers: NDArray[Any], kind: Any) -> Any:
    """The numbers as an array of a type of the same width, sharing their memory."""
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def binary_array(data: bytes | bytearray, contents: Contents) -> Any:
    """The contents as a compact array of binary, which does not share the memory of `data`."""
    count = len(contents.starts)
    if not count or (contents.is_null is not None and contents.is_null.all()):
        return pa.nulls(count, pa.binary())
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2] = contents.starts
    offsets[1::2] = contents.ends
    offsets[-1] = offsets[-2]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    whole = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    found = whole.take(integer_array(np.arange(0, 2 * count, 2), pa.int64()))
    if contents.is_null is None:
        return found
    buffers = [_validity(contents.is_null), *found.buffers()[1:]]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _validity(is_null: Booleans) -> Any:
    return pa.py_buffer(np.packbits(~is_null, bitorder="little"))


def header_array(data: bytes | bytearray, headers: Headers | None, record_count: int) -> Any:
    """The headers of every record as lists of key and value.

    Bytes of a key that are not UTF-8 become U+FFFD, as in Java's client: Arrow's strings are UTF-8.
    """
    offsets = np.zeros(record_count + 1, np.int32)
    if headers is None:
        return pa.ListArray.from_arrays(pa.array(offsets), pa.nulls(0, HEADER_TYPE))
    np.cumsum(headers.counts, out=offsets[1:])
    keys = binary_array(data, headers.names)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:
        readable = [key.decode("utf-8", "replace") for key in keys.to_pylist()]
        names = pa.array(readable, pa.string())
    values = binary_array(data, headers.values)
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(pa.array(offsets), pairs)
