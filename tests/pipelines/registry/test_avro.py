"""Avro by a registry: what real serializers wrote, read by one schema of the subject."""

import datetime
import decimal
import io
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaReference

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.registry.avro import AvroReader
from barnabas_pipelines.registry.client import RegisteredSchema, SchemaType
from barnabas_pipelines.registry.reading import fields_ddl
from tests.pipelines.registry.decoded import Decoded
from tests.support.registry_serializers import Serializers, avro_record
from tests.support.schema_registry import SchemaRegistry

V1 = avro_record("Order", id="int", note="string")
V2 = avro_record("Order", id="long", amount=("double", 1.5), customer=(["null", "string"], None))
V3 = avro_record("Order", id="long", amount=("double", 1.5), city=("string", "Ulm"))
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=datetime.UTC)


def reader_of(schema: Any) -> AvroReader:
    import json

    registered = RegisteredSchema(type=SchemaType.AVRO, text=json.dumps(schema), schema_id=1)
    return AvroReader(registered)


def read(schema: Any, value: Any, writer: Any = None) -> Any:
    """The value through the bytes and back, as the fields of `schema`."""
    import json

    source = io.BytesIO()
    fastavro.schemaless_writer(source, fastavro.parse_schema(writer or schema), value)
    text = json.dumps(writer or schema)
    written_with = RegisteredSchema(type=SchemaType.AVRO, text=text, schema_id=2)
    return reader_of(schema).decoder(written_with)(source.getvalue())


def test_values_of_older_and_newer_schemas_are_read_by_one(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    """Several ids in one batch are the usual thing while producers are brought up to date."""
    serializers = Serializers(registry, "orders")
    values = [
        serializers.avro(V1, {"id": 1, "note": "x"}),
        serializers.avro(V2, {"id": 2, "amount": 2.0, "customer": "ada"}),
        serializers.avro(V3, {"id": 3, "amount": 3.0, "city": "Oslo"}),
    ]
    assert [row["fields"] for row in decode("orders-value", values, version="2")] == [
        {"id": 1, "amount": 1.5, "customer": None},
        {"id": 2, "amount": 2.0, "customer": "ada"},
        {"id": 3, "amount": 3.0, "customer": None},
    ]
    newest = decode("orders-value", values)
    assert [row["fields"]["city"] for row in newest] == ["Ulm", "Ulm", "Oslo"]


def test_a_schema_may_refer_to_others(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    serializers = Serializers(registry, "orders")
    import json

    serializers.register("address", json.dumps(avro_record("Address", street="string")), "AVRO")
    order = avro_record("Order", to="shop.Address", back=["null", "shop.Address"])
    value = serializers.avro(
        order,
        {"to": {"street": "a"}, "back": {"street": "b"}},
        [SchemaReference("shop.Address", "address", 1)],
    )
    (row,) = decode("orders-value", [value])
    assert row["fields"] == {"to": {"street": "a"}, "back": {"street": "b"}}


def test_types_are_those_of_spark() -> None:
    schema = avro_record(
        "All",
        number="int",
        day={"type": "int", "logicalType": "date"},
        at={"type": "long", "logicalType": "timestamp-millis"},
        clock={"type": "long", "logicalType": "time-micros"},
        price={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        colour={"type": "enum", "name": "Colour", "symbols": ["RED"]},
        hash={"type": "fixed", "name": "Hash", "size": 2},
        tags={"type": "array", "items": "string"},
        counts={"type": "map", "values": "long"},
        either=["null", "int", "long"],
        inner=avro_record("Inner", x="boolean"),
    )
    assert fields_ddl(reader_of(schema).type) == (
        "`number` INT, `day` DATE, `at` TIMESTAMP, `clock` BIGINT, `price` DECIMAL(9, 2), "
        "`colour` STRING, `hash` BINARY, `tags` ARRAY<STRING>, `counts` MAP<STRING, BIGINT>, "
        "`either` BIGINT, `inner` STRUCT<`x`: BOOLEAN>"
    )
    found = read(
        schema,
        {
            "number": 1,
            "day": AT.date(),
            "at": AT,
            "clock": datetime.time(0, 0, 1, 5),
            "price": decimal.Decimal("3.14"),
            "colour": "RED",
            "hash": b"ab",
            "tags": ["t"],
            "counts": {"a": 1},
            "either": 2**40,
            "inner": {"x": True},
        },
    )
    assert found["clock"] == 1_000_005
    assert found["counts"] == [("a", 1)]
    assert (found["price"], found["colour"], found["hash"]) == (
        decimal.Decimal("3.14"),
        "RED",
        b"ab",
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("text", {"member0": "text"}),
        (7, {"member1": 7}),
        (("shop.Colour", "RED"), {"member2": "RED"}),
        ({"x": 1}, {"member3": {"x": 1}}),
        (AT, {"member4": AT}),
    ],
)
def test_a_union_of_several_types_is_a_struct_of_members(value: Any, expected: Any) -> None:
    """As Spark's from_avro has it; without the names of branches an enum would be a string."""
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    at = {"type": "long", "logicalType": "timestamp-micros"}
    inner = avro_record("Inner", x="int")
    schema = avro_record(
        "Order", u=["null", "string", "int", colour, inner, at], one=["null", inner["name"]]
    )
    assert read(schema, {"u": value, "one": {"x": 2}}) == {"u": expected, "one": {"x": 2}}


def test_defaults_of_bytes_decimals_and_times_are_values_of_their_type() -> None:
    """A default is written in JSON, in which bytes are text and milliseconds a number."""
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    at = {"type": "long", "logicalType": "timestamp-millis"}
    schema = avro_record("Order", raw=("bytes", "\u00ff"), price=(price, "\u0001"), at=(at, 5))
    found = read(schema, {}, avro_record("Order"))
    assert found == {"raw": b"\xff", "price": decimal.Decimal("0.01"), "at": 5000}


def test_a_record_inside_of_itself_is_json() -> None:
    schema = avro_record("Node", id="int", next=["null", "shop.Node"])
    found = read(schema, {"id": 1, "next": {"id": 2, "next": None}})
    assert found == {"id": 1, "next": '{"id":2,"next":null}'}


def test_a_value_that_is_no_record_has_one_field() -> None:
    assert read("long", 5) == {"value": 5}


def test_a_schema_that_is_no_avro_is_refused() -> None:
    with pytest.raises(OptionsError, match="no Avro"):
        reader_of({"type": "nothing"})


def test_values_that_are_cut_off_too_long_or_of_another_record_have_a_reason(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    serializers = Serializers(registry, "orders")
    good = serializers.avro(V1, {"id": 1, "note": "text"})
    other = serializers.avro(avro_record("Payment", cents="int"), {"cents": 1})
    rows = decode("orders-value", [good[:-1], good + b"\x00", other, good], version="1")
    assert [row["reason"] for row in rows] == [
        "it is no Avro of its schema 1",
        "it has more bytes than its schema 1 says",
        "its schema 2 cannot be read as Avro, orders-value version 1, id 1",
        None,
    ]
