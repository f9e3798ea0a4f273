"""Columns decoded by a registry: few requests, bounded memory, and no bad record by mistake."""

import pyarrow as pa
import pytest

from barnabas_pipelines.errors import RegistryError
from barnabas_pipelines.registry import decoding
from barnabas_pipelines.registry.decoding import ColumnDecoder, Reading
from barnabas_pipelines.registry.settings import RegistrySettings
from tests.pipelines.registry.decoded import QUICKLY
from tests.support.registry_serializers import Serializers, avro_record
from tests.support.schema_registry import SchemaRegistry


def decoder_of(registry: SchemaRegistry, subject: str) -> ColumnDecoder:
    reading = Reading.of(RegistrySettings.of(registry.url, QUICKLY), subject)
    decoder = ColumnDecoder(reading)
    registry.on_exit(decoder.close)
    return decoder


def orders(registry: SchemaRegistry, count: int) -> list[bytes]:
    """Values of so many schemas, each with one more field than the one before."""
    serializers = Serializers(registry, "orders")
    values = []
    for number in range(count):
        more = {f"x{place}": ("int", 0) for place in range(number)}
        values.append(serializers.avro(avro_record("Order", id="int", **more), {"id": number}))
    return values


def test_a_schema_is_asked_for_once_and_not_with_each_record(registry: SchemaRegistry) -> None:
    values = orders(registry, 3)
    decoder = decoder_of(registry, "orders-value")
    before = len(registry.requests)
    for _ in range(3):
        decoder.decode(pa.array(values * 1000, pa.binary()))
    # The newest is the one that is read by: the driver has brought it.
    assert registry.requests[before:] == ["/schemas/ids/1", "/schemas/ids/2"]


def test_an_id_that_the_registry_does_not_know_is_asked_for_once_a_batch(
    registry: SchemaRegistry,
) -> None:
    """It may be registered in the meantime, or a follower of the registry may have been behind."""
    (good,) = orders(registry, 1)
    decoder = decoder_of(registry, "orders-value")
    unknown = b"\x00\x00\x00\x00\x02" + good[5:]
    column = pa.array([unknown, unknown, good], pa.binary())
    first = decoder.decode(column).to_pylist()
    assert [row["reason"] for row in first] == ["the schema registry has no schema 2"] * 2 + [None]
    assert registry.asked_for("/schemas/ids/2") == 1
    Serializers(registry, "more").avro(avro_record("Order", id="int", y=("int", 0)), {"id": 1})
    (row, *_) = decoder.decode(pa.array([good[:1] + b"\x00\x00\x00\x02" + b"\x02\x04"])).to_pylist()
    assert row == {"fields": {"id": 1}, "reason": None}


def test_what_is_remembered_has_a_bound(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "_SCHEMAS_MAX", 2)
    values = orders(registry, 5)
    decoder = decoder_of(registry, "orders-value")
    for _ in range(2):
        rows = decoder.decode(pa.array(values, pa.binary())).to_pylist()
        assert [row["fields"]["id"] for row in rows] == [0, 1, 2, 3, 4]
    assert registry.asked_for("/schemas/ids/1") == 2


def test_a_registry_that_is_away_is_an_error_and_makes_no_record_bad(
    registry: SchemaRegistry,
) -> None:
    values = orders(registry, 2)
    decoder = decoder_of(registry, "orders-value")
    registry.stop()
    try:
        with pytest.raises(RegistryError, match="cannot be used"):
            decoder.decode(pa.array(values, pa.binary()))
    finally:
        registry.start()
    rows = decoder.decode(pa.array(values, pa.binary())).to_pylist()
    assert [row["reason"] for row in rows] == [None, None]


def test_a_topic_may_change_from_one_kind_of_schema_to_another(registry: SchemaRegistry) -> None:
    serializers = Serializers(registry, "orders")
    as_json = serializers.json({"title": "O", "type": "object"}, {"id": 1})
    as_avro = serializers.avro(avro_record("Order", id="int"), {"id": 2})
    rows = decoder_of(registry, "orders-value").decode(pa.array([as_json, as_avro])).to_pylist()
    assert rows[0]["reason"] == "it is JSON Schema and no Avro"
    assert rows[1]["fields"] == {"id": 2}


def test_an_id_of_a_kind_of_schema_that_is_not_known_makes_a_bad_record(
    registry: SchemaRegistry,
) -> None:
    """It stays so with each run: as an error it would stop the job for good."""
    (good,) = orders(registry, 1)
    other = Serializers(registry, "others").register("others-value", "...", "THRIFT")
    column = pa.array([b"\x00" + other.to_bytes(4, "big") + b"x", good], pa.binary())
    rows = decoder_of(registry, "orders-value").decode(column).to_pylist()
    assert "of the type THRIFT, which is not known here" in rows[0]["reason"]
    assert rows[1]["fields"] == {"id": 0}
