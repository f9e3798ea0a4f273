"""From rows in Arrow batches to what a producer takes: lists of bytes, by topic and partition.

Columns are those of Spark's Kafka connector, with its checks and words: `value` (text or binary) is
required; `key`, `headers`, `topic` and `partition` are optional. One more is taken here:
`timestamp`, which the connector drops. Others are ignored.

A row without a partition goes where its key's hash says, as with every Kafka client; without
a key, anywhere. A row whose timestamp is null, or the -1 ms with which rows without a timestamp are
read, is stamped when it is written.

Not here: sending (`record_sender.py`). Needs pyarrow and numpy.
Invariants: rows of one partition keep their order; a list that is handed out is as long as its
group has rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barnabas_client.producer.key_columns import NO_PARTITION, partitions_of_keys
from barnabas_pipelines.errors import ColumnsError
from barnabas_pipelines.schema import HEADERS_TYPE

_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}
# Bounds of what is made into Python objects at once.
_CHUNK_ROWS: Final = 16_384
_CHUNK_BYTES: Final = 8 << 20
_US_PER_MS: Final = 1000
_NO_TIMESTAMP_MS: Final = -1

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Rows for one partition, or for any if it is None; the arguments of `Producer.send_many`."""

    partition: int | None
    values: list[bytes | None]
    keys: list[bytes | None] | None
    timestamps_ms: list[int]
    headers: list[Headers] | None


def check_columns(columns: Sequence[tuple[str, str]], *, has_topic: bool) -> None:
    """Refuse names and Spark types of columns that cannot be written.

    `has_topic` says that an option names the topic. Raises: ColumnsError.
    """
    types = dict(columns)
    if not has_topic and "topic" not in types:
        raise ColumnsError(
            "topic option required when no 'topic' attribute is present. Use the topic option for "
            "setting a topic."
        )
    if "value" not in types:
        raise ColumnsError("Required attribute 'value' not found")
    for name, allowed in _TYPES.items():
        found = types.get(name)
        if found is not None and found not in allowed:
            hint = "; rename or drop the column" if name == "timestamp" else ""
            raise ColumnsError(
                f"{name} attribute unsupported type {found}. {name} must be a(n) "
                f"{' or '.join(allowed)}{hint}"
            )


def chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of bounded size."""
    row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
    step = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // row_bytes))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic: all of them for `topic`, or else as their column says.

    Raises: ColumnsError for a row without a topic.
    """
    if topic is not None:
        yield topic, rows
        return
    column = rows.column("topic")
    if column.null_count:
        raise ColumnsError(
            "a row has a null topic. Use the `topic` option for setting a default topic."
        )
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], rows
        return
    for index, (start, stop, order) in enumerate(_runs(encoded.indices.to_numpy())):
        yield names[index], rows.take(pa.array(order[start:stop]))


def needs_partition_count(rows: pa.RecordBatch) -> bool:
    """Whether keys say where rows go."""
    if "key" not in rows.schema.names or rows.column("key").null_count == rows.num_rows:
        return False
    return "partition" not in rows.schema.names or bool(rows.column("partition").null_count)


def by_partition(
    rows: pa.RecordBatch, partition_count: int | None, now_ms: int
) -> Iterator[RowGroup]:
    """The rows of one topic, by partition; the count is needed where keys say where rows go.

    Raises: ColumnsError for a negative partition.
    """
    partitions = _partitions(rows, partition_count)
    columns = _Columns(rows, now_ms)
    if len(partitions) and (partitions == partitions[0]).all():
        yield columns.group(int(partitions[0]))
        return
    for start, stop, order in _runs(partitions):
        wanted = order[start:stop]
        only = _Columns(rows.take(pa.array(wanted)), now_ms)
        yield only.group(int(partitions[wanted[0]]))


def _partitions(rows: pa.RecordBatch, partition_count: int | None) -> NDArray[np.int32]:
    """The partition of every row, NO_PARTITION for those that may go anywhere."""
    found = np.full(rows.num_rows, NO_PARTITION, np.int32)
    if partition_count is not None:
        found = partitions_of_keys(_binary(rows.column("key")), partition_count)
    if "partition" not in rows.schema.names:
        return found
    column = rows.column("partition")
    chosen = column.fill_null(0).to_numpy()
    if len(chosen) and chosen.min() < 0:
        raise ColumnsError(
            f"Invalid partition: {chosen.min()}. Partition number should always be non-negative or "
            "null."
        )
    if not column.null_count:
        return chosen
    return np.where(column.is_null().to_numpy(zero_copy_only=False), found, chosen)


def _runs(numbers: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Starts and stops in an order of indices that brings equal numbers together, stably."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    edges = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(ordered)]
    for start, stop in pairwise(edges):
        if stop > start:
            yield start, stop, order


class _Columns:
    """The columns of some rows as lists."""

    def __init__(self, rows: pa.RecordBatch, now_ms: int) -> None:
        self._rows = rows
        self._now_ms = now_ms

    def group(self, partition: int) -> RowGroup:
        """All rows as a group."""
        values = _binary(self._rows.column("value")).to_pylist()
        return RowGroup(
            partition=None if partition == NO_PARTITION else partition,
            values=values,
            keys=self._keys(),
            timestamps_ms=self._timestamps(),
            headers=self._headers(),
        )

    def _keys(self) -> list[bytes | None] | None:
        column = self._optional("key")
        if column is None or column.null_count == len(column):
            return None
        found: list[bytes | None] = _binary(column).to_pylist()
        return found

    def _timestamps(self) -> list[int]:
        count = self._rows.num_rows
        column = self._optional("timestamp")
        if column is None or column.null_count == count:
            return [self._now_ms] * count
        in_us = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
        in_ms = in_us.fill_null(_NO_TIMESTAMP_MS * _US_PER_MS).to_numpy() // _US_PER_MS
        found: list[int] = np.where(in_ms == _NO_TIMESTAMP_MS, self._now_ms, in_ms).tolist()
        return found

    def _headers(self) -> list[Headers] | None:
        column = self._optional("headers")
        if column is None or not len(column.flatten()):
            return None
        pairs_column = column.flatten()
        names = pairs_column.field(0).to_pylist()
        pairs = list(zip(names, pairs_column.field(1).to_pylist(), strict=True))
        # Null lists take no room in the flat column, whatever lies between their offsets.
        sizes = column.value_lengths().fill_null(0).to_numpy()
        ends = [0, *np.cumsum(sizes).tolist()]
        return [pairs[start:stop] for start, stop in pairwise(ends)]

    def _optional(self, name: str) -> Any:
        return self._rows.column(name) if name in self._rows.schema.names else None


def _binary(column: pa.Array) -> pa.Array:
    """Text as its UTF-8; what is binary stays."""
    return column if column.type == pa.binary() else column.cast(pa.binary())
