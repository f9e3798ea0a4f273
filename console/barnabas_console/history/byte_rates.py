"""`ByteRates`: bytes a second by each broker's sockets, from the counters that they tell. Pure.

Invariant: a rate needs two readings of one run of the broker: a counter that fell is of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas_console.cluster.broker_statuses import BrokerStatus


class ByteRate(NamedTuple):
    """Bytes a second; None where that is not known."""

    incoming: float | None
    outgoing: float | None


class ByteRates:
    """The last reading of each broker."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, BrokerStatus]] = {}

    def take(self, statuses: Mapping[int, BrokerStatus], now_ms: int) -> dict[int, ByteRate]:
        """The rates since the last reading; who did not tell is missing, and begins anew."""
        rates = {}
        for node_id, status in statuses.items():
            before = self._before.get(node_id)
            if before is None or now_ms <= before[0]:
                rates[node_id] = ByteRate(None, None)
                continue
            seconds = (now_ms - before[0]) / 1000
            rates[node_id] = ByteRate(
                _rate(before[1].bytes_in, status.bytes_in, seconds),
                _rate(before[1].bytes_out, status.bytes_out, seconds),
            )
        self._before = {node_id: (now_ms, status) for node_id, status in statuses.items()}
        return rates


def total(rates: list[float | None]) -> float | None:
    """Of all brokers; None where one of them is not known, for less than all would be a lie."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if rates and len(known) == len(rates) else None


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    if before is None or now is None or now < before:
        return None
    return (now - before) / seconds
