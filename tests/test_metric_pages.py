"""The page of all metrics: what brokers, operator and console expose is there, as it is there.

The other way round nothing can be missing: who reads the code fails at what it cannot read.
"""

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from barnabas_console.metrics import ConsoleMetrics, registry_of
from barnabas_operator.metrics import OperatorMetrics
from barnabas_operator.work.key import Key
from barnabas_operator.work.work_queue import WorkQueue
from handbook import metric_pages
from handbook.metric_pages import PROCESS, Metric, UnreadableMetricError, read
from tests.monitoring.secure_metrics import SECURE_METRICS
from tests.support.in_process_broker import running_broker

ROOT = Path(__file__).resolve().parent.parent
# Pages with names of the pytest plugin, which look alike.
FIXTURES_NAMED = ("testing.md", "trials.md")
BROKER = [one for metrics in metric_pages.broker_metrics().values() for one in metrics]


def described(metrics: Iterable[Metric]) -> dict[str, tuple[str, str]]:
    return {one.name: (one.kind, one.text) for one in metrics}


def exposed(registry: CollectorRegistry) -> dict[str, tuple[str, str]]:
    """The families of a registry as the page has them, those of the process left out."""
    found = {}
    for family in registry.collect():
        if not family.name.startswith("process_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = (family.type, family.documentation)
    return found


def test_what_a_broker_exposes_is_on_the_page(tmp_path: Path) -> None:
    """With its type, its labels and its sentence."""
    known = set(BROKER)

    async def run() -> None:
        async with running_broker(tmp_path) as server:
            for name, kind, text, labels, _ in server.collector.snapshot():
                assert Metric(name=name, kind=kind, labels=tuple(labels), text=text) in known

    asyncio.run(run())


def test_no_metric_of_a_broker_is_described_in_two_ways() -> None:
    names = [one.name for one in BROKER]
    assert len(names) == len(set(names))


def test_metrics_that_need_security_are_on_the_page() -> None:
    labels = {one.name: frozenset(one.labels) for one in BROKER}
    assert {name: labels[name] for name in SECURE_METRICS} == SECURE_METRICS


def test_the_page_has_the_metrics_of_the_operator_and_no_others() -> None:
    async def reconcile(_: Key) -> float | None:
        return None

    async def run() -> dict[str, tuple[str, str]]:
        metrics = OperatorMetrics()
        metrics.watch_queue(WorkQueue(reconcile))
        metrics.watch_certificate(lambda: 0.0)
        return exposed(metrics.registry)

    assert asyncio.run(run()) == described(metric_pages.operator_metrics())


def test_the_page_has_the_metrics_of_the_console_and_no_others() -> None:
    assert exposed(registry_of(ConsoleMetrics())) == described(metric_pages.console_metrics())


def test_the_page_has_the_metrics_of_every_process() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    found = {sample.name for family in registry.collect() for sample in family.samples}
    assert found == set(PROCESS)


def test_every_metric_that_a_page_of_ours_names_exists() -> None:
    """A name in a runbook that nobody exposes is a query without an answer."""
    known = {one.name for one in BROKER} | set(PROCESS)
    known |= {one.name for one in metric_pages.operator_metrics()}
    known |= {one.name for one in metric_pages.console_metrics()}
    packages = {path.name for path in ROOT.glob("*/barnabas_*")}
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "dashboards").glob("*.*")]:
        if path.name in FIXTURES_NAMED:
            continue
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"(?<![\w.])barnabas_[a-z_]+\b(?![.…*])", text):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in known | packages or base in known, (path, name)


@pytest.mark.parametrize(
    "made",
    [
        "Sample(name, 'gauge', 'A text.', {}, 1)",
        "Sample('a', 'gauge', text(), {}, 1)",
        "Sample('a', 'gauge', 'A text.', labels_of(), 1)",
        "Sample(f'{name}_total', 'counter', 'A text.', {}, 1)",
    ],
)
def test_a_metric_that_cannot_be_read_is_an_error(made: str) -> None:
    """Left out it would be missing on the page, and nobody would know."""
    with pytest.raises(UnreadableMetricError, match="line 2"):
        read(f"def samples():\n    yield {made}\n")


def test_every_row_of_a_table_is_a_metric() -> None:
    source = """
ROWS = (("a", "An a."), ("b", "A b."))
def samples(self):
    labels = {"topic": self.topic}
    for (name, text), value in zip(ROWS, self.values):
        yield Sample(f"barnabas_{name}", "gauge", text, labels, value)
"""
    assert read(source) == {
        Metric(name=f"barnabas_{name}", kind="gauge", labels=("topic",), text=text)
        for name, text in (("a", "An a."), ("b", "A b."))
    }
