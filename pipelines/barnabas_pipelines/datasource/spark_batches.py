"""Arrow columns as the client gives them, made into the batches that Spark takes for a topic.

Pure, and without a Python object per record. Spark wants microseconds, its own integer widths,
and null where a record has no headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas_client.consumer.columns import RecordColumns
from barnabas_pipelines.schema import arrow_schema


def spark_batches(
    columns: RecordColumns, *, end: int, records_max: int, include_headers: bool
) -> Iterator[pa.RecordBatch]:
    """The records below offset `end`, at most `records_max` in a batch; no batch is empty."""
    schema = arrow_schema(include_headers=include_headers)
    count = len(columns)
    if count and columns.next_offset > end:
        count = int(np.searchsorted(columns.offsets.to_numpy(zero_copy_only=True), end))
    for start in range(0, count, records_max):
        size = min(records_max, count - start)
        yield pa.RecordBatch.from_arrays(_arrays(columns, start, size, schema), schema=schema)


def _arrays(columns: RecordColumns, start: int, size: int, schema: pa.Schema) -> list[Any]:
    """The columns of one batch."""
    timestamps = columns.timestamps.slice(start, size)
    arrays = [
        columns.keys.slice(start, size),
        columns.values.slice(start, size),
        pa.repeat(pa.scalar(columns.topic, pa.string()), size),
        pa.repeat(pa.scalar(columns.partition, pa.int32()), size),
        columns.offsets.slice(start, size),
        timestamps.cast(schema.field("timestamp").type),
        columns.timestamp_types.slice(start, size).cast(pa.int32()),
    ]
    if "headers" in schema.names:
        headers = columns.headers.slice(start, size)
        arrays.append(_without_empty(headers, schema.field("headers").type))
    return arrays


def _without_empty(headers: Any, kind: pa.DataType) -> Any:
    """The lists of headers, null for those without any."""
    lengths = pc.list_value_length(headers)
    if pc.min(lengths).as_py() == 0:
        is_empty = pc.equal(lengths, 0)
        headers = pc.if_else(is_empty, pa.scalar(None, headers.type), headers)
    return headers.cast(kind)
