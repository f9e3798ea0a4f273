"""Quotas of one kind, of users and client ids: whose holds for a request, and how long it waits.

A user is a principal's name; without a log-in that is `ANONYMOUS`, as in Kafka.

Source: KIP-13, KIP-55, KIP-124, KIP-219, QUO-2, QUO-4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from barnabas_broker.env.clock import Clock
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.quotas.quota_buckets import Limit, QuotaBuckets, client_matches

THROTTLE_MS_MAX: Final = 2**31 - 1

LimitT = TypeVar("LimitT", bound=Limit)


def user_of(in_flight: InFlightRequest) -> str:
    """The user whose quotas a request counts against."""
    return in_flight.principal.name


class ClientThrottle(Generic[LimitT]):
    """The quotas of one kind, and how often and for how long clients had to wait for them."""

    __slots__ = ("buckets", "throttled_count", "throttled_ms")

    def __init__(self, clock: Clock, make: Callable[[Clock], LimitT]) -> None:
        self.buckets = QuotaBuckets(clock, make)
        self.throttled_count = 0
        self.throttled_ms = 0

    def limit_of(self, in_flight: InFlightRequest) -> LimitT | None:
        """What a request counts against; None without a quota."""
        if not self.buckets:
            return None
        return self.buckets.limit_of(client_matches(user_of(in_flight), in_flight.client_id or ""))

    def counted(self, throttle_ms: int) -> int:
        """The time to wait, as the wire can say it, counted once."""
        throttle_ms = min(throttle_ms, THROTTLE_MS_MAX)
        if throttle_ms:
            self.throttled_count += 1
            self.throttled_ms += throttle_ms
        return throttle_ms
