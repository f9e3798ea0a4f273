"""The two ways between Spark and topics take the same options, which are checked before Spark."""

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.sources import format_and_options

READ = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def test_the_connector_polls_more_and_waits_less_than_by_default() -> None:
    """Two requests for offsets come with every poll, and half a second of waiting with every task;
    who sets another number is listened to.
    """
    name, options, _ = format_and_options(READ, Use.BATCH_READ, "connector")
    assert (name, options["kafka.max.poll.records"]) == ("kafka", "10000")
    assert options["kafka.fetch.max.wait.ms"] == "50"
    given = {**READ, "kafka.max.poll.records": "7"}
    _, options, _ = format_and_options(given, Use.STREAM_READ, "connector")
    assert options["kafka.max.poll.records"] == "7"


def test_a_producer_gets_no_consumer_settings() -> None:
    """Java's producer warns about settings that it does not know."""
    given = {"bootstrapServers": "localhost:9092", "topic": "orders"}
    for use in (Use.BATCH_WRITE, Use.STREAM_WRITE):
        name, options, _ = format_and_options(given, use, "connector")
        assert name == "kafka"
        assert options == {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}


@pytest.mark.parametrize("via", ["connector", "python"])
def test_unknown_options_are_refused_by_both_ways(via: str) -> None:
    """The connector itself ignores them, so that a typing error reads everything again."""
    with pytest.raises(OptionsError, match="startingOffsets"):
        format_and_options({**READ, "startingOffset": "latest"}, Use.BATCH_READ, via)


def test_the_options_of_one_way_alone_are_refused_by_the_other() -> None:
    """What only `format("barnabas")` has would be ignored by the connector."""
    given = {**READ, "arrowBatchRecords": "1000"}
    name, options, checked = format_and_options(given, Use.BATCH_READ, "python")
    assert (name, options["arrowBatchRecords"]) == ("barnabas", "1000")
    assert checked["arrowBatchRecords"] == 1000
    with pytest.raises(OptionsError, match="arrowBatchRecords"):
        format_and_options(given, Use.BATCH_READ, "connector")


def test_another_way_is_refused_with_the_nearest() -> None:
    """As with every name."""
    with pytest.raises(OptionsError, match="connector"):
        format_and_options(READ, Use.BATCH_READ, "conector")
