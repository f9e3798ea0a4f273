"""How many bytes a second clients may produce and fetch, and how long they wait if it was more.

Source: KIP-13, KIP-219, QUO-3, QUO-4.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers.client_throttle import ClientThrottle, user_of
from barnabas_broker.handlers.request_time import RequestTime
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.quotas.quota_buckets import client_matches
from barnabas_broker.quotas.rate_limit import RateLimit

FETCH_WINDOW_SECONDS: Final = 10
"""What a fetch may return at once: as much as the quota allows in so long a time."""


class BandwidthThrottle(ClientThrottle[RateLimit]):
    """The quotas of bytes of one kind, and the bytes of the last seconds by bucket.

    It also knows of the quotas of time: Produce and Fetch ask one object for both.
    """

    __slots__ = ("request_time",)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, RateLimit)
        self.request_time: RequestTime | None = None  # while anybody has a quota of time

    def longest_ms(self, in_flight: InFlightRequest, throttle_ms: int) -> int:
        """How long a response says that its client is to wait, for its bytes or for its time."""
        time = self.request_time
        return throttle_ms if time is None else max(throttle_ms, time.throttle_ms(in_flight))

    def bytes_max(self, in_flight: InFlightRequest) -> int | None:
        """The most that one fetch of a client may return, None without a quota."""
        if not self.buckets:
            return None
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
