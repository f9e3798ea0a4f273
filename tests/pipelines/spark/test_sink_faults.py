"""A broker that is killed while rows are written: nothing lost, nothing doubled, order kept."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from barnabas_pipelines.sinks import write_topic
from tests.pipelines.spark import records
from tests.support.barnabas_process import BarnabasProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOPIC = "orders"
COUNT = 400_000
PARTITIONS = 2


def end_offset(broker: BarnabasProcess) -> int:
    return sum(records.end_offsets(broker.bootstrap, TOPIC).values())


@pytest.mark.parametrize("via", ["connector", "python"])
def test_a_broker_that_dies_in_mid_write_gets_every_row_once(
    spark: "SparkSession", own_broker: BarnabasProcess, via: str
) -> None:
    """Within one attempt of a task the producer is idempotent: what it repeats is known."""
    records.create_topic(own_broker.bootstrap, TOPIC, PARTITIONS, {})
    frame = spark.range(0, COUNT, 1, 2).selectExpr(
        "cast(id % 5 as string) key", "concat(id, repeat('x', 300)) value"
    )
    options = {"bootstrapServers": own_broker.bootstrap, "topic": TOPIC}
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write_topic, frame, options, via=via)

        def is_under_way() -> bool:
            if writing.done():
                writing.result()
            return end_offset(own_broker) > COUNT // 20

        wait_until(is_under_way, 60, lambda: f"nothing is written, {writing}", 0.01)
        own_broker.kill()
        assert not writing.done(), "the writing was over before the broker died"
        own_broker.start()
        writing.result(90)
    found = records.consume(own_broker.bootstrap, TOPIC)
    numbers = [int(each.value.rstrip(b"x")) for each in found]
    assert sorted(numbers) == list(range(COUNT))
    # Each task has its half of the numbers; those of a task keep their order in a partition.
    for partition in range(PARTITIONS):
        for is_late in (False, True):
            of_task = [
                number
                for each, number in zip(found, numbers, strict=True)
                if each.partition == partition and (number >= COUNT // 2) == is_late
            ]
            assert of_task == sorted(of_task)
