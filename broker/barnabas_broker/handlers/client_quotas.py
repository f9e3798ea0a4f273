"""How many bytes a second clients may produce and fetch, and how long they wait if it was more.

Which quota holds for a client is a pure question (`quota_of`); the bytes that count against it are
kept by bucket. While nobody has a quota of a kind, its throttle is None, and a request costs one
comparison. A connection without a login is the user `ANONYMOUS`, as in Kafka.

Source: KIP-13, KIP-55, KIP-219, QUO-2 to QUO-4, QUO-8. Invariant: at most `BUCKETS_MAX` buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from barnabas_broker.controller.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    USER,
)
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.records import QuotaEntity
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.throttle import RateLimit

ANONYMOUS: Final = "ANONYMOUS"
BUCKETS_MAX: Final = 10_000
"""A client may choose its ids as it likes; beyond, the oldest bucket is forgotten."""
THROTTLE_MS_MAX: Final = 2**31 - 1
FETCH_WINDOW_SECONDS: Final = 10
"""What a fetch may return at once: as much as the quota allows in so long a time."""

Entity = tuple[str | None, str | None]
"""User and client id of an entity: a name, "" for the default, or None where it has no such."""


class Quota(NamedTuple):
    """The quota of a client: in which bucket its bytes count, and how many a second there may be.

    The bucket is a user with a client id, a user with all client ids, or a client id of all users.
    """

    bucket: Entity
    rate: float


def quota_of(rates: Mapping[Entity, float], user: str, client_id: str) -> Quota | None:
    """The quota of the most special entity that fits a client, None if it has none (QUO-2)."""
    for entity, bucket in (
        ((user, client_id), (user, client_id)),
        ((user, ""), (user, client_id)),
        ((user, None), (user, None)),
        (("", client_id), (user, client_id)),
        (("", ""), (user, client_id)),
        (("", None), (user, None)),
        ((None, client_id), (None, client_id)),
        ((None, ""), (None, client_id)),
    ):
        rate = rates.get(entity)
        if rate is not None:
            return Quota(bucket, rate)
    return None


class BandwidthThrottle:
    """The quotas of one kind, and the bytes of the last seconds by bucket."""

    __slots__ = ("_buckets", "_clock", "_rates", "throttled_count", "throttled_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rates: Mapping[Entity, float] = {}
        self._buckets: dict[Entity, RateLimit] = {}
        self.throttled_count = 0
        self.throttled_ms = 0

    def update(self, rates: Mapping[Entity, float]) -> bool:
        """Use other quotas from now on; returns whether there are any."""
        self._rates = rates
        if not rates:
            self._buckets.clear()
        return bool(rates)

    @property
    def bucket_count(self) -> int:
        """How many buckets are kept."""
        return len(self._buckets)

    def bytes_max(self, in_flight: InFlightRequest) -> int | None:
        """The most that one fetch of a client may return, None without a quota."""
        quota = self._quota(in_flight)
        return None if quota is None else max(int(quota.rate * FETCH_WINDOW_SECONDS), 0)

    def charge(self, in_flight: InFlightRequest, size_bytes: int) -> int:
        """Count bytes of a client; returns for how long its connection waits, in milliseconds."""
        limit = self._limit(in_flight)
        if limit is None:
            return 0
        limit.record(size_bytes)
        return self._counted(limit.throttle_ms())

    def charge_or_refuse(self, in_flight: InFlightRequest, size_bytes: int) -> tuple[int, bool]:
        """The same for bytes that are not sent if they are too many; whether they are, too.

        What is not sent does not count. A batch that is too large for the quota at any time passes
        whenever the quota is kept, or it would never be read; with a quota of nothing, none does.
        """
        limit = self._limit(in_flight)
        if limit is None:
            return 0, True
        throttle_ms = limit.throttle_ms(size_bytes)
        is_sent = throttle_ms == 0 or (
            limit.rate > 0 and not limit.could_ever_pass(size_bytes) and limit.throttle_ms() == 0
        )
        if is_sent:
            limit.record(size_bytes)
        return self._counted(throttle_ms), is_sent

    def _counted(self, throttle_ms: int) -> int:
        throttle_ms = min(throttle_ms, THROTTLE_MS_MAX)
        if throttle_ms:
            self.throttled_count += 1
            self.throttled_ms += throttle_ms
        return throttle_ms

    def _quota(self, in_flight: InFlightRequest) -> Quota | None:
        principal = in_flight.session.principal
        user = ANONYMOUS if principal is None else str(principal)
        return quota_of(self._rates, user, in_flight.client_id or "")

    def _limit(self, in_flight: InFlightRequest) -> RateLimit | None:
        quota = self._quota(in_flight)
        if quota is None:
            return None
        limit = self._buckets.get(quota.bucket)
        if limit is None:
            if len(self._buckets) >= BUCKETS_MAX:
                del self._buckets[next(iter(self._buckets))]
            limit = self._buckets[quota.bucket] = RateLimit(self._clock)
        limit.rate = quota.rate
        return limit


class ClientQuotas:
    """The throttles of this broker; None for a kind of which nobody has a quota."""

    __slots__ = ("_fetch", "_produce", "fetch", "produce")

    def __init__(self, clock: Clock) -> None:
        self._produce = BandwidthThrottle(clock)
        self._fetch = BandwidthThrottle(clock)
        self.produce: BandwidthThrottle | None = None
        self.fetch: BandwidthThrottle | None = None

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Use the quotas of other metadata from now on, for connections that are open as well."""
        has_produce = self._produce.update(_rates(quotas, PRODUCER_BYTE_RATE))
        has_fetch = self._fetch.update(_rates(quotas, CONSUMER_BYTE_RATE))
        self.produce = self._produce if has_produce else None
        self.fetch = self._fetch if has_fetch else None

    def samples(self) -> Iterator[Sample]:
        """How often and for how long clients were throttled."""
        for kind, throttle in (("produce", self._produce), ("fetch", self._fetch)):
            labels = {"quota": kind}
            yield Sample(
                "barnabas_client_throttles_total",
                "counter",
                "Requests after which a client had to wait for its quota.",
                labels,
                throttle.throttled_count,
            )
            yield Sample(
                "barnabas_client_throttle_seconds_total",
                "counter",
                "How long clients had to wait for their quotas.",
                labels,
                throttle.throttled_ms / 1000,
            )
            yield Sample(
                "barnabas_client_quota_buckets",
                "gauge",
                "Clients and users whose bytes are counted against a quota.",
                labels,
                throttle.bucket_count,
            )


def _rates(quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> Mapping[Entity, float]:
    rates: dict[Entity, float] = {}
    for entity, limits in quotas.items():
        parts = dict(entity)
        if key in limits and IP not in parts:
            user, client_id = (
                (parts[kind] or "") if kind in parts else None for kind in (USER, CLIENT_ID)
            )
            rates[user, client_id] = limits[key]
    return rates
