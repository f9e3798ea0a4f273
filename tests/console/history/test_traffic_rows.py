"""Traffic of the start page: what comes and goes, now and in the last hour (CON-110)."""

from barnabas_console.history.series import SeriesStore
from barnabas_console.history.traffic_rows import load_of, traffic


def test_traffic_is_records_and_bytes_where_brokers_tell_them() -> None:
    series = SeriesStore()
    assert [row["records_per_second"] for row in traffic(series)] == [None, None]
    series.begin(0)
    series.record("cluster:arriving:", 12)
    series.record("cluster:bytes_out:", 2048)
    incoming, outgoing = traffic(series)
    assert (incoming["direction"], incoming["records_per_second"]) == ("in", 12)
    assert incoming["records_trend"][-1] == 12
    assert (incoming["bytes_per_second"], incoming["bytes_trend"]) == (None, None)
    assert (outgoing["records_per_second"], outgoing["bytes_per_second"]) == (None, 2048)


def test_load_is_bytes_else_the_records_that_come() -> None:
    """Apache Kafka's brokers tell no bytes to clients."""
    series = SeriesStore()
    series.begin(0)
    series.record("broker:bytes:0", 7)
    series.record("broker:arriving:0", 1)
    series.record("broker:arriving:1", 2)
    assert (load_of(series, 0)["load"][-1], load_of(series, 0)["load_unit"]) == (7, "bytes")
    assert (load_of(series, 1)["load"][-1], load_of(series, 1)["load_unit"]) == (2, "records")
    assert load_of(series, 2) == {"load": None, "load_unit": None}
