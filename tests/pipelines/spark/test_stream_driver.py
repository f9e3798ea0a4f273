"""How far the next micro-batch goes, on a model of the logs and of time."""

from collections.abc import Mapping

import pytest

from barnabas_pipelines.datasource.stream_reader import StreamDriver
from barnabas_pipelines.errors import DataLossError
from barnabas_pipelines.offsets import LogView, StreamOffsets, begins
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.options import parse_options
from barnabas_protocol.ids import TopicPartition
from tests.support.simulated_clock import HandClock

pytestmark = pytest.mark.spark


class Logs:
    """One topic whose partitions begin and end where the test says."""

    def __init__(self, **ends: int) -> None:
        self.starts: dict[int, int] = {}
        self.ends = {int(name[1:]): end for name, end in ends.items()}
        self.topic_id = "id-1"

    def log_view(self, *, may_be_missing: bool = False) -> LogView:
        starts = {number: self.starts.get(number, 0) for number in self.ends}
        return LogView(starts=named(starts), ends=self.at(**self.by_name()))

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        raise AssertionError("no test begins at a time")

    def by_name(self) -> dict[str, int]:
        return {f"p{number}": end for number, end in self.ends.items()}

    def at(self, **offsets: int) -> StreamOffsets:
        numbers = {int(name[1:]): offset for name, offset in offsets.items()}
        return StreamOffsets(offsets=named(numbers), topic_ids={"orders": self.topic_id})


def named(numbers: dict[int, int]) -> dict[TopicPartition, int]:
    return {TopicPartition("orders", number): offset for number, offset in numbers.items()}


def driver(logs: Logs, clock: HandClock | None = None, **more: str) -> StreamDriver:
    given = {"bootstrapServers": "broker:9092", "subscribe": "orders", **more}
    return StreamDriver(parse_options(given, Use.STREAM_READ), logs, clock or HandClock())


def test_the_initial_offset_stays_what_it_was() -> None:
    """Spark asks twice at the start; records that come between are not skipped."""
    logs = Logs(p0=5)
    one = driver(logs)
    assert one.initial() == logs.at(p0=5)
    logs.ends[0] = 9
    assert one.initial().offsets == named({0: 5})


def test_a_minimum_waits_until_there_is_enough_or_the_delay_is_over() -> None:
    """As with the connector: not at the start, and counted from the last batch."""
    logs, clock = Logs(p0=10), HandClock()
    one = driver(logs, clock, minOffsetsPerTrigger="100", maxTriggerDelay="10s")
    start = logs.at(p0=0)
    assert one.next_end(start, most=None, least=100) == logs.at(p0=10)
    start = logs.at(p0=10)
    logs.ends[0] = 60
    assert one.next_end(start, most=None, least=100) == start
    clock.now_ms += 9_999
    assert one.next_end(start, most=None, least=100) == start
    clock.now_ms += 1
    assert one.next_end(start, most=None, least=100) == logs.at(p0=60)
    start = logs.at(p0=60)
    logs.ends[0] = 160
    assert one.next_end(start, most=50, least=100) == logs.at(p0=110)


def test_a_minimum_does_not_keep_available_now_from_ending() -> None:
    """Nothing more will come that could be waited for."""
    logs = Logs(p0=10)
    one = driver(logs, minOffsetsPerTrigger="100", maxTriggerDelay="1h")
    one.fix_target()
    assert one.next_end(logs.at(p0=0), most=None, least=100) == logs.at(p0=10)
    logs.ends[0] = 12
    assert one.next_end(logs.at(p0=10), most=None, least=100) == logs.at(p0=10)


def test_available_now_reads_no_partition_that_came_later() -> None:
    """And still ends: the last offset is the one before."""
    logs = Logs(p0=10)
    one = driver(logs)
    one.fix_target()
    logs.ends.update({0: 20, 1: 5})
    end = one.next_end(logs.at(p0=3), most=None, least=None)
    assert end == logs.at(p0=10)
    assert one.next_end(end, most=None, least=None) == end


def test_available_now_ends_though_the_topic_is_made_anew_meanwhile() -> None:
    """The new one is for the next run."""
    logs = Logs(p0=10)
    one = driver(logs, failOnDataLoss="false")
    one.fix_target()
    start = logs.at(p0=10)
    logs.topic_id, logs.ends = "id-2", {0: 4}
    end = one.next_end(start, most=None, least=None)
    assert one.next_end(end, most=None, least=None) == end
    assert end.offsets == {}


def test_available_now_keeps_to_the_end_of_a_topic_that_was_made_anew_before() -> None:
    """What was read of the old topic says nothing about the new one."""
    logs = Logs(p0=50)
    start = logs.at(p0=50)
    logs.topic_id, logs.ends = "id-2", {0: 10}
    one = driver(logs, failOnDataLoss="false")
    one.fix_target()
    logs.ends[0] = 30
    assert one.next_end(start, most=None, least=None) == logs.at(p0=10)


def test_a_limit_counts_from_what_is_still_there() -> None:
    """With failOnDataLoss=false, it does not crawl through offsets that are gone."""
    logs = Logs(p0=1_000_100)
    logs.starts[0] = 1_000_000
    start = logs.at(p0=7)
    one = driver(logs, failOnDataLoss="false")
    assert one.next_end(start, most=30, least=None) == logs.at(p0=1_000_030)
    with pytest.raises(DataLossError, match="999993 records of 1 partitions are gone"):
        driver(logs).next_end(start, most=30, least=None)


def test_a_log_that_was_cut_is_gone_on_with_at_its_end() -> None:
    """Behind an unclean election; reading again what is there would double it."""
    logs = Logs(p0=5)
    one = driver(logs, failOnDataLoss="false")
    assert one.next_end(logs.at(p0=9), most=10, least=None) == logs.at(p0=5)


def test_a_partition_that_is_not_seen_for_a_while_is_not_read_again() -> None:
    """As by a broker that has just started: from its beginning, everything would be there twice."""
    logs = Logs(p0=10, p1=20)
    one = driver(logs, failOnDataLoss="false")
    start = logs.at(p0=10, p1=20)
    del logs.ends[1]
    logs.ends[0] = 12
    end = one.next_end(start, most=None, least=None)
    assert end == logs.at(p0=12, p1=20)
    logs.ends[1] = 25
    assert begins(end, logs.log_view()).offsets == named({0: 12, 1: 20})
    with pytest.raises(DataLossError, match=r"orders-1.*does not exist any more"):
        del logs.ends[1]
        driver(logs).next_end(start, most=None, least=None)
