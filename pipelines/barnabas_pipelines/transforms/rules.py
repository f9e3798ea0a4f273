"""Which records keep to a schema and to rules, and what is wrong with the others.

`judge` takes records with `decoded` and `undecodable_reason` (`decoding.py`) and adds two columns:
`broken_rules`, the names of the rules that a record breaks, and `reason`, a text that is null for
good records. A record that cannot be decoded breaks no rule: nobody knows what it says.

Rules see the fields of the value by their names, and the record itself as `record.key`,
`record.timestamp` and so on. `unique-in-batch` lets the first by topic, partition and offset pass.

Not here: how rules are written (`rule_parsing.py`). The session must have ANSI mode off: a division
by zero in one record is then null, which breaks the rule, and not the end of the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType, StructType

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.schema import HEADERS_TYPE
from barnabas_pipelines.transforms.decoding import DECODED, REASON
from barnabas_pipelines.transforms.rule_parsing import Rule, RuleKind, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKEN: Final = "broken_rules"
JUDGEMENT: Final = "reason"
RULES_HEADER: Final = "barnabas.rules"
UNDECODABLE: Final = "decodable"
"""What stands for a rule where a record cannot be decoded."""
RECORD: Final = "record"
_OWN_NAMES: Final = frozenset({RECORD, BROKEN, DECODED, REASON})
_HELD: Final = "__held"


def check_rules(spark: SparkSession, records: DataFrame, rules: Sequence[Rule]) -> None:
    """Make sure that every rule can be evaluated on such records, before any is read.

    `records` are decoded ones; of them only the columns count.
    Raises: OptionsError naming the first rule that cannot, and why.
    """
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    taken = _OWN_NAMES & {name.lower() for name in _fields(records)}
    if taken:
        raise OptionsError(f"values have a field {min(taken)}, a name of this job's own")
    scope = _scope(records)
    for rule in rules:
        try:
            _check_pattern(spark, rule)
            if rule.condition is None:
                scope.select(_key_of(rule), _first_of_its_kind(rule)).schema  # noqa: B018
                continue
            # With all columns beside it, so that an aggregate is a mistake.
            held = scope.select("*", sql.expr(rule.condition).alias(_HELD))
            field = held.schema[_HELD]
            if not isinstance(field.dataType, BooleanType):
                kind = field.dataType.simpleString()
                raise OptionsError(f"rule {rule.name}: {rule.text} is {kind}, not true or false")
            if not held._jdf.queryExecution().analyzed().deterministic():
                raise OptionsError(
                    f"rule {rule.name}: {rule.text} is not the same each time, so that a batch "
                    "that is repeated after a failure could be judged differently"
                )
        except (AnalysisException, ParseException, PySparkException) as error:
            raise OptionsError(f"rule {rule.name}: {_first_line(error)}") from None


def judge(records: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """The records with `broken_rules` and `reason`.

    Raises: AnalysisException for rules that `check_rules` refuses.
    """
    scope = _scope(records)
    uniques = [rule for rule in rules if rule.kind is RuleKind.UNIQUE]
    for number, rule in enumerate(uniques):
        scope = scope.withColumn(f"__first_{number}", _first_of_its_kind(rule))
    held = {
        rule.name: sql.col(f"__first_{uniques.index(rule)}")
        if rule.condition is None
        else sql.coalesce(sql.expr(rule.condition), sql.lit(False))
        for rule in rules
    }
    broken = [sql.when(~condition, sql.lit(name)) for name, condition in held.items()]
    names = sql.filter(sql.array(*broken), lambda name: name.isNotNull())
    nothing = sql.array().cast("array<string>")
    is_decoded = sql.col(REASON).isNull()
    judged = scope.withColumn(BROKEN, sql.when(is_decoded & bool(rules), names).otherwise(nothing))
    reason = sql.coalesce(sql.col(REASON), _reason(rules))
    return judged.select(f"{RECORD}.*", DECODED, REASON, BROKEN, reason.alias(JUDGEMENT))


def refuse_unknown_fields(records: DataFrame, fields: StructType) -> DataFrame:
    """Decoded records; those of JSON values with further fields get a reason."""
    known = sql.array(*[sql.lit(field.name) for field in fields.fields]).cast("array<string>")
    found = sql.json_object_keys(sql.col("value").cast("string"))
    others = sql.array_except(found, known)
    text = sql.concat(sql.lit("the value has unknown fields: "), sql.array_join(others, ", "))
    wrong = sql.when(sql.size(others) > 0, text)
    return records.withColumn(REASON, sql.coalesce(sql.col(REASON), wrong))


def with_rule_header(judged: DataFrame) -> DataFrame:
    """Bad records with one more header, `barnabas.rules`: the broken rules' names, with commas."""
    names = sql.when(sql.col(REASON).isNotNull(), sql.lit(UNDECODABLE)).otherwise(
        sql.array_join(BROKEN, ",")
    )
    header = sql.array(
        sql.struct(sql.lit(RULES_HEADER).alias("key"), names.cast("binary").alias("value"))
    ).cast(HEADERS_TYPE)
    before = sql.coalesce(sql.col("headers"), sql.array().cast(HEADERS_TYPE))
    return judged.withColumn("headers", sql.concat(before, header))


def counts(judged: DataFrame, rules: Sequence[Rule]) -> tuple[int, int, int, tuple[int, ...]]:
    """All records, bad ones, undecodable ones, and how many break each rule."""
    columns = [
        sql.count("*"),
        sql.count(JUDGEMENT),
        sql.count(REASON),
        *(sql.count_if(sql.array_contains(BROKEN, rule.name)) for rule in rules),
    ]
    row = judged.agg(*(column.alias(f"c{at}") for at, column in enumerate(columns))).head()
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2]), tuple(int(count) for count in row[3:])


def _scope(records: DataFrame) -> DataFrame:
    """The columns that rules can name."""
    own = [name for name in records.columns if name not in (DECODED, REASON)]
    fields = [sql.col(f"{DECODED}.{quoted(name)}") for name in _fields(records)]
    return records.select(sql.struct(*own).alias(RECORD), DECODED, REASON, *fields)


def _fields(records: DataFrame) -> list[str]:
    decoded = records.schema[DECODED].dataType
    assert isinstance(decoded, StructType)
    return decoded.fieldNames()


def _reason(rules: Sequence[Rule]) -> Column:
    """What is wrong with a decoded record; null where nothing is."""
    if not rules:
        return sql.lit(None).cast("string")
    pairs = [sql.lit(part) for rule in rules for part in (rule.name, _complaint(rule))]
    texts = sql.transform(BROKEN, lambda name: sql.create_map(*pairs)[name])
    return sql.when(sql.size(BROKEN) > 0, sql.array_join(texts, "; "))


def _complaint(rule: Rule) -> str:
    return f"rule {rule.name}: not so: {rule.text}"


def _key_of(rule: Rule) -> Column:
    """What has to be unique; null for records that are not compared."""
    fields = [sql.expr(quoted(field)) for field in rule.fields]
    is_there = sql.col(REASON).isNull()
    for field in fields:
        is_there = is_there & field.isNotNull()
    named = [field.alias(f"f{number}") for number, field in enumerate(fields)]
    return sql.when(is_there, sql.struct(*named))


def _first_of_its_kind(rule: Rule) -> Column:
    """Whether a record is the first in the batch with its key, or has none."""
    place = [f"{RECORD}.topic", f"{RECORD}.partition", f"{RECORD}.offset"]
    key = _key_of(rule)
    # Records without a key are each alone: one window of them all could be the whole batch.
    alone = sql.when(key.isNull(), sql.struct(*place))
    return sql.row_number().over(Window.partitionBy(key, alone).orderBy(*place)) == 1


def _check_pattern(spark: SparkSession, rule: Rule) -> None:
    from pyspark.errors import PySparkException

    if rule.pattern is None:
        return
    jvm: Any = spark._jvm
    try:
        jvm.java.util.regex.Pattern.compile(rule.pattern)
    except PySparkException as error:
        text = _first_line(error)
        raise OptionsError(f"rule {rule.name}: {rule.pattern} is no pattern: {text}") from None


def _first_line(error: Exception) -> str:
    """What Spark says, without the plan and the place in its source."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
