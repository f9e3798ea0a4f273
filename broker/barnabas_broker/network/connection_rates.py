"""How many connections may come in a second, from one address, to a listener and in all: those
beyond are cut, a little later.

Counts and decides; cutting is the listener's. One object serves all listeners of clients;
that of the brokers knows no quota, and no limit but their listener's.

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
    """The quotas of addresses, the limit of the broker, and the connections of the last seconds."""

    __slots__ = ("broker", "buckets", "throttled_count", "throttled_ms")

    def __init__(self, clock: Clock) -> None:
        self.buckets = QuotaBuckets(clock, RateLimit)
        self.broker = RateLimit(clock)
        self.throttled_count = 0
        self.throttled_ms = 0

    def throttle_ms(self, host: str, listener: RateLimit) -> int:
        """Count a new connection and return 0, or after how long it is cut; that is not counted."""
        limits = [one for one in (self.broker, listener) if one.is_limited]
        if self.buckets:
            of_address = self.buckets.limit_of(address_matches(host))
            limits += [] if of_address is None else [of_address]
        throttle_ms = min(max((one.throttle_ms(1) for one in limits), default=0), THROTTLE_MS_MAX)
        if not throttle_ms:
            for one in limits:
                one.record(1)
            return 0
        self.throttled_count += 1
        self.throttled_ms += throttle_ms
        return throttle_ms
