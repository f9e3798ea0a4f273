"""What the network counts: plain integers, read when somebody scrapes.

One object for all listeners of a broker. Kinds of closing are a small set of constants, never text
that a peer could choose.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from barnabas_broker.metrics.duration_buckets import BUCKETS_COUNT, SHIFT, DurationBuckets
from barnabas_broker.metrics.sample import Sample
from barnabas_protocol.api import ApiKey


class Timed(Protocol):
    """A request that had a response: since when it is here, and of which APIs."""

    received_ns: int
    api_key: int
    inner_key: int


class NetworkMetrics:
    """The counters of all listeners."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "closed",
        "connections_accepted",
        "connections_open",
        "handshakes",
        "mutes",
        "read_pauses",
        "rejected",
        "times",
        "write_pauses",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_accepted = 0
        self.connections_open = 0
        self.mutes = 0
        self.read_pauses = 0
        self.write_pauses = 0
        self.closed: dict[str, int] = {}  # by kind
        self.rejected: dict[str, int] = {}  # by the limit that forbade it
        self.handshakes: dict[tuple[str, str], int] = {}  # by listener and outcome
        self.times: dict[int, DurationBuckets] = {}  # by API key, -1 if it was never read

    def observe(self, in_flight_requests: Iterable[Timed], now_ns: int) -> None:
        """Count requests that end now."""
        times = self.times
        for in_flight in in_flight_requests:
            elapsed_ns = now_ns - in_flight.received_ns
            try:
                entry = times[in_flight.api_key]
            except KeyError:
                entry = times[in_flight.api_key] = DurationBuckets()
            entry.total_ns += elapsed_ns
            index = (elapsed_ns >> SHIFT).bit_length()
            entry.buckets[index if index < BUCKETS_COUNT else -1] += 1
            if in_flight.inner_key >= 0:  # of a client, carried by an envelope
                times.setdefault(in_flight.inner_key, DurationBuckets()).add(elapsed_ns)

    def count_handshake(self, listener: str, outcome: str) -> None:
        """Count a TLS handshake that is over; outcomes are a few constants."""
        key = listener, outcome
        self.handshakes[key] = self.handshakes.get(key, 0) + 1

    def samples(self) -> Iterator[Sample]:
        """All of it for the collector."""
        yield Sample(
            "barnabas_network_bytes_in_total", "counter", "Bytes received.", {}, self.bytes_in
        )
        yield Sample(
            "barnabas_network_bytes_out_total", "counter", "Bytes of responses.", {}, self.bytes_out
        )
        yield Sample(
            "barnabas_connections_accepted_total",
            "counter",
            "Connections accepted.",
            {},
            self.connections_accepted,
        )
        yield Sample(
            "barnabas_connections_open", "gauge", "Connections now.", {}, self.connections_open
        )
        yield Sample(
            "barnabas_connections_throttled_total",
            "counter",
            "Times a connection was muted for a quota.",
            {},
            self.mutes,
        )
        yield Sample(
            "barnabas_connection_read_pauses_total",
            "counter",
            "Times reading from a connection stopped because its requests were too many.",
            {},
            self.read_pauses,
        )
        yield Sample(
            "barnabas_connection_write_pauses_total",
            "counter",
            "Times a connection did not take its responses.",
            {},
            self.write_pauses,
        )
        for limit, count in self.rejected.items():
            yield Sample(
                "barnabas_connections_rejected_total",
                "counter",
                "Connections refused, by the limit that was reached.",
                {"limit": limit},
                count,
            )
        for kind, count in self.closed.items():
            yield Sample(
                "barnabas_connections_closed_total",
                "counter",
                "Connections closed, by kind of reason.",
                {"reason": kind},
                count,
            )
        for (listener, outcome), count in self.handshakes.items():
            yield Sample(
                "barnabas_tls_handshakes_total",
                "counter",
                "TLS handshakes of clients and brokers that are over, by outcome.",
                {"listener": listener, "outcome": outcome},
                count,
            )
        yield from self._request_samples()

    def _request_samples(self) -> Iterator[Sample]:
        for key, times in self.times.items():
            yield Sample(
                "barnabas_request_seconds",
                "histogram",
                "Time from the arrival of a request to its response, waiting included.",
                {"api": ApiKey(key).name.lower() if key in _KEYS else "unknown"},
                times.histogram(),
            )


_KEYS = {key.value for key in ApiKey}
