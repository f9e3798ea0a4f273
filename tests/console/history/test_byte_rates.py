"""Bytes a second, from counters that brokers tell (CON-135)."""

from barnabas_console.cluster.broker_statuses import BrokerStatus
from barnabas_console.history.byte_rates import ByteRate, ByteRates, total


def status(bytes_in: int | None, bytes_out: int | None) -> BrokerStatus:
    return BrokerStatus(loop_lag_ms=None, bytes_in=bytes_in, bytes_out=bytes_out, drain=None)


def test_a_rate_needs_two_readings() -> None:
    rates = ByteRates()
    assert rates.take({0: status(100, 50)}, 1_000) == {0: ByteRate(None, None)}
    assert rates.take({0: status(300, 60)}, 3_000) == {0: ByteRate(100, 5)}


def test_a_broker_that_was_restarted_or_away_begins_anew() -> None:
    """Its counter fell: what came meanwhile is not known."""
    rates = ByteRates()
    rates.take({0: status(100, 50), 1: status(1, 1)}, 1_000)
    assert rates.take({0: status(10, 90)}, 2_000) == {0: ByteRate(None, 40)}
    assert rates.take({1: status(2, 2)}, 3_000) == {1: ByteRate(None, None)}


def test_of_all_brokers_nothing_is_told_where_one_is_unknown() -> None:
    assert total([1.0, 2.0]) == 3
    assert total([1.0, None]) is None
    assert total([]) is None
