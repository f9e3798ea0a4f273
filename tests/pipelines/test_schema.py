"""The columns of a topic are those of Spark's own Kafka connector."""

import pyarrow as pa

from barnabas_pipelines.schema import arrow_schema, ddl

CONNECTOR = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int"
)


def test_the_columns_are_the_connectors() -> None:
    """A program that changes the format finds every column where it was."""
    assert ddl(include_headers=False) == CONNECTOR
    assert ddl(include_headers=True) == (
        CONNECTOR + ", headers array<struct<key:string,value:binary>>"
    )


def test_arrow_batches_have_the_same_columns() -> None:
    """Spark refuses batches whose schema differs in a name, a width or a unit."""
    schema = arrow_schema(include_headers=True)
    assert schema.names == [part.split()[0] for part in ddl(include_headers=True).split(", ")]
    assert schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert schema.field("offset").type == pa.int64()
    assert schema.field("timestampType").type == pa.int32()
    assert schema.field("headers").type.value_field.name == "element"
    assert all(field.nullable for field in schema)
    assert arrow_schema(include_headers=False).names == schema.names[:-1]
