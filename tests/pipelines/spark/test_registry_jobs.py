"""Jobs on topics whose keys and values are by a schema registry: real serializers, real broker."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from deltalake import DeltaTable

from barnabas_pipelines.jobs import aggregate, quality, snapshot
from barnabas_pipelines.jobs.job import Job, main
from tests.pipelines.spark.records import RecordToSend, consume, delete_topic
from tests.support.barnabas_process import BarnabasProcess
from tests.support.registry_serializers import (
    FIELD,
    Serializers,
    avro_record,
    protobuf_classes,
    protobuf_file,
)
from tests.support.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PASSWORD = "open-sesame"
AVRO_V1 = avro_record("Order", id="int")
AVRO_V2 = avro_record("Order", id="long", amount=("double", 1.5))
AVRO_KEY = avro_record("OrderKey", id="int")
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 0}, "amount": {"type": "number"}},
    "required": ["id"],
}
ORDER = protobuf_file(
    "order.proto", {"Order": [(1, "id", FIELD.TYPE_INT32), (2, "amount", FIELD.TYPE_DOUBLE)]}
)
Proto = protobuf_classes(ORDER)["shop.Order"]


class World:
    """A topic, a registry that wants a password, and the settings of jobs on them."""

    def __init__(
        self, bootstrap: str, topics: list[str], folder: Path, registry: SchemaRegistry
    ) -> None:
        self.bootstrap = bootstrap
        self.topic, self.good = topics
        self.folder = folder
        self.registry = registry
        login = {"basic.auth.user.info": f"ada:{PASSWORD}"}
        self.serializers = Serializers(registry, self.topic, **login)
        self.keys = Serializers(registry, self.topic, is_key=True, **login)

    def run(self, job: Job, **changes: Any) -> int:
        config = {
            "bootstrap-servers": self.bootstrap,
            "topic": self.topic,
            "via": "python",
            "value-format": "registry",
            "schema-registry": self.registry.url,
            "schema-registry-option": {
                "basic.auth.user.info": f"ada:{PASSWORD}",
                "max.retries": "1",
                "retries.wait.ms": "1",
            },
            **{name.replace("_", "-"): value for name, value in changes.items() if value},
        }
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump(config))
        return main(job, ["--config", str(file)])

    def quality(self, checkpoint: str | None = "checkpoint", **changes: Any) -> int:
        settings = {
            "dead_letter_table": str(self.folder / "bad"),
            "good_topic": self.good,
            "checkpoint": checkpoint and str(self.folder / checkpoint),
            **changes,
        }
        return self.run(quality.JOB, **settings)

    def table(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (
            DeltaTable(str(self.folder / name)).to_pyarrow_table().to_pylist()
        )
        return rows


@pytest.fixture
def world(
    spark: "SparkSession",
    broker: BarnabasProcess,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[World]:
    # What ada:open-sesame is in the header of HTTP.
    with SchemaRegistry(authorization="Basic YWRhOm9wZW4tc2VzYW1l") as registry:
        yield World(broker.bootstrap, [new_topic(2), new_topic()], tmp_path, registry)


def record(value: bytes | None, *, key: bytes | None = b"k", partition: int = 0) -> RecordToSend:
    return RecordToSend(value=value, key=key, partition=partition, headers=[("h", b"\x00")])


def values_in(world: World, kind: str) -> tuple[list[bytes], list[tuple[bytes, str]]]:
    """Good values, and bad ones with what their reason must say."""
    to = world.serializers
    if kind == "avro":
        good = [to.avro(AVRO_V1, {"id": 1}), to.avro(AVRO_V2, {"id": 2, "amount": 3.0})]
        own = [(good[1][:-1], "no Avro of its schema"), (good[0] + b"x", "more bytes")]
    elif kind == "json":
        good = [to.json(JSON_SCHEMA, {"id": number}) for number in (1, 2)]
        own = [(to.json(JSON_SCHEMA, {"id": -1}), "$.id is to have minimum 0")]
    else:
        good = [to.protobuf(Proto(id=1)), to.protobuf(Proto(id=2, amount=2.5))]
        own = [(good[1][:-1], "is no message shop.Order")]
    framing = [
        (b"\x00\x00\x00\x03\xe7" + good[0][5:], "has no schema 999"),
        (b"\x07" + good[0][1:], "the byte 7 in place of the magic byte 0"),
        (good[0][:4], "cut off before the end of its schema id"),
        (b"", "it is empty"),
    ]
    return good, own + framing


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_bad_records_are_in_the_table_with_their_reasons_and_the_rest_goes_on(
    world: World, produce: Callable[..., Any], kind: str
) -> None:
    """What is bad is for each kind of schema to say."""
    good, bad = values_in(world, kind)
    produce(world.topic, [record(value) for value in [good[0], *(value for value, _ in bad)]])
    produce(world.topic, [record(good[1], partition=1)])
    assert world.quality() == 0
    rows = sorted(world.table("bad"), key=lambda row: row["offset"])
    for row, (value, reason) in zip(rows, bad, strict=True):
        assert row["value"] == value
        assert reason in row["reason"]
    passed = [bytes(one.value or b"") for one in consume(world.bootstrap, world.good)]
    assert sorted(passed) == sorted(good)


def test_bad_records_are_in_the_table_once(
    world: World, produce: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when all is judged again, as after a checkpoint that was lost; and no password shows."""
    good, bad = values_in(world, "avro")
    sent = [record(good[0]), *[record(value) for value, _ in bad], record(good[1], partition=1)]
    produce(world.topic, sent)
    assert world.quality() == 0
    first = world.table("bad")
    assert world.quality("another-checkpoint") == 0
    produce(world.topic, [record(bad[0][0], partition=1)])
    assert world.quality() == 0
    rows = sorted(world.table("bad"), key=lambda row: (row["partition"], row["offset"]))
    places = [(row["topic"], row["partition"], row["offset"]) for row in rows]
    expected = [(world.topic, 0, offset + 1) for offset in range(len(bad))]
    assert places == [*expected, (world.topic, 1, 1)]
    assert len(first) == len(bad)
    for row, (value, reason) in zip(rows, [*bad, bad[0]], strict=True):
        assert (row["key"], row["value"]) == (b"k", value)
        assert row["headers"] == [{"key": "h", "value": b"\x00"}]
        assert reason in row["reason"]
        assert row["reason"].startswith("the value cannot be decoded: ")
        assert row["topic_id"]
    passed = [bytes(one.value or b"") for one in consume(world.bootstrap, world.good)]
    assert set(passed) == set(good)
    shown = capsys.readouterr()
    assert PASSWORD not in shown.out + shown.err


def test_a_registry_that_goes_away_fails_the_job_and_no_record_is_lost(
    world: World, produce: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = values_in(world, "avro")
    produce(world.topic, [record(value) for value in good] + [record(bad[0][0])])
    world.registry.failing = "/schemas/ids/"
    assert world.quality() == 1
    told = capsys.readouterr().err
    assert "the schema registry http://127.0.0.1" in told
    assert "no leader" in told
    assert PASSWORD not in told
    assert not (world.folder / "bad").exists()
    world.registry.failing = ""
    assert world.quality() == 0
    assert [row["offset"] for row in world.table("bad")] == [2]
    passed = [bytes(one.value or b"") for one in consume(world.bootstrap, world.good)]
    assert passed == good


def test_bad_records_of_a_topic_made_anew_meanwhile_are_not_taken_for_those_of_the_old_one(
    world: World,
    produce: Callable[..., Any],
    new_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With an id that is not theirs, later ones at the same offsets would be left out."""
    read = quality._read_batch
    world.serializers.avro(AVRO_V1, {"id": 1})
    produce(world.topic, [record(b"bad")])

    def read_another(settings: Any, spark: Any) -> Any:
        records = read(settings, spark)
        delete_topic(world.bootstrap, world.topic)
        new_topic(name=world.topic)
        produce(world.topic, [record(b"bad, too")])
        return records

    settings = {"mode": "batch", "via": "connector", "checkpoint": None, "good_topic": None}
    monkeypatch.setattr(quality, "_read_batch", read_another)
    assert world.quality(**settings) == 1
    assert "was deleted and made anew since the job began" in capsys.readouterr().err
    assert not (world.folder / "bad").exists()
    monkeypatch.setattr(quality, "_read_batch", read)
    assert world.quality(**settings) == 0
    assert [row["value"] for row in world.table("bad")] == [b"bad, too"]


def test_a_subject_that_does_not_exist_is_told_before_anything_is_read(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.quality(value_subject="nobody") == 2
    assert "no subject nobody in version latest; --value-subject names another" in (
        capsys.readouterr().err
    )


def test_rules_see_the_fields_of_keys_and_a_key_may_be_bad(
    world: World, produce: Callable[..., Any]
) -> None:
    value = world.serializers.avro(AVRO_V1, {"id": 1})
    keys = [world.keys.avro(AVRO_KEY, {"id": number}) for number in (1, 2)]
    produce(world.topic, [record(value, key=key) for key in (*keys, b"text", None)])
    rules = [{"name": "same", "expression": "coalesce(record.key_fields.id, 1) = id"}]
    assert world.quality(key_format="registry", rules=rules) == 0
    rows = sorted(world.table("bad"), key=lambda row: row["offset"])
    assert [(row["offset"], row["rules"]) for row in rows] == [(1, ["same"]), (2, [])]
    assert rows[1]["reason"].startswith("the key cannot be decoded: it begins with the byte 116")


def test_a_job_that_was_overtaken_looks_again_and_adds_what_is_missing(
    spark: "SparkSession", world: World, produce: Callable[..., Any]
) -> None:
    """Two jobs share a table; both have some of the same records."""
    from pyspark.sql import functions as sql

    from barnabas_pipelines.schema import ddl
    from barnabas_pipelines.tables.dead_letters import DeadLetterTable
    from barnabas_pipelines.tables.delta import DeltaTable as Written

    def judged(offsets: list[int]) -> Any:
        empty = [(None, None, "t", 0, offset, None, 0, None) for offset in offsets]
        rows = spark.createDataFrame(empty, ddl(include_headers=True))
        names = sql.array().cast("array<string>").alias("broken_rules")
        return rows.select("*", names, sql.lit("because").alias("reason"))

    path = str(world.folder / "bad")
    mine = Written(spark, path)

    class Overtaken:
        is_first = True

        def __getattr__(self, name: str) -> Any:
            return getattr(mine, name)

        def append(self, *arguments: Any) -> None:
            if self.is_first:
                self.is_first = False
                DeadLetterTable(Written(spark, path)).add(judged([1, 2]), "id")
            mine.append(*arguments)

    DeadLetterTable(Overtaken()).add(judged([2, 3]), "id")
    assert sorted(row["offset"] for row in world.table("bad")) == [1, 2, 3]


def test_a_snapshot_is_decoded_anew_when_its_schema_has_a_new_version(
    world: World, produce: Callable[..., Any]
) -> None:
    """All rows have the columns of the newest schema, also those that were written before it."""
    table = str(world.folder / "orders")
    settings: dict[str, Any] = {"table": table, "key_format": "registry", "undecodable": "keep"}
    keys = [world.keys.avro(AVRO_KEY, {"id": number}) for number in (1, 2)]
    first = world.serializers.avro(AVRO_V1, {"id": 1})
    produce(world.topic, [record(first, key=keys[0]), record(b"bad", key=b"bad")])
    assert world.run(snapshot.JOB, **settings) == 0
    rows = {row["key"]: row for row in world.table("orders")}
    assert rows[keys[0]]["fields"] == {"id": 1}
    assert rows[keys[0]]["key_fields"] == {"id": 1}
    assert rows[b"bad"]["value"] == b"bad"
    assert "magic byte" in rows[b"bad"]["undecodable_reason"]
    second = world.serializers.avro(AVRO_V2, {"id": 2, "amount": 4.0})
    produce(world.topic, [record(second, key=keys[1])])
    assert world.run(snapshot.JOB, **settings) == 0
    rows = {row["key"]: row for row in world.table("orders")}
    assert rows[keys[0]]["fields"] == {"id": 1, "amount": 1.5}
    assert rows[keys[1]]["fields"] == {"id": 2, "amount": 4.0}
    assert rows[keys[0]]["value"] == first


def test_fields_of_a_registry_are_aggregated_by_a_fixed_version(
    world: World, produce: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    values = [
        world.serializers.avro(AVRO_V1, {"id": 1}),
        world.serializers.avro(AVRO_V2, {"id": 1, "amount": 2.0}),
    ]
    produce(world.topic, [record(value) for value in values])
    settings: dict[str, Any] = {
        "target": world.good,
        "checkpoint": str(world.folder / "checkpoint"),
        "group_by": "id",
        "measures": "count, sum(amount) as amount",
        "window": "24h",
    }
    assert world.run(aggregate.JOB, **settings) == 2
    assert "--value-schema-version must be a number" in capsys.readouterr().err
    assert world.run(aggregate.JOB, **settings, value_schema_version=2) == 0
    (row,) = [json.loads(one.value or b"") for one in consume(world.bootstrap, world.good)]
    assert (row["id"], row["count"], row["amount"]) == (1, 2, 3.5)
