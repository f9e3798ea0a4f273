"""Two writers of one table that share a session: each commits as itself, and one is refused."""

import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas_pipelines.tables.marks import Mark
from barnabas_pipelines.tables.table import SecondWriterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas_pipelines.tables.delta import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_OTHERS_SETTINGS = {
    "spark.databricks.delta.write.txnAppId": "barnabas",
    "spark.databricks.delta.write.txnVersion": "1",
    "spark.databricks.delta.commitInfo.userMetadata": "of somebody else",
}


def a_mark(sequence: int) -> Mark:
    return Mark(
        kind="snapshot", sequence=sequence, attempt=uuid.uuid4().hex, topics=(), base=sequence - 2
    )


def rows(spark: "SparkSession", value: str) -> "DataFrame":
    return spark.createDataFrame([("a", value), ("b", value)], "key STRING, value STRING")


def values(table: "DeltaTable") -> set[str]:
    return {row.value for row in table.rows().collect()}


@pytest.fixture(name="table")
def a_table(spark: "SparkSession", tmp_path: Path) -> "DeltaTable":
    """A table with two keys, at sequence 1."""
    from barnabas_pipelines.tables.delta import DeltaTable

    table = DeltaTable(spark, str(tmp_path / "table"))
    table.append(rows(spark, "first"), a_mark(1), ())
    return table


def test_a_merge_neither_takes_nor_changes_settings_of_the_session(
    spark: "SparkSession", table: "DeltaTable"
) -> None:
    """What stands there may be another writer's: its mark would be committed with our rows."""
    for name, value in _OTHERS_SETTINGS.items():
        spark.conf.set(name, value)
    try:
        mark = a_mark(2)
        table.merge(rows(spark, "second"), mark, "key", "new.value IS NULL")
        assert {name: spark.conf.get(name) for name in _OTHERS_SETTINGS} == _OTHERS_SETTINGS
    finally:
        for name in _OTHERS_SETTINGS:
            spark.conf.unset(name)
    found = table.state().mark
    assert found is not None
    assert found.attempt == mark.attempt
    assert values(table) == {"second"}


def test_of_two_merges_in_one_session_one_is_refused(
    spark: "SparkSession", table: "DeltaTable", tmp_path: Path
) -> None:
    """Both were refused once: one had committed with the mark that the other had set."""
    from barnabas_pipelines.tables.delta import DeltaTable

    for number in range(2):
        barrier = threading.Barrier(2)
        ends: dict[str, str] = {}

        def write(
            name: str,
            sequence: int,
            barrier: threading.Barrier = barrier,
            ends: dict[str, str] = ends,
        ) -> None:
            own = DeltaTable(spark, str(tmp_path / "table"))
            changes = rows(spark, name)
            barrier.wait(60)
            try:
                own.merge(changes, a_mark(sequence), "key", "new.value IS NULL")
            except SecondWriterError:
                ends[name] = "refused"
            else:
                ends[name] = "written"

        sequence = table.state().sequence + 1
        names = [f"{number}-{one}" for one in "ab"]
        threads = [threading.Thread(target=write, args=(name, sequence)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert sorted(ends.values()) == ["refused", "written"], ends
        assert values(table) == {name for name, end in ends.items() if end == "written"}
