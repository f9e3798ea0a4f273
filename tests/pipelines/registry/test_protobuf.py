"""Protobuf by a registry: what the real serializer wrote, with references and message indexes."""

import datetime
import decimal
from collections.abc import Callable

import pytest

from barnabas_pipelines.errors import OptionsError
from tests.pipelines.registry.decoded import Decoded
from tests.support.registry_serializers import (
    FIELD,
    Serializers,
    protobuf_classes,
    protobuf_file,
)
from tests.support.schema_registry import SchemaRegistry

MONEY = protobuf_file(
    "money.proto", {"Money": [(1, "cents", FIELD.TYPE_INT64), (2, "currency", FIELD.TYPE_STRING)]}
)
ORDER = protobuf_file(
    "order.proto",
    {
        "Order": [
            (1, "id", FIELD.TYPE_UINT64),
            (2, "price", FIELD.TYPE_MESSAGE, ".shop.Money"),
            (3, "tags", FIELD.TYPE_STRING, None, True),
            (4, "at", FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            (5, "parent", FIELD.TYPE_MESSAGE, ".shop.Order"),
            (6, "count", FIELD.TYPE_INT32),
        ],
        "Refund": [(1, "id", FIELD.TYPE_STRING)],
    },
    ["money.proto", "google/protobuf/timestamp.proto"],
)
CLASSES = protobuf_classes(MONEY, ORDER)
Order, Refund, Money = (CLASSES[f"shop.{name}"] for name in ("Order", "Refund", "Money"))


def test_a_message_with_references_is_read(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    """A field that is not there is its default, or null where Protobuf knows that it is not."""
    whole = Order(id=2**64 - 1, price=Money(cents=5), tags=["a", "b"], parent=Order(id=3))
    whole.at.FromDatetime(datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    serializers = Serializers(registry, "orders")
    first, second = decode(
        "orders-value", [serializers.protobuf(whole), serializers.protobuf(Order())]
    )
    assert first["fields"] == {
        "id": decimal.Decimal(2**64 - 1),
        "price": {"cents": 5, "currency": ""},
        "tags": ["a", "b"],
        "at": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "parent": '{"id": "3"}',
        "count": 0,
    }
    assert second["fields"] == {
        "id": decimal.Decimal(0),
        "price": None,
        "tags": [],
        "at": None,
        "parent": None,
        "count": 0,
    }


def test_the_message_is_the_first_of_the_schema_or_the_one_that_is_named(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    serializers = Serializers(registry, "orders")
    values: list[bytes | None] = [
        serializers.protobuf(Order(id=1)),
        serializers.protobuf(Refund(id="r")),
    ]
    orders = decode("orders-value", values)
    assert [row["reason"] for row in orders] == [
        None,
        "it is a message shop.Refund and no shop.Order",
    ]
    refunds = decode("orders-value", values, message="shop.Refund")
    assert refunds[1]["fields"] == {"id": "r"}
    with pytest.raises(OptionsError, match=r"no message Refund; it has shop.Order, shop.Refund"):
        decode("orders-value", values, message="Refund")


def test_fields_are_known_by_their_numbers_across_schemas(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    """A field that was renamed is the same field, and one that was added later is left out."""
    old = protobuf_file("a.proto", {"A": [(1, "name", FIELD.TYPE_STRING)]})
    new = protobuf_file(
        "a.proto", {"A": [(1, "title", FIELD.TYPE_STRING), (2, "more", FIELD.TYPE_STRING)]}
    )
    serializers = Serializers(registry, "a")
    values: list[bytes | None] = [
        serializers.protobuf(protobuf_classes(old)["shop.A"](name="x")),
        serializers.protobuf(protobuf_classes(new)["shop.A"](title="y", more="z")),
    ]
    assert [row["fields"] for row in decode("a-value", values, version="1")] == [
        {"name": "x"},
        {"name": "y"},
    ]
    assert [row["fields"] for row in decode("a-value", values)] == [
        {"title": "x", "more": ""},
        {"title": "y", "more": "z"},
    ]


def test_values_that_are_no_message_have_a_reason(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    good = Serializers(registry, "orders").protobuf(Order(id=1, tags=["text"]))
    rows = decode("orders-value", [good[:-1], good[:5], good[:5] + b"\x02\x14", good])
    assert [row["reason"] for row in rows] == [
        "it is no message shop.Order",
        "it is cut off in its message indexes",
        "its schema has no message at [10]",
        None,
    ]


def test_what_json_does_not_have_is_a_reason(
    registry: SchemaRegistry, decode: Callable[..., Decoded]
) -> None:
    """A message inside of itself is JSON, which has no NaN and no Any of an unknown type."""
    node = protobuf_file(
        "node.proto",
        {
            "Node": [
                (1, "value", FIELD.TYPE_MESSAGE, ".google.protobuf.Value"),
                (2, "any", FIELD.TYPE_MESSAGE, ".google.protobuf.Any"),
                (3, "next", FIELD.TYPE_MESSAGE, ".shop.Node"),
            ]
        },
        ["google/protobuf/struct.proto", "google/protobuf/any.proto"],
    )
    made = protobuf_classes(node)["shop.Node"]
    no_number, unknown, good = made(), made(), made()
    no_number.next.value.number_value = float("nan")
    unknown.next.any.type_url = "type.googleapis.com/shop.Nobody"
    good.next.value.number_value = 1.5
    serializers = Serializers(registry, "nodes")
    values = [serializers.protobuf(one) for one in (no_number, unknown, good)]
    rows = decode("nodes-value", values)
    assert [row["reason"] for row in rows] == ["it is no message shop.Node"] * 2 + [None]
