"""Rules on tiny frames: which records break which, and that nothing but a record is judged."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs.quality import Checks, judged_records, parse_fields
from barnabas_pipelines.jobs.registry_options import Readings
from barnabas_pipelines.schema import ddl
from barnabas_pipelines.transforms.rule_parsing import parse_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

FIELDS = "id BIGINT, name STRING, amount DOUBLE, tags ARRAY<STRING>, at STRUCT<city: STRING>"


def records(spark: "SparkSession", values: list[bytes | None]) -> "DataFrame":
    from datetime import UTC, datetime

    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(b"k", value, "t", 0, offset, at, 0, None) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, ddl(include_headers=True))


def found(
    spark: "SparkSession", values: list[Any], rules: list[dict[str, Any]], **changes: Any
) -> list[tuple[list[str], str | None]]:
    """The broken rules and the reason of each value, in their order."""
    raw = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    checks = {
        "rules": parse_rules(rules),
        "value_format": "json",
        "fields": parse_fields(FIELDS),
        "readings": Readings(),
        "refuses_unknown_fields": False,
        "allows_tombstones": False,
        **changes,
    }
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        judged = judged_records(records(spark, raw), Checks(**checks))
        rows = judged.orderBy("offset").select("broken_rules", "reason").collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")
    return [(row[0], row[1]) for row in rows]


def test_each_kind_of_rule_finds_its_records(spark: "SparkSession") -> None:
    rules: list[dict[str, Any]] = [
        {"field": "id", "not-null": True},
        {"field": "amount", "range": {"above": 0, "max": 10}},
        {"field": "name", "regex": "[a-z]+"},
        {"field": "at.city", "set": ["Ulm", "Bonn"]},
        {"name": "tagged", "expression": "size(tags) > 0"},
    ]
    good = {"id": 1, "name": "ab", "amount": 10, "tags": ["x"], "at": {"city": "Ulm"}}
    told = found(
        spark,
        [
            good,
            {**good, "id": None},
            {**good, "amount": 0},
            {**good, "name": "ab\n"},
            {**good, "at": {"city": "Köln"}},
            {**good, "tags": []},
            {"tags": ["x"], "name": "A", "amount": 11},
        ],
        rules,
    )
    assert [names for names, _ in told] == [
        [],
        ["id-not-null"],
        ["amount-range"],
        ["name-regex"],
        ["at.city-set"],
        ["tagged"],
        ["id-not-null", "amount-range", "name-regex"],
    ]
    assert told[0][1] is None
    assert told[6][1] == (
        "rule id-not-null: not so: id is there; rule amount-range: not so: amount > 0 and "
        "amount <= 10; rule name-regex: not so: name is like [a-z]+"
    )


def test_an_expression_that_is_null_or_fails_is_broken(spark: "SparkSession") -> None:
    """A rule that cannot be evaluated on a record must not let it pass, nor end the query."""
    rules = [{"name": "share", "expression": "amount / id < 1 AND cast(name as int) = 1"}]
    values = [{"id": 4, "amount": 1, "name": "1"}, {"id": 0, "amount": 1, "name": "1"}]
    values += [{"id": 4, "amount": 1, "name": "one"}, {"id": 4, "name": "1"}]
    assert [names for names, _ in found(spark, values, rules)] == [[], *[["share"]] * 3]


def test_the_first_of_several_is_unique(spark: "SparkSession") -> None:
    """Good records are to be those without doubles, not those that have none."""
    rules = [{"unique-in-batch": ["id", "name"]}]
    values: list[Any] = [
        {"id": 1, "name": "a"},
        {"id": 1, "name": "b"},
        {"id": 1, "name": "a"},
        {"id": 1},
        {"id": 1},
        b"no json",
        b"no json",
    ]
    told = found(spark, values, rules)
    assert [names for names, _ in told] == [[], [], ["id-name-unique"], [], [], [], []]


def test_what_cannot_be_decoded_is_bad_and_breaks_no_rule(spark: "SparkSession") -> None:
    """Nobody knows what it says; one reason is enough."""
    told = found(spark, [b"{", {"id": "x"}, b'"a"', b"\xff"], [{"field": "id", "not-null": True}])
    assert [names for names, _ in told] == [[]] * 4
    reasons = [reason or "" for _, reason in told]
    assert reasons[0] == "the value is not JSON"
    assert "declared type" in reasons[1]
    assert reasons[2] == "the value is not one JSON object"
    assert reasons[3] == "the value is not UTF-8"


def test_the_record_itself_can_be_looked_at(spark: "SparkSession") -> None:
    rules = [{"name": "even", "expression": "record.offset % 2 = 0 AND record.key = 'k'"}]
    assert [names for names, _ in found(spark, [{}, {}], rules)] == [[], ["even"]]


def test_unknown_fields_can_be_refused(spark: "SparkSession") -> None:
    """A new field is how a change of schema begins."""
    values = [{"id": 1}, {"id": 1, "colour": "red", "size": 3}]
    assert [reason for _, reason in found(spark, values, [])] == [None, None]
    told = found(spark, values, [], refuses_unknown_fields=True)
    assert [reason for _, reason in told] == [None, "the value has unknown fields: colour, size"]


def test_a_field_called_reason_is_a_field_like_others(spark: "SparkSession") -> None:
    """Nobody can rename the fields of a schema that others write by."""
    rules = [{"field": "reason", "set": ["late"]}]
    fields = parse_fields("reason STRING")
    _check(spark, fields, rules)
    told = found(spark, [{"reason": "late"}, {"reason": "lost"}], rules, fields=fields)
    assert [names for names, _ in told] == [[], ["reason-set"]]
    assert told[0][1] is None
    with pytest.raises(OptionsError, match="values have a field record, a name of this job's own"):
        _check(spark, parse_fields("record STRING"), [])


def test_tombstones_can_be_good(spark: "SparkSession") -> None:
    """In a compacted topic they delete, and are no mistake."""
    rules = parse_rules([{"field": "id", "not-null": True}])
    for allowed, expected in ((False, "the record has no value"), (True, None)):
        checks = Checks(
            rules=rules,
            value_format="json",
            fields=parse_fields(FIELDS),
            readings=Readings(),
            refuses_unknown_fields=False,
            allows_tombstones=allowed,
        )
        row = judged_records(records(spark, [None]), checks).head()
        assert row is not None
        assert row["reason"] == expected
        assert row["broken_rules"] == []


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"name": "r", "expression": "amount >"}, "rule r: .*PARSE_SYNTAX_ERROR"),
        ({"name": "r", "expression": "amont > 0"}, "rule r: .*UNRESOLVED_COLUMN.*amont"),
        ({"name": "r", "expression": "amount + 1"}, "rule r: amount \\+ 1 is double, not true"),
        ({"name": "r", "expression": "sum(amount) > 0"}, "rule r: .*MISSING_GROUP_BY"),
        ({"name": "r", "expression": "rand() > 0.5"}, "not the same each time"),
        ({"name": "r", "field": "name", "regex": "(a"}, "rule r: \\(a is no pattern: Unclosed"),
        ({"name": "r", "field": "nane", "not-null": True}, "UNRESOLVED_COLUMN.*nane"),
        ({"name": "r", "field": "at.town", "not-null": True}, "FIELD_NOT_FOUND.*town"),
        ({"name": "r", "unique-in-batch": "nane"}, "UNRESOLVED_COLUMN.*nane"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_found_before_anything_is_read(
    spark: "SparkSession", rule: dict[str, Any], told: str
) -> None:
    with pytest.raises(OptionsError, match=told):
        _check(spark, parse_fields(FIELDS), [rule])


def _check(spark: "SparkSession", fields: "StructType", rules: list[dict[str, Any]]) -> None:
    from barnabas_pipelines.transforms.decoding import ValueFormat, decode_values
    from barnabas_pipelines.transforms.rules import check_rules

    check_rules(
        spark, decode_values(records(spark, []), ValueFormat.JSON, fields), parse_rules(rules)
    )


@pytest.mark.parametrize("text", ["id BIGNIT", "id", "{}", '{"type": "struct"}', "id INT,, b INT"])
def test_a_schema_that_is_none_is_one_line(spark: "SparkSession", text: str) -> None:
    with pytest.raises(OptionsError, match=r"^--fields: [^\n]+$"):
        parse_fields(text)


def test_a_schema_may_be_spark_s_json(spark: "SparkSession") -> None:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL("a INT NOT NULL, b STRUCT<c: STRING>")
    assert parse_fields(schema.json()) == schema
