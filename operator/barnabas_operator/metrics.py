"""What the operator tells Prometheus about itself: work, writes, leadership, its resources.

Source: kopf has no exporter, so this is our own, on the operator's HTTP port. Gauges of the queue
are read when they are scraped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest

from barnabas_operator.kubernetes.api import ForbiddenError, KubernetesError
from barnabas_operator.kubernetes.kinds import LEASE, Kind
from barnabas_operator.reconcile.broker.eviction_gate import Ruling
from barnabas_operator.work.key import Key
from barnabas_operator.work.work_queue import ReconcileResult, WorkQueue

_READS = frozenset({"get", "list"})
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class OperatorMetrics:
    """All metrics of one operator, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = self._counter(
            "api_requests",
            "Requests to the API server by verb, kind and HTTP status (0: no answer).",
            ("verb", "kind", "code"),
        )
        self._writes = self._counter(
            "api_writes",
            "Writes to the API server, without the operator's own Lease; idle means none.",
            ("verb", "kind"),
        )
        self._reconciles = self._counter(
            "reconciles", "Finished passes by what they reconcile and how.", ("kind", "result")
        )
        self._seconds = Histogram(
            "barnabas_operator_reconcile_seconds",
            "How long a pass takes.",
            ("kind",),
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._resources = self._gauge(
            "resources",
            "Resources of a Broker by kind and whether they are ready.",
            ("kind", "namespace", "broker", "ready"),
        )
        self._leader = self._gauge("leader", "1 while this replica acts, else 0.", ())
        self._events = self._counter("watch_events", "Events of watches, by kind.", ("kind",))

        self._evictions = self._counter(
            "evictions", "Evictions that were judged, by ruling.", ("ruling",)
        )

    def watch_queue(self, queue: WorkQueue) -> None:
        """Serve the queue's gauges from now on."""
        for name, why, read in (
            ("reconciles_in_progress", "Passes under way.", lambda: queue.in_progress),
            ("queue_depth", "Keys that wait for a worker.", lambda: queue.depth),
            (
                "queue_oldest_seconds",
                "How long the oldest key waits or is worked at.",
                lambda: queue.oldest_seconds,
            ),
        ):
            self._gauge(name, why, ()).set_function(_as_number(read))

    def request(self, verb: str, kind: Kind, code: int) -> None:
        """Count a request to the API server."""
        self._requests.labels(verb, kind.kind, str(code)).inc()
        if verb not in _READS and kind is not LEASE:
            self._writes.labels(verb, kind.kind).inc()

    def finished(self, done: ReconcileResult) -> None:
        """Count a pass."""
        self._reconciles.labels(str(done.key.kind), _result(done.error)).inc()
        self._seconds.labels(str(done.key.kind)).observe(done.seconds)

    def on_event(self, kind: Kind) -> None:
        """Count a change."""
        self._events.labels(kind.kind).inc()

    def lead(self, is_leader: bool) -> None:
        """Tell whether this replica acts."""
        self._leader.set(int(is_leader))

    def eviction(self, ruling: Ruling) -> None:
        """Count what was said to an eviction."""
        self._evictions.labels(str(ruling)).inc()

    def watch_certificate(self, expires_seconds: Callable[[], float]) -> None:
        """Serve from now on when the webhook's certificate expires."""
        self._gauge(
            "webhook_certificate_expires_seconds",
            "When the webhook's certificate expires, since 1970; 0 while there is no valid one.",
            (),
        ).set_function(_as_number(expires_seconds))

    def resources(self, kind: Kind, key: Key, ready: int, others: int) -> None:
        """Tell how many resources of a kind a Broker has."""
        self._resources.labels(kind.kind, key.namespace, key.name, "true").set(ready)
        self._resources.labels(kind.kind, key.namespace, key.name, "false").set(others)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, why: str, labels: Iterable[str]) -> Counter:
        return Counter(f"barnabas_operator_{name}", why, tuple(labels), registry=self.registry)

    def _gauge(self, name: str, why: str, labels: Iterable[str]) -> Gauge:
        return Gauge(f"barnabas_operator_{name}", why, tuple(labels), registry=self.registry)


def _as_number(read: Callable[[], float]) -> Callable[[], float]:
    return lambda: float(read())


def _result(error: Exception | None) -> str:
    match error:
        case None:
            return "done"
        case ForbiddenError():
            return "forbidden"
        case KubernetesError():
            return "api"
        case TimeoutError():
            return "timeout"
        case _:
            return "failed"
