"""How many connections an address may open in a second: those beyond are cut, a little later.

Counts and decides; cutting is the listener's. One object serves all listeners of clients; brokers
have none.

Source: KIP-612, QUO-1, QUO-8, NET-4.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.env.clock import Clock
from barnabas_broker.quotas.quota_buckets import QuotaBuckets, address_matches
from barnabas_broker.quotas.rate_limit import RateLimit

THROTTLE_MS_MAX: Final = 1_000
"""One window: who is cut at once comes again at once, and who is kept for long costs a socket."""


class ConnectionRates:
    """The quotas of addresses, and the connections of the last seconds by address."""

    __slots__ = ("buckets", "throttled_count", "throttled_ms")

    def __init__(self, clock: Clock) -> None:
        self.buckets = QuotaBuckets(clock, RateLimit)
        self.throttled_count = 0
        self.throttled_ms = 0

    def throttle_ms(self, host: str) -> int:
        """Count a new connection and return 0, or after how long it is cut; that is not counted."""
        limit = self.buckets.limit_of(address_matches(host))
        if limit is None:
            return 0
        throttle_ms = min(limit.throttle_ms(1), THROTTLE_MS_MAX)
        if not throttle_ms:
            limit.record(1)
            return 0
        self.throttled_count += 1
        self.throttled_ms += throttle_ms
        return throttle_ms
