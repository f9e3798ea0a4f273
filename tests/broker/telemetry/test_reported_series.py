"""Series of clients as Prometheus is shown them, and what keeps them few."""

import math

from barnabas_broker.metrics.collector import MetricsCollector
from barnabas_broker.telemetry.client_instance import ClientInstance, Requested
from barnabas_broker.telemetry.otlp import PointKind
from barnabas_broker.telemetry.push_reader import Push, ReportedPoint
from barnabas_broker.telemetry.reported_series import (
    LIFETIME_MS_MIN,
    SERIES_PER_CLIENT_MAX,
    ReportedSeries,
)

INTERVAL_MS = 60_000


class Connection:
    """What is weakly referred to."""


def client(number: int = 1, *, last: bool = False) -> ClientInstance:
    return ClientInstance(
        id=bytes([number]) * 16,
        attributes={
            "client_instance_id": f"id-{number}",
            "client_id": f"app-{number}",
            "client_software_name": "apache-kafka-java",
        },
        requested=Requested(metrics=("*",), push_interval_ms=INTERVAL_MS),
        subscription_id=0,
        subscriptions_version=0,
        is_terminating=last,
    )


def pushed(*points: tuple[PointKind, str, float]) -> Push:
    return Push(
        [ReportedPoint(kind, (name, "", "", "", ""), value) for kind, name, value in points], 0
    )


def shown(series: ReportedSeries, now_ms: int = 0) -> dict[tuple[str, str, str], object]:
    return {
        (sample.labels["client_id"], sample.name, sample.labels["metric"]): sample.value
        for sample in series.samples(now_ms)
    }


VALUE, TOTAL = "barnabas_client_reported_value", "barnabas_client_reported_total"


def test_the_newest_value_is_shown_and_deltas_are_added_up() -> None:
    """TEL-6: gauges and counters are families of their own, so names do not clash."""
    series, connection = ReportedSeries(100), Connection()
    for factor in (1, 10):
        push = pushed(
            (PointKind.GAUGE, "m", 1.0 * factor),
            (PointKind.COUNTER, "ever", 2.0 * factor),
            (PointKind.COUNTER_DELTA, "m", 3.0 * factor),
            (PointKind.GAUGE_DELTA, "open", -4.0 * factor),
        )
        series.take(client(), push, connection, 0)
    assert shown(series) == {
        ("app-1", VALUE, "m"): 10,
        ("app-1", TOTAL, "ever"): 20,
        ("app-1", TOTAL, "m"): 33,
        ("app-1", VALUE, "open"): -44,
    }
    assert series.series_count == 4


def test_a_gauge_that_has_no_number_any_more_goes() -> None:
    """TEL-6: an average of nothing is not what it was before; it may come again."""
    series, connection = ReportedSeries(100), Connection()
    for value, expected in ((1.0, 1), (math.nan, 0), (math.inf, 0), (2.0, 1)):
        series.take(client(), pushed((PointKind.GAUGE, "m", value)), connection, 0)
        assert (len(shown(series)), series.series_count) == (expected, expected)


def test_a_counter_cannot_be_added_up_to_what_is_no_number() -> None:
    """TEL-6."""
    series, connection = ReportedSeries(100), Connection()
    for _ in range(2):
        series.take(client(), pushed((PointKind.COUNTER_DELTA, "m", 1.7e308)), connection, 0)
    assert shown(series) == {("app-1", TOTAL, "m"): 1.7e308}


def test_there_is_room_for_so_many_series_of_a_client_and_of_all() -> None:
    """TEL-6: who comes later is left out and counted; known series go on."""
    series = ReportedSeries(SERIES_PER_CLIENT_MAX + 2)
    many = [(PointKind.GAUGE, f"m{n}", 1.0) for n in range(SERIES_PER_CLIENT_MAX + 1)]
    first, second = Connection(), Connection()
    series.take(client(1), pushed(*many), first, 0)
    assert (series.series_count, series.left_out_count) == (SERIES_PER_CLIENT_MAX, 1)
    series.take(client(2), pushed(*many[:3]), second, 0)
    assert (series.series_count, series.left_out_count) == (SERIES_PER_CLIENT_MAX + 2, 2)
    series.take(client(2), pushed((PointKind.GAUGE, "m0", 5.0)), second, 0)
    assert shown(series)["app-2", VALUE, "m0"] == 5
    series.take(client(3), pushed(*many[:3]), Connection(), 0)
    assert (series.client_count, series.left_out_count) == (2, 5)


def test_a_client_that_pushes_no_more_is_forgotten() -> None:
    """TEL-6: after three intervals; one that has ended sooner, when it has been scraped."""
    series = ReportedSeries(100)
    push = pushed((PointKind.GAUGE, "m", 1.0))
    first, second = Connection(), Connection()
    series.take(client(1), push, first, 0)
    series.take(client(2, last=True), push, second, 0)
    assert len(shown(series, LIFETIME_MS_MIN - 1)) == 2
    assert set(shown(series, LIFETIME_MS_MIN)) == {("app-1", VALUE, "m")}
    assert shown(series, 3 * INTERVAL_MS) == {}
    assert (series.series_count, series.client_count) == (0, 0)


def test_a_connection_has_one_client() -> None:
    """TEL-6: who pushes as another by the same connection does not fill the page."""
    series, connection = ReportedSeries(100), Connection()
    push = pushed((PointKind.GAUGE, "m", 1.0))
    for number in range(1, 5):
        series.take(client(number), push, connection, 0)
    assert set(shown(series)) == {("app-4", VALUE, "m")}
    series.take(client(1), push, Connection(), 0)
    assert series.client_count == 2


def test_a_page_with_series_of_clients_can_be_read() -> None:
    """TEL-6: whatever texts are in it, in both formats."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
    from prometheus_client.parser import text_string_to_metric_families as plain

    series, connection = ReportedSeries(100), Connection()
    odd = client()
    odd.attributes = {**odd.attributes, "client_id": 'a"b\\c\n# TYPE x counter\n'}
    push = pushed(
        (PointKind.GAUGE, "m", 1.0),
        (PointKind.COUNTER, "m", 1.0),
        (PointKind.COUNTER, "m_total", 2.0),
    )
    series.take(odd, push, connection, 0)
    collector = MetricsCollector()
    for accept, parse in (("", plain), ("application/openmetrics-text", open_metrics)):
        text, _ = collector.render(list(series.samples(0)), accept)
        found = {
            (sample.name, sample.labels["metric"]): sample.labels["client_id"]
            for family in parse(text.decode())
            for sample in family.samples
            if "metric" in sample.labels
        }
        assert set(found) == {(VALUE, "m"), (TOTAL, "m"), (TOTAL, "m_total")}
        assert set(found.values()) == {'a"b\\c_# TYPE x counter_'}
