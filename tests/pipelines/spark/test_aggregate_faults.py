"""`aggregate` when something is wrong: one clear line, or nothing lost and nothing doubled."""

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_client.admin import Admin
from barnabas_pipelines.errors import PipelineError, TopicGoneError
from barnabas_pipelines.jobs import aggregate
from barnabas_pipelines.jobs.aggregate_settings import CheckpointMismatchError
from barnabas_pipelines.jobs.progress_bar import BatchProgress
from barnabas_pipelines.jobs.settings import settings_of
from tests.pipelines.spark import records
from tests.pipelines.spark.aggregate_job import AggregateJob
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NewTopic = Callable[..., str]
FOREVER: dict[str, str | None] = {"retention.ms": "-1"}


@pytest.fixture
def job(
    spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path, new_topic: NewTopic
) -> AggregateJob:
    """A job on a new topic of the shared broker."""
    topic = new_topic(partitions=2, configs=FOREVER)
    return AggregateJob(spark, broker.bootstrap, tmp_path, topic)


def test_other_windows_do_not_go_on_with_a_checkpoint(job: AggregateJob) -> None:
    """The rows would mix windows of two lengths; set back, the job goes on."""
    job.produce((0, {"user": "ann", "amount": 1}))
    job.run()
    with pytest.raises(CheckpointMismatchError, match="window was 60000 and is 300000"):
        job.run(window="5m")
    job.produce((1, {"user": "ann", "amount": 1}))
    job.run()
    assert job.counts() == {("12:00:00", "ann"): (2, 2.0)}


def test_a_deleted_topic_is_named_and_one_made_again_is_noticed(job: AggregateJob) -> None:
    """The connector would take its offsets for those of the old one."""
    job.produce((0, {"user": "ann", "amount": 1}))
    job.run()
    records.delete_topic(job.bootstrap, job.topic)
    with pytest.raises(TopicGoneError, match=job.topic):
        job.run()
    records.create_topic(job.bootstrap, job.topic, 2, FOREVER)
    with pytest.raises(CheckpointMismatchError, match="deleted and made again"):
        job.run()


def test_a_missing_target_is_an_error_before_anything_is_read(job: AggregateJob) -> None:
    """A typing error must not become a topic that is not compacted."""
    with pytest.raises(TopicGoneError, match="--create-target"):
        job.run(create_target=False)
    assert not job.checkpoint.exists()


@pytest.mark.parametrize("via", ["connector", "python"])
def test_lost_offsets_fail_the_job_and_are_named(job: AggregateJob, via: str) -> None:
    """Retention passed the checkpoint: rows without the lost records would look complete."""
    job.produce(*((0, {"user": "ann", "amount": 1}) for _ in range(4)))
    job.run(via=via)
    job.produce(*((0, {"user": "ann", "amount": 1}) for _ in range(8)))
    records.delete_records(job.bootstrap, {(job.topic, 0): 4})
    with pytest.raises(PipelineError, match=rf"{job.topic}") as raised:
        job.run(via=via)
    assert "\n" not in str(raised.value)
    assert job.counts() == {("12:00:00", "ann"): (4, 4.0)}


@pytest.mark.parametrize("via", ["connector", "python"])
def test_a_broker_that_dies_in_mid_batch_loses_and_doubles_nothing(
    spark: "SparkSession", own_broker: BarnabasProcess, tmp_path: Path, via: str
) -> None:
    """It is killed whenever a batch is finished, with the next one on its way."""
    records.create_topic(own_broker.bootstrap, "t", 2, FOREVER)
    job = AggregateJob(spark, own_broker.bootstrap, tmp_path, "t")
    count = 600
    job.produce(*((number / 10, {"user": "ann", "amount": 1}) for number in range(count)))
    restarts: list[threading.Thread] = []

    class KillingReport(RecordedReport):
        """Kills the broker after the first two batches, and lets it start again."""

        def batch(self, progress: BatchProgress) -> None:
            super().batch(progress)
            if len(restarts) < 2:
                for earlier in restarts:
                    earlier.join()  # on a busy machine it may still be starting
                own_broker.kill()
                restarts.append(threading.Thread(target=own_broker.start))
                restarts[-1].start()

    settings = settings_of(aggregate.JOB.options, job.given(via=via, max_offsets_per_trigger=100))
    aggregate.JOB.run(settings, spark, KillingReport("aggregate"))
    for thread in restarts:
        thread.join()
    assert len(restarts) == 2
    assert job.counts() == {("12:00:00", "ann"): (count, float(count))}


def run_and_remake(job: AggregateJob, topic: str, via: str, **options: Any) -> None:
    """Run the job; when it has reported its first batch, the topic is made anew, with records."""
    names: list[str] = []

    class RemakingReport(RecordedReport):
        """Makes the topic anew after the first batch."""

        def batch(self, progress: BatchProgress) -> None:
            super().batch(progress)
            if not names:
                names.append(topic)
                records.delete_topic(job.bootstrap, topic)
                records.create_topic(job.bootstrap, topic, 2, FOREVER)
                if topic == job.topic:
                    job.produce(*((0, {"user": "new", "amount": 1}) for _ in range(40)))

    given = job.given(via=via, max_offsets_per_trigger=4, **options)
    settings = settings_of(aggregate.JOB.options, given)
    report = RemakingReport("aggregate")
    try:
        aggregate.JOB.run(settings, job.spark, report)
    finally:
        job.said = report.lines
        assert names


@pytest.mark.parametrize("via", ["connector", "python"])
def test_a_topic_that_is_made_anew_in_mid_run_is_seen(job: AggregateJob, via: str) -> None:
    """It has records at the offsets that come next: the connector would take them for others'."""
    job.produce(*((0, {"user": "ann", "amount": 1}) for _ in range(40)))
    with pytest.raises(PipelineError, match=f"{job.topic}.* made (anew|again)"):
        run_and_remake(job, job.topic, via)
    assert set(job.counts()) == {("12:00:00", "ann")}


@pytest.mark.parametrize("via", ["connector", "python"])
def test_a_target_that_is_made_anew_in_mid_run_is_seen(job: AggregateJob, via: str) -> None:
    """Rows of windows that do not change any more would be missing in it."""
    job.produce(*((0, {"user": "ann", "amount": 1}) for _ in range(40)))
    with pytest.raises(PipelineError, match=f"{job.target} was deleted and made anew"):
        run_and_remake(job, job.target, via)
    with pytest.raises(CheckpointMismatchError, match=r"the target .* was deleted and made again"):
        job.run(via=via)


def test_a_dead_letter_topic_that_is_made_anew_in_mid_run_is_seen(
    job: AggregateJob, new_topic: NewTopic
) -> None:
    """Letters of before are gone with it."""
    letters = new_topic(partitions=2, configs=FOREVER)
    job.produce(*((0, b"{broken" if number % 2 else {"user": "ann"}) for number in range(40)))
    with pytest.raises(PipelineError, match=f"{letters} was deleted and made anew"):
        run_and_remake(
            job, letters, "connector", undecodable="dead-letter", dead_letter_topic=letters
        )


def test_a_target_that_got_partitions_is_not_gone_on_with(job: AggregateJob) -> None:
    """A key would have a row in two of them, and compaction would keep both."""
    job.produce(*((0, {"user": f"user {number}", "amount": 1}) for number in range(40)))
    job.run()
    before = records.consume(job.bootstrap, job.target)

    async def add() -> None:
        async with Admin(job.bootstrap) as admin:
            (await admin.topics.add_partitions({job.target: 5})).unwrap()

    asyncio.run(add())
    job.produce(*((0, {"user": f"user {number}", "amount": 1}) for number in range(40)))
    with pytest.raises(PipelineError, match="had 2 partitions and has 5"):
        job.run()
    assert records.consume(job.bootstrap, job.target) == before


def test_percentiles_keep_their_accuracy_over_many_batches(job: AggregateJob) -> None:
    """Each batch merges a small sketch into the one of the state; errors must not add up."""
    dice = random.Random(11)
    amounts = [dice.lognormvariate(3, 2) for _ in range(2000)]
    job.produce(*((0, {"user": "ann", "amount": amount}) for amount in amounts))
    names = ["p50", "p90", "p99"]
    job.run(
        measures=", ".join(["count", "sum(amount)", *(f"{name}(amount)" for name in names)]),
        percentile_accuracy=100,
        max_offsets_per_trigger=200,
    )
    batches = [line for line in job.said if ": batch " in line]
    assert len(batches) == 10, job.said
    row: dict[str, Any] = job.view()["12:00:00", "ann"]
    ordered = sorted(amounts)
    errors = {
        name: abs(ordered.index(row[f"{name}_amount"]) / len(ordered) - float(name[1:]) / 100)
        for name in names
    }
    # And a rank or two, as ranks are whole numbers.
    assert max(errors.values()) <= 1 / 100 + 2 / len(ordered), errors
