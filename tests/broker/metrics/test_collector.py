"""From plain integers to Prometheus' text."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas_broker.metrics.collector import Histogram, MetricsCollector, Sample


def parsed(collector: MetricsCollector) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text, content_type = collector.render(collector.snapshot())
    assert content_type.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_values_are_read_when_scraped() -> None:
    """architecture.md section 4: the owner's integer is the metric."""
    collector = MetricsCollector()
    state = {"value": 1}

    def source() -> Iterator[Sample]:
        yield Sample("x_requests_total", "counter", "Requests.", {"api": "fetch"}, state["value"])
        yield Sample("x_open", "gauge", "Open.", {}, -state["value"])

    collector.register(source)
    assert parsed(collector)["x_requests_total", (("api", "fetch"),)] == 1
    state["value"] = 7
    assert parsed(collector)["x_requests_total", (("api", "fetch"),)] == 7
    assert parsed(collector)["x_open", ()] == -7
    collector.unregister(source)
    assert ("x_open", ()) not in parsed(collector)


def test_samples_of_one_name_from_several_sources_are_one_family() -> None:
    """The text format allows a name once."""
    collector = MetricsCollector()
    for name in ("a", "b"):
        collector.register(
            lambda name=name: [Sample("x_pending", "gauge", "Pending.", {"purgatory": name}, 3)]  # type: ignore[misc]
        )
    text, _ = collector.render(collector.snapshot())
    assert text.count(b"# TYPE x_pending gauge") == 1
    assert parsed(collector)["x_pending", (("purgatory", "b"),)] == 3


def test_histograms_are_cumulative() -> None:
    collector = MetricsCollector()
    value = Histogram([0.1, 1.0], [2, 3, 1], 2.5)
    collector.register(lambda: [Sample("x_seconds", "histogram", "Time.", {"api": "y"}, value)])
    found = parsed(collector)
    assert found["x_seconds_bucket", (("api", "y"), ("le", "0.1"))] == 2
    assert found["x_seconds_bucket", (("api", "y"), ("le", "1.0"))] == 5
    assert found["x_seconds_bucket", (("api", "y"), ("le", "+Inf"))] == 6
    assert found["x_seconds_count", (("api", "y"),)] == 6
    assert found["x_seconds_sum", (("api", "y"),)] == 2.5


def test_a_failing_source_is_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    collector = MetricsCollector()

    def broken() -> list[Sample]:
        raise ValueError("broken")

    collector.register(broken)
    collector.register(lambda: [Sample("x_open", "gauge", "Open.", {}, 1)])
    found = parsed(collector)
    assert found["x_open", ()] == 1
    assert found["barnabas_metric_source_failures_total", ()] == 1
    assert "a source of metrics failed" in caplog.text


def test_the_process_itself_is_part_of_a_scrape() -> None:
    assert parsed(MetricsCollector())["process_open_fds", ()] > 0


def test_it_registers_with_prometheus_client_like_any_collector() -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    collector = MetricsCollector()
    collector.register(lambda: [Sample("x_open", "gauge", "Open.", {}, 1)])
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)  # type: ignore[arg-type]
    assert b"x_open 1.0" in generate_latest(registry)


def test_the_library_is_not_imported_before_the_first_scrape() -> None:
    """Start-up time: architecture.md section 7."""
    program = (
        "import sys; import barnabas_broker.metrics.collector, barnabas_broker.admin.admin_server;"
        "sys.exit(any(m in sys.modules for m in ('prometheus_client', 'aiohttp')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_what_must_be_found_out_first_is_waited_for_and_may_fail() -> None:
    """Lag is asked of other brokers; one that fails must not cost the rest of the scrape."""
    collector = MetricsCollector()
    found: list[int] = []

    async def fails() -> None:
        raise ValueError("nobody answers")

    async def finds() -> None:
        found.append(1)

    collector.register_refresh(fails)
    collector.register_refresh(finds)
    collector.register(lambda: [Sample("x_found", "gauge", "Found.", {}, len(found))])
    asyncio.run(collector.refresh())
    assert parsed(collector)["x_found", ()] == 1
    assert parsed(collector)["barnabas_metric_source_failures_total", ()] == 1
