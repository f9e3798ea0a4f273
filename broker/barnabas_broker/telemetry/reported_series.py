"""What clients have pushed, as it is shown to Prometheus: the newest value of each series (TEL-6).

Two families, of gauges and of counters, whatever clients call their metrics: a name is a value of a
label, so no client can touch the metrics of the broker or of another client. Deltas are added up
from the first push to this broker on.

Invariants: at most `series_max` series in all and `SERIES_PER_CLIENT_MAX` of one client, with texts
that `push_reader` has cut; what has no room is counted. A client that pushes no more is forgotten
after its time, and a connection has one client: what it pushed as another goes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

from barnabas_broker.config.client_metrics_settings import (
    CLIENT_ID,
    CLIENT_INSTANCE_ID,
    CLIENT_SOFTWARE_NAME,
)
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.telemetry.client_instance import ClientInstance
from barnabas_broker.telemetry.otlp import PointKind
from barnabas_broker.telemetry.push_reader import POINT_LABELS, Push, ReportedPoint, fit_label

SERIES_PER_CLIENT_MAX: Final = 1000
LIFETIME_MS_MIN: Final = 120_000
"""Two scrapes at least, also of what a client pushed last before it ended."""
INTERVALS_KEPT: Final = 3

_LABELS: Final = (CLIENT_ID, CLIENT_SOFTWARE_NAME, CLIENT_INSTANCE_ID, *POINT_LABELS)
_FAMILIES: Final = {
    False: ("barnabas_client_reported_value", "gauge", "Gauges that clients push (KIP-714)."),
    True: (
        "barnabas_client_reported_total",
        "counter",
        "Counters that clients push (KIP-714), since their first push to this broker.",
    ),
}
_COUNTERS: Final = frozenset((PointKind.COUNTER, PointKind.COUNTER_DELTA))
_DELTAS: Final = frozenset((PointKind.COUNTER_DELTA, PointKind.GAUGE_DELTA))
_Key = tuple[bool, tuple[str, ...]]


class _Client:
    """The series of one client instance."""

    __slots__ = ("expires_ms", "labels", "series")

    def __init__(self, instance: ClientInstance) -> None:
        attributes = instance.attributes
        self.labels = tuple(fit_label(attributes.get(name, "")) for name in _LABELS[:3])
        self.series: dict[_Key, Sample] = {}
        self.expires_ms = 0


class ReportedSeries:
    """The series of all clients; touched on the loop only."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._clients: dict[bytes, _Client] = {}
        self._by_connection: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()
        self.series_count = 0
        self.left_out_count = 0

    @property
    def client_count(self) -> int:
        """How many clients have series here."""
        return len(self._clients)

    def take(self, instance: ClientInstance, push: Push, connection: Any, now_ms: int) -> None:
        """Show what a client has pushed by a connection from now on."""
        self._forget_expired(now_ms)
        former = self._by_connection.get(connection)
        if former is not None and former != instance.id:
            self._forget(former)
        self._by_connection[connection] = instance.id
        client = self._clients.get(instance.id)
        if client is None:
            client = self._clients[instance.id] = _Client(instance)
        intervals_ms = 0 if instance.is_terminating else INTERVALS_KEPT * instance.push_interval_ms
        client.expires_ms = now_ms + max(LIFETIME_MS_MIN, intervals_ms)
        self.left_out_count += push.left_out_count
        for point in push.points:
            if not self._take_point(client, point):
                self.left_out_count += 1
        if not client.series:
            del self._clients[instance.id]

    def samples(self, now_ms: int) -> Iterator[Sample]:
        """Every series."""
        self._forget_expired(now_ms)
        for is_counter in (False, True):
            for client in self._clients.values():
                for key, sample in client.series.items():
                    if key[0] is is_counter:
                        yield sample

    def _take_point(self, client: _Client, point: ReportedPoint) -> bool:
        """Whether there was room."""
        key = (point.kind in _COUNTERS, point.labels)
        known = client.series.get(key)
        value = point.value
        if known is not None:
            if point.kind in _DELTAS and isinstance(known.value, float):
                value += known.value
            if math.isfinite(value):
                client.series[key] = Sample(*known[:-1], value)
            elif point.kind is PointKind.GAUGE:
                del client.series[key]
                self.series_count -= 1
            return True
        if not math.isfinite(value):
            return True
        if len(client.series) >= SERIES_PER_CLIENT_MAX or self.series_count >= self._series_max:
            return False
        name, kind, text = _FAMILIES[key[0]]
        labels = dict(zip(_LABELS, (*client.labels, *point.labels), strict=True))
        client.series[key] = Sample(name, kind, text, labels, value)
        self.series_count += 1
        return True

    def _forget_expired(self, now_ms: int) -> None:
        for instance_id in [
            key for key, client in self._clients.items() if client.expires_ms <= now_ms
        ]:
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        client = self._clients.pop(instance_id, None)
        if client is not None:
            self.series_count -= len(client.series)
