"""JSON Schema by a registry: what real serializers wrote, validated by the schema it names."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaReference

from barnabas_pipelines.registry.client import RegisteredSchema, SchemaType
from barnabas_pipelines.registry.json_schema import JsonSchemaReader
from barnabas_pipelines.registry.reading import fields_ddl
from tests.pipelines.registry.decoded import Decoded
from tests.support.registry_serializers import Serializers
from tests.support.schema_registry import SchemaRegistry

DRAFT = "http://json-schema.org/draft-07/schema#"
ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}
REFERENCE = SchemaReference("http://shop/address.json", "address", 1)


def order(**more: Any) -> dict[str, Any]:
    properties = {
        "id": {"type": "integer"},
        "amount": {"oneOf": [{"type": "null"}, {"type": "number", "minimum": 0}]},
        **more,
    }
    return {
        "$schema": DRAFT,
        "title": "Order",
        "type": "object",
        "properties": properties,
        "required": ["id"],
    }


def test_values_are_validated_by_their_own_schema_and_read_by_one(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    serializers = Serializers(registry, "orders")
    newer = order(note={"type": "string", "maxLength": 3})
    values: list[bytes | None] = [
        serializers.json(order(), {"id": 1, "amount": 2, "note": "long text"}),
        serializers.json(newer, {"id": 2, "note": "ok"}),
        serializers.json(newer, {"id": 3, "note": "long text"}),
    ]
    rows = decode("orders-value", values)
    assert [row["fields"] for row in rows] == [
        {"id": 1, "amount": 2.0, "note": "long text"},
        {"id": 2, "amount": None, "note": "ok"},
        None,
    ]
    assert rows[2]["reason"] == "it breaks its schema 2: $.note is to have maxLength 3"


def test_a_reason_tells_what_is_wrong_and_none_of_the_value(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    """Reasons are in logs and metrics of whoever runs the job; values may be private."""
    serializers = Serializers(registry, "orders")
    bad = [{"id": "secret"}, {"amount": 1}, {"id": 10**30}, ["secret"], {"id": 1.5}]
    rows = decode("orders-value", [serializers.json(order(), value) for value in bad])
    assert [row["reason"] for row in rows] == [
        'it breaks its schema 1: $.id is to have type "integer"',
        'it breaks its schema 1: $ is to have required ["id"]',
        "a field does not fit the type by which it is read",
        'it breaks its schema 1: $ is to have type "object"',
        'it breaks its schema 1: $.id is to have type "integer"',
    ]


def test_a_schema_may_refer_to_others(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    serializers = Serializers(registry, "orders")
    serializers.register("address", json.dumps(ADDRESS), "JSON")
    schema = order(to={"$ref": REFERENCE.name})
    values: list[bytes | None] = [
        serializers.json(schema, {"id": 1, "to": {"street": "a"}}, [REFERENCE]),
        serializers.json(schema, {"id": 1, "to": {}}, [REFERENCE]),
    ]
    good, bad = decode("orders-value", values)
    assert good["fields"] == {"id": 1, "amount": None, "to": {"street": "a"}}
    assert "$.to is to have required" in bad["reason"]


@pytest.mark.parametrize("text", [b"{", b'{"id": NaN}', b"\xff", b"", b'{"id": 1} x'])
def test_what_is_no_json_has_a_reason(
    registry: SchemaRegistry, decode: Callable[..., Decoded], text: bytes
) -> None:
    header = Serializers(registry, "orders").json(order(), {"id": 1})[:5]
    (row,) = decode("orders-value", [header + text])
    assert row["reason"] == "it is no JSON"


@pytest.mark.parametrize(
    "text",
    [
        b'{"id": 1, "amount": ' + b"9" * 400 + b"}",
        b'{"id": 1, "share": ' + b"9" * 400 + b"}",
        b'{"id": 1, "share": 1e400}',
    ],
)
def test_a_number_that_is_too_large_has_a_reason(
    registry: SchemaRegistry, decode: Callable[..., Decoded], text: bytes
) -> None:
    """One such record ended the job, whatever it was to do with what cannot be decoded."""
    schema = order(share={"type": "number", "multipleOf": 0.5})
    good = Serializers(registry, "orders").json(schema, {"id": 1})
    bad, after = decode("orders-value", [good[:5] + text, good])
    assert bad["fields"] is None
    assert bad["reason"] is not None
    assert (after["fields"]["id"], after["reason"]) == (1, None)


def test_a_value_that_is_nested_too_deeply_has_a_reason(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    """Some depths can be parsed, but not be written as text again."""
    good = Serializers(registry, "orders").json(order(any={}), {"id": 1})
    deep = [
        good[:5] + b'{"id": 1, "any": ' + b"[" * depth + b"]" * depth + b"}"
        for depth in range(100, sys.getrecursionlimit() + 10, 1)
    ]
    rows = decode("orders-value", [*deep, good])
    assert all((row["fields"] is None) == (row["reason"] is not None) for row in rows)
    assert rows[0]["reason"] is None
    assert rows[-2]["reason"] is not None
    assert rows[-1]["reason"] is None


def test_a_pattern_that_python_does_not_have_is_a_reason(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    """Patterns of JSON Schema are those of ECMAScript, and of schemas referred to none is tried."""
    serializers = Serializers(registry, "orders")
    address = {"type": "object", "properties": {"street": {"pattern": "^\\p{Lu}"}}}
    serializers.register("address", json.dumps(address), "JSON")
    schema = order(to={"$ref": REFERENCE.name})
    value = serializers.json(schema, {"id": 1, "to": {"street": "A"}}, [REFERENCE])
    (row,) = decode("orders-value", [value])
    assert row["reason"] == "its schema 2 has a pattern that is none in Python"


def test_types_that_spark_does_not_have_are_json() -> None:
    schema = {
        "$schema": DRAFT,
        "type": "object",
        "properties": {
            "any": {},
            "choice": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "several": {"type": ["string", "integer", "null"]},
            "self": {"$ref": "#"},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "size": {"enum": ["S", "M"]},
            "tags": {"type": "array", "items": {"$ref": "#/definitions/tag"}},
        },
        "definitions": {"tag": {"type": ["string", "null"]}},
    }
    text = json.dumps(schema)
    registered = RegisteredSchema(type=SchemaType.JSON, text=text, schema_id=1)
    reader = JsonSchemaReader(registered)
    assert fields_ddl(reader.type) == (
        "`any` STRING, `choice` STRING, `several` STRING, `self` STRING, "
        "`counts` MAP<STRING, BIGINT>, `size` STRING, `tags` ARRAY<STRING>"
    )
    value = {"any": [1], "choice": 2, "self": {"any": "x"}, "counts": {"a": 1}, "tags": ["t", None]}
    found = reader.decoder(registered)(json.dumps(value).encode())
    assert found == {
        "any": "[1]",
        "choice": "2",
        "several": None,
        "self": '{"any":"x"}',
        "counts": [("a", 1)],
        "size": None,
        "tags": ["t", None],
    }
