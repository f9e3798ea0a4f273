"""The columns that a topic has in Spark: those of Spark's own Kafka connector, in its order.

`ddl` and `arrow_schema` are the same twice, as Spark compares the schema of every Arrow batch with
its own to the letter. pyarrow is imported only when an Arrow schema is needed.

Source: the structured streaming and Kafka integration guide of Spark 4.2. As there, a record
without headers has null for headers, and a record without a timestamp that of one millisecond
before 1970.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow

#: Names and Spark types.
COLUMNS: Final = (
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
)
#: Only with the option `includeHeaders`.
HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
HEADERS_COLUMN: Final = ("headers", HEADERS_TYPE)


def ddl(*, include_headers: bool) -> str:
    """The schema as Spark reads it from text."""
    columns = (*COLUMNS, HEADERS_COLUMN) if include_headers else COLUMNS
    return ", ".join(f"{name} {kind}" for name, kind in columns)


@cache
def arrow_schema(*, include_headers: bool) -> pyarrow.Schema:
    """The same for Arrow batches; all columns may be null, as in the connector's schema."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    fields = [pa.field(name, types[kind]) for name, kind in COLUMNS]
    if include_headers:
        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pa.field("element", header))))
    return pa.schema(fields)
