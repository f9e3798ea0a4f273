"""What log-ins are counted by: plain integers, read when somebody scrapes.

Mechanisms are those that are configured, never a text that a client could choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from barnabas_broker.metrics.sample import Sample

UNKNOWN: str = "none"
"""Failures before a mechanism was agreed on."""


class LoginMetrics:
    """The counters of all listeners with SASL."""

    def __init__(self) -> None:
        self.logins: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.reauthentications: Counter[str] = Counter()
        self.reauthentication_failures: Counter[str] = Counter()
        self.expired: Counter[str] = Counter()
        self.overdue = 0

    def samples(self) -> Iterator[Sample]:
        """The counters, for the collector."""
        for name, text, counts in (
            ("logins", "Log-ins that succeeded.", self.logins),
            ("login_failures", "Log-ins that failed.", self.failures),
            ("reauthentications", "Log-ins on connections that had one.", self.reauthentications),
            (
                "reauthentication_failures",
                "Failed log-ins on connections that had one.",
                self.reauthentication_failures,
            ),
            (
                "expired_logins",
                "Connections closed for a request after the end of their log-in.",
                self.expired,
            ),
        ):
            for mechanism, count in sorted(counts.items()):
                labels = {"mechanism": mechanism}
                yield Sample(f"barnabas_{name}_total", "counter", text, labels, count)
        yield Sample(
            "barnabas_overdue_logins_total",
            "counter",
            "Connections closed because their log-in took too long.",
            {},
            self.overdue,
        )
