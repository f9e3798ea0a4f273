"""`lag-report` on a real broker: what it finds is what was done to topics and groups."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_client import OffsetAndMetadata, TopicPartition
from barnabas_client.admin import Admin
from barnabas_pipelines.jobs.job import main
from barnabas_pipelines.jobs.lag_report import JOB
from tests.pipelines.spark.records import RecordToSend, delete_records, delete_topic, produce
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MINUTE_MS = 60_000


def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    async def alter() -> None:
        async with Admin(bootstrap) as admin:
            named = {TopicPartition(*key): OffsetAndMetadata(at) for key, at in offsets.items()}
            (await admin.group_offsets.alter(group, named)).unwrap()

    asyncio.run(alter())


@pytest.fixture
def report(
    spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path
) -> Callable[..., dict[str, Any]]:
    """Runs the job and returns its findings; the page is at `page.html`."""

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        files = ["--output", str(tmp_path / "page.html"), "--json", str(tmp_path / "found.json")]
        given = ["--bootstrap-servers", broker.bootstrap, *files, *arguments]
        assert main(JOB, given) == code
        if code:
            return {}
        found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
        return found

    return run


@pytest.fixture
def now_ms() -> int:
    return time.time_ns() // 1_000_000


def minutes_ago(now_ms: int, minutes: int, partition: int, size: int = 10) -> RecordToSend:
    at_ms = now_ms - minutes * MINUTE_MS
    return RecordToSend(
        value=b"v" * size,
        key=b"key",
        partition=partition,
        timestamp_ms=at_ms,
        headers=[("h", b"1")],
    )


@pytest.mark.parametrize("via", ["python", "connector"])
def test_lag_traffic_skew_and_loss_are_found(
    report: Callable[..., dict[str, Any]],
    broker: BarnabasProcess,
    new_topic: Callable[..., str],
    now_ms: int,
    tmp_path: Path,
    via: str,
) -> None:
    """Both ways read the same; sizes are of keys, values and headers."""
    topic, group = new_topic(3), f"group-{via}"
    records = [minutes_ago(now_ms, minutes, 0) for minutes in (90, 50, 50, 40, 30, 10)]
    records += [minutes_ago(now_ms, 20, 1, size=100)]
    produce(broker.bootstrap, topic, records)
    commit(broker.bootstrap, group, {(topic, 0): 3, (topic, 1): 1, (topic, 2): 0})
    delete_records(broker.bootstrap, {(topic, 0): 4})
    found = report(
        "--via", via, "--topics", topic, "--groups", group, "--since", "2h", "--bucket", "10m"
    )
    (of_group,) = found["groups"]
    assert (of_group["group_id"], of_group["state"], of_group["lag"]) == (group, "Empty", 2)
    assert of_group["lost_count"] == 1
    by_partition = {one["partition"]: one for one in of_group["partitions"]}
    assert [by_partition[at]["lag"] for at in range(3)] == [2, 0, 0]
    age_ms = found["made_at_ms"] - (now_ms - 30 * MINUTE_MS)
    assert by_partition[0]["behind_ms"] == age_ms
    assert by_partition[1]["behind_ms"] is None
    (of_topic,) = found["topics"]
    assert [one["record_count"] for one in of_topic["partitions"]] == [2, 1, 0]
    assert of_topic["size_bytes"] == 2 * (10 + 3 + 2) + 100 + 3 + 2
    assert of_topic["skew"] == pytest.approx(2.0)
    assert sum(one["record_count"] for one in of_topic["buckets"]) == 3
    assert {one["start_ms"] % (10 * MINUTE_MS) for one in of_topic["buckets"]} == {0}
    text = (tmp_path / "page.html").read_text()
    assert topic in text
    assert group in text


def test_records_are_read_back_to_the_time_told(
    report: Callable[..., dict[str, Any]],
    broker: BarnabasProcess,
    new_topic: Callable[..., str],
    now_ms: int,
) -> None:
    """A partition in which nothing came since then has no records, and is no mistake."""
    topic = new_topic(2)
    records = [minutes_ago(now_ms, minutes, 0) for minutes in (300, 200, 50, 5)]
    produce(broker.bootstrap, topic, [*records, minutes_ago(now_ms, 300, 1)])
    found = report("--via", "python", "--topics", topic, "--since", "1h")
    (of_topic,) = found["topics"]
    assert [one["record_count"] for one in of_topic["partitions"]] == [2, 0]


def test_gaps_between_records_are_found(spark: "SparkSession") -> None:
    """Compaction and transactions leave them; where there are others, something is wrong."""
    from datetime import UTC, datetime

    from barnabas_pipelines.lag.findings import Hole
    from barnabas_pipelines.lag.traffic_reading import bucket_rows, widest_holes
    from barnabas_pipelines.schema import ddl

    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        (None, b"v", "t", partition, offset, at, 0, None)
        for partition, offsets in ((0, (0, 1, 5, 6, 20)), (1, (7, 8)))
        for offset in offsets
    ]
    frame = spark.createDataFrame(rows, ddl(include_headers=True))
    assert widest_holes(frame, ["t"]) == {
        "t": [Hole(partition=0, first=7, end=20), Hole(partition=0, first=2, end=5)]
    }
    assert widest_holes(frame, ["other"]) == {}
    counted = {row.partition: row for row in bucket_rows(frame, 1000)}
    assert (counted[0].record_count, counted[0].first_offset, counted[0].last_offset) == (5, 0, 20)
    assert counted[1].size_bytes == 2


def test_a_group_of_a_topic_that_is_gone_is_told(
    report: Callable[..., dict[str, Any]], broker: BarnabasProcess, new_topic: Callable[..., str]
) -> None:
    """Its offsets stay; no lag can be told of it, and nothing else must fail for it."""
    here, gone = new_topic(), new_topic()
    produce(broker.bootstrap, here, [RecordToSend(value=b"1")])
    commit(broker.bootstrap, "of-two", {(here, 0): 0, (gone, 0): 0})
    delete_topic(broker.bootstrap, gone)
    found = report("--via", "python", "--no-records", "--groups", "of-two")
    (group,) = found["groups"]
    assert group["gone"] in ([gone], [])
    assert [one["topic"] for one in group["partitions"]] == [here]
    assert group["lag"] == 1


def test_without_records_all_topics_and_groups_take_no_spark_job(
    report: Callable[..., dict[str, Any]],
    broker: BarnabasProcess,
    new_topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic()
    produce(broker.bootstrap, topic, [RecordToSend(value=b"1")] * 3)
    commit(broker.bootstrap, "quick-look", {(topic, 0): 1})
    found = report("--no-records")
    assert found["topics"] == []
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if "quick-look" in line]
    assert " 2 " in line


def test_what_is_not_there_is_named(
    report: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    report("--groups", "no-such-group", code=1)
    assert "there is no consumer group no-such-group" in capsys.readouterr().err
    report("--topics", "no-such-topic", code=1)
    assert "no-such-topic" in capsys.readouterr().err
    report("--since", "24h", "--bucket", "1s", code=2)
    assert "would have more than 2,000 columns" in capsys.readouterr().err
