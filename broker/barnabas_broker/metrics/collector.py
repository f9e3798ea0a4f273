"""Reads everybody's plain integers when somebody scrapes, and writes Prometheus' text format.

The objects that own a number count it; sources registered here tell name, kind and value when they
are asked. So nothing on the way of a request touches a metric object, a label or a lock.
`prometheus_client` is imported with the first scrape, not with the broker.

What has to be found out first, by asking others, is asked before a scrape is answered.

Invariants: sources are read on the loop, where their owners live; a source that fails is counted
and left out, and the rest of the scrape is whole.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas_broker.metrics.sample import Histogram, MetricSource, Sample

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["Histogram", "MetricSource", "MetricsCollector", "Sample"]

_log = logging.getLogger(__name__)

Refresh = Callable[[], Awaitable[None]]


class MetricsCollector:
    """The sources of a process; also a custom collector of prometheus_client."""

    def __init__(self) -> None:
        self._sources: dict[MetricSource, None] = {}
        self._refreshes: list[Refresh] = []
        self._registry: Any = None
        self.failed_count = 0

    def register(self, source: MetricSource) -> None:
        """Ask a source with every scrape from now on."""
        self._sources[source] = None

    def unregister(self, source: MetricSource) -> None:
        """Stop asking a source."""
        self._sources.pop(source, None)

    def register_refresh(self, refresh: Refresh) -> None:
        """Wait for it before every scrape from now on; it must end in a few seconds."""
        self._refreshes.append(refresh)

    async def refresh(self) -> None:
        """Find out what sources tell that they cannot know by themselves."""
        for refresh in self._refreshes:
            try:
                await refresh()
            except Exception:
                self.failed_count += 1
                _log.exception("finding out metrics failed")

    def snapshot(self) -> list[Sample]:
        """What all sources tell now; call it where their owners run."""
        samples: list[Sample] = []
        for source in list(self._sources):
            try:
                samples += source()
            except Exception:
                self.failed_count += 1
                _log.exception("a source of metrics failed")
        samples.append(
            Sample(
                "barnabas_metric_source_failures_total",
                "counter",
                "Sources of metrics that raised an exception when they were read.",
                {},
                self.failed_count,
            )
        )
        return samples

    def collect(self) -> Iterable["Metric"]:
        """The metric families of a snapshot; this makes it a collector of prometheus_client."""
        return families(self.snapshot())

    def render(self, samples: Sequence[Sample], accept: str = "") -> tuple[bytes, str]:
        """The text of samples and of the process itself, and its content type.

        Slow with many samples, but it touches nothing of the broker: it may run in a thread.
        """
        from prometheus_client import exposition

        encoder, content_type = exposition.choose_encoder(accept)
        return encoder(_Registry(families(samples), self._process_registry())), content_type

    def _process_registry(self) -> Any:
        """Memory, descriptors and CPU time of the process, under Prometheus' usual names."""
        if self._registry is None:
            from prometheus_client import CollectorRegistry, ProcessCollector

            self._registry = CollectorRegistry(auto_describe=False)
            ProcessCollector(registry=self._registry)
        return self._registry


class _Registry:
    """The little of a registry that an encoder uses."""

    def __init__(self, metrics: Iterable["Metric"], process: Any) -> None:
        self._metrics = metrics
        self._process = process

    def collect(self) -> Iterable["Metric"]:
        yield from self._metrics
        yield from self._process.collect()


def families(samples: Iterable[Sample]) -> list["Metric"]:
    """Samples grouped by name, each name once, in the order of their first appearance.

    Raises: ValueError on a kind that is none of counter, gauge and histogram.
    """
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    kinds: dict[str, Any] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    found: dict[str, tuple[Any, list[str]]] = {}
    for sample in samples:
        entry = found.get(sample.name)
        if entry is None:
            if sample.kind not in kinds:
                raise ValueError(f"{sample.name} has the unknown kind {sample.kind}")
            names = list(sample.labels)
            family = kinds[sample.kind](sample.name, sample.help, labels=names)
            entry = found[sample.name] = (family, names)
        family, names = entry
        labels = [str(sample.labels[name]) for name in names]
        if isinstance(sample.value, Histogram):
            family.add_metric(labels, _cumulative(sample.value), sum_value=sample.value.total)
        else:
            family.add_metric(labels, sample.value)
    return [family for family, _ in found.values()]


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    """Prometheus' buckets, each of which includes the ones below it."""
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*histogram.bounds, float("inf")], histogram.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else repr(bound), total))
    return buckets
