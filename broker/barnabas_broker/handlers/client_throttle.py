"""Quotas of one kind, of users and client ids: whose holds for a request, and how long it waits.

A connection without a login is the user `ANONYMOUS`, as in Kafka.

Source: KIP-13, KIP-55, KIP-219, QUO-2 to QUO-4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from barnabas_broker.env.clock import Clock
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.quotas.quota_buckets import Limit, QuotaBuckets, client_matches
from barnabas_broker.quotas.rate_limit import RateLimit

ANONYMOUS: Final = "ANONYMOUS"
THROTTLE_MS_MAX: Final = 2**31 - 1
FETCH_WINDOW_SECONDS: Final = 10
"""What a fetch may return at once: as much as the quota allows in so long a time."""

LimitT = TypeVar("LimitT", bound=Limit)


def user_of(in_flight: InFlightRequest) -> str:
    """The user whose quotas a request counts against."""
    principal = in_flight.session.principal
    return ANONYMOUS if principal is None else str(principal)


class ClientThrottle(Generic[LimitT]):
    """The quotas of one kind, and how often and for how long clients had to wait for them."""

    __slots__ = ("buckets", "throttled_count", "throttled_ms")

    def __init__(self, clock: Clock, make: Callable[[Clock], LimitT]) -> None:
        self.buckets = QuotaBuckets(clock, make)
        self.throttled_count = 0
        self.throttled_ms = 0

    def limit_of(self, in_flight: InFlightRequest) -> LimitT | None:
        """What a request counts against; None without a quota."""
        return self.buckets.limit_of(client_matches(user_of(in_flight), in_flight.client_id or ""))

    def counted(self, throttle_ms: int) -> int:
        """The time to wait, as the wire can say it, counted once."""
        throttle_ms = min(throttle_ms, THROTTLE_MS_MAX)
        if throttle_ms:
            self.throttled_count += 1
            self.throttled_ms += throttle_ms
        return throttle_ms


class BandwidthThrottle(ClientThrottle[RateLimit]):
    """The quotas of bytes of one kind, and the bytes of the last seconds by bucket."""

    __slots__ = ()

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, RateLimit)

    def bytes_max(self, in_flight: InFlightRequest) -> int | None:
        """The most that one fetch of a client may return, None without a quota."""
        quota = self.buckets.quota_of(client_matches(user_of(in_flight), in_flight.client_id or ""))
        return None if quota is None else max(int(quota.rate * FETCH_WINDOW_SECONDS), 0)

    def charge(self, in_flight: InFlightRequest, size_bytes: int) -> int:
        """Count bytes of a client; returns for how long its connection waits, in milliseconds."""
        limit = self.limit_of(in_flight)
        if limit is None:
            return 0
        limit.record(size_bytes)
        return self.counted(limit.throttle_ms())

    def charge_or_refuse(self, in_flight: InFlightRequest, size_bytes: int) -> tuple[int, bool]:
        """The same for bytes that are not sent if they are too many; whether they are, too.

        What is not sent does not count. A batch that is too large for the quota at any time passes
        whenever the quota is kept, or it would never be read; with a quota of nothing, none does.
        """
        limit = self.limit_of(in_flight)
        if limit is None:
            return 0, True
        throttle_ms = limit.throttle_ms(size_bytes)
        is_sent = throttle_ms == 0 or (
            limit.rate > 0 and not limit.could_ever_pass(size_bytes) and limit.throttle_ms() == 0
        )
        if is_sent:
            limit.record(size_bytes)
        return self.counted(throttle_ms), is_sent
