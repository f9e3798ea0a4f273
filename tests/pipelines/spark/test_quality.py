"""`quality` from topic to topics, by its command line's own functions and a real broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from barnabas_client import ConsumerRecord
from barnabas_pipelines.jobs.job import main
from barnabas_pipelines.jobs.quality import JOB
from tests.pipelines.spark.records import RecordToSend, consume, delete_topic
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

AT_MS = 1_780_000_000_000
GOOD = {"id": 1, "amount": 5.0}


class World:
    """Topics of one test, and the job on them."""

    def __init__(self, bootstrap: str, topics: list[str], folder: Path) -> None:
        self.bootstrap = bootstrap
        self.topic, self.letters, self.good = topics
        self.folder = folder

    def config(self, **changes: Any) -> dict[str, Any]:
        return {
            "bootstrap-servers": self.bootstrap,
            "topic": self.topic,
            "via": "python",
            "fields": "id BIGINT NOT NULL, amount DOUBLE",
            "rules": [{"field": "amount", "range": {"above": 0}}, {"unique-in-batch": "id"}],
            "dead-letter-topic": self.letters,
            "good-topic": self.good,
            "checkpoint": str(self.folder / "checkpoint"),
            "report": str(self.folder / "report.json"),
            "metrics": str(self.folder / "quality.prom"),
            **{name.replace("_", "-"): value for name, value in changes.items()},
        }

    def run(self, *arguments: str, **changes: Any) -> int:
        given = {key: value for key, value in self.config(**changes).items() if value is not None}
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump(given))
        return main(JOB, ["--config", str(file), *arguments])

    def report(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return loaded

    def read(self, topic: str) -> list[ConsumerRecord]:
        return consume(self.bootstrap, topic)


@pytest.fixture
def world(
    spark: "SparkSession",
    broker: BarnabasProcess,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> World:
    kept = {"retention.ms": "-1"}
    topics = [new_topic(2, configs=kept), new_topic(configs=kept), new_topic(2, configs=kept)]
    return World(broker.bootstrap, topics, tmp_path)


def record(value: Any, *, key: bytes = b"k", partition: int = 0) -> RecordToSend:
    raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    headers = [("trace", b"\x00\xff"), ("trace", None)]
    return RecordToSend(
        value=raw, key=key, partition=partition, timestamp_ms=AT_MS, headers=headers
    )


def header(letter: ConsumerRecord, name: str) -> str:
    values = [value for key, value in letter.headers if key == name]
    assert len(values) == 1
    assert values[0] is not None
    return bytes(values[0]).decode()


def test_bad_records_go_with_their_reasons_and_good_ones_go_on(
    world: World, produce: Callable[..., Any]
) -> None:
    """Whoever repairs them needs the bytes as they came, and to know what and where they were."""
    produce(
        world.topic,
        [
            record(GOOD),
            record(b"\xffnot json", key=b"a"),
            record({"amount": -1}, partition=1),
            record({**GOOD, "id": 2}, partition=1),
            record(GOOD, partition=1),
            record(None, partition=1),
        ],
    )
    assert world.run() == 0
    letters = world.read(world.letters)
    told = {
        (header(one, "barnabas.partition"), header(one, "barnabas.offset")): one for one in letters
    }
    assert sorted(told) == [("0", "1"), ("1", "0"), ("1", "2"), ("1", "3")]
    first = told["0", "1"]
    assert (first.key, first.value) == (b"a", b"\xffnot json")
    assert list(first.headers[:2]) == [("trace", b"\x00\xff"), ("trace", None)]
    assert header(first, "barnabas.reason") == "the value is not UTF-8"
    assert header(first, "barnabas.rules") == "decodable"
    assert header(first, "barnabas.topic") == world.topic
    assert header(first, "barnabas.timestamp") == str(AT_MS)
    both = told["1", "0"]
    assert header(both, "barnabas.rules") == "id-required,amount-range"
    assert "id is there; rule amount-range: not so: amount > 0" in header(both, "barnabas.reason")
    assert header(told["1", "2"], "barnabas.rules") == "id-unique"
    assert told["1", "3"].value is None
    passed = world.read(world.good)
    assert sorted(bytes(one.value or b"") for one in passed) == sorted(
        json.dumps(value).encode() for value in (GOOD, {**GOOD, "id": 2})
    )
    assert {one.timestamp_ms for one in passed} == {AT_MS}
    assert {tuple(one.headers) for one in passed} == {(("trace", b"\x00\xff"), ("trace", None))}


def test_counts_are_in_files_and_on_the_output(
    world: World, produce: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    produce(world.topic, [record(GOOD), record({"id": 2}), record({"id": 3, "amount": 0})])
    assert world.run() == 0
    report = world.report()
    assert (report["records"], report["good"], report["bad"]) == (3, 2, 1)
    assert [(one["name"], one["broken"]) for one in report["rules"]] == [
        ("id-required", 0),
        ("amount-range", 1),
        ("id-unique", 0),
    ]
    metrics = (world.folder / "quality.prom").read_text()
    assert f'barnabas_quality_records_total{{topic="{world.topic}",outcome="bad"}} 1' in metrics
    shown = capsys.readouterr().out
    assert "3 records, 2 good, 1 bad" in shown
    assert "amount-range" in shown


def test_the_next_run_goes_on_where_the_last_one_was(
    world: World, produce: Callable[..., Any]
) -> None:
    """A schedule that looked at everything again would fill the dead-letter topic with copies."""
    produce(world.topic, [record({"id": 1, "amount": -1})])
    assert world.run() == 0
    produce(world.topic, [record({"id": 2, "amount": -1})])
    assert world.run() == 0
    assert [json.loads(one.value or b"")["id"] for one in world.read(world.letters)] == [1, 2]
    assert world.report()["records"] == 1


def test_a_batch_reads_its_range_each_time_and_needs_no_checkpoint(
    world: World, produce: Callable[..., Any]
) -> None:
    produce(world.topic, [record({"id": number, "amount": 1 - number}) for number in range(4)])
    changes: dict[str, Any] = {
        "mode": "batch",
        "checkpoint": None,
        "good_topic": None,
        "dead_letter_topic": None,
        "starting_offsets": json.dumps({world.topic: {"0": 1, "1": -2}}),
    }
    for _ in range(2):
        assert world.run(**changes) == 0
        assert (world.report()["records"], world.report()["bad"]) == (3, 3)


def test_too_many_bad_records_fail_the_job_when_all_are_written(
    world: World, produce: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """So that a schedule, or CI, sees it."""
    produce(world.topic, [record(GOOD), record({"id": 2, "amount": -1})])
    assert world.run(fail_above=0.4) == 1
    assert "1 of 2 records are bad, 50.00%; the limit is 40.00%" in capsys.readouterr().err
    assert len(world.read(world.letters)) == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rules": [{"name": "r", "expression": "amount >"}]}, "rule r: "),
        ({"fields": "id BIGNIT"}, "--fields: "),
        ({"rules": [{"field": "amout", "not-null": True}]}, "amout"),
    ],
)
def test_a_mistake_ends_the_job_before_anything_is_read(
    world: World, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], told: str
) -> None:
    """A checkpoint that exists would mean that a query had been started."""
    assert world.run(**changes) == 2
    assert told in capsys.readouterr().err
    assert not (world.folder / "checkpoint").exists()
    assert not (world.folder / "report.json").exists()


def test_the_plan_tells_rules_and_targets(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.run("--dry-run", fail_above=0.01) == 0
    shown = capsys.readouterr().out
    assert f"{world.topic}: 2 partitions, at most 0 records" in shown
    for words in ("amount-range: amount > 0", world.letters, world.good, "1.00%"):
        assert words in shown


def test_a_topic_that_does_not_exist_is_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first bad record would else fail after thousands of good ones."""
    assert world.run(dead_letter_topic="no-such-topic") == 1
    assert "no-such-topic" in capsys.readouterr().err


@pytest.mark.parametrize("via", ["connector", "python"])
def test_a_topic_that_was_made_anew_between_two_runs_is_refused(
    world: World,
    produce: Callable[..., Any],
    new_topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    via: str,
) -> None:
    """The connector goes by the name: of one with more records the first were never judged."""
    produce(world.topic, [record({**GOOD, "id": number}) for number in range(10)])
    assert world.run(via=via) == 0
    delete_topic(world.bootstrap, world.topic)
    new_topic(2, name=world.topic, configs={"retention.ms": "-1"})
    produce(world.topic, [record({**GOOD, "id": number}) for number in range(15)])
    assert world.run(via=via) == 1
    assert "was deleted and made anew" in capsys.readouterr().err
    assert len(world.read(world.good)) == 10
    assert world.run(via=via, checkpoint=str(world.folder / "another")) == 0
    assert len(world.read(world.good)) == 25


def test_a_topic_that_is_made_anew_under_a_batch_is_refused(
    world: World,
    produce: Callable[..., Any],
    new_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When its records were counted, before any is written: they may be of either topic."""
    from barnabas_pipelines.transforms import rules

    produce(world.topic, [record({**GOOD, "id": number}) for number in range(10)])
    count = rules.counts

    def counted_then_made_anew(*arguments: Any) -> Any:
        found = count(*arguments)
        delete_topic(world.bootstrap, world.topic)
        new_topic(2, name=world.topic, configs={"retention.ms": "-1"})
        return found

    monkeypatch.setattr(rules, "counts", counted_then_made_anew)
    assert world.run(via="connector") == 1
    assert world.read(world.good) == []


def test_a_checkpoint_is_of_one_topic(world: World, produce: Callable[..., Any]) -> None:
    """With another one's offsets, records would be passed over or none be found."""
    produce(world.topic, [record(GOOD)])
    assert world.run() == 0
    assert world.run(topic=world.good, good_topic=None) == 1
