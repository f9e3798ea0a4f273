"""The quotas of one key, such as `producer_byte_rate`, and a limit for each bucket that is in use.

A quota is of an entity: names, with "" for the default and None for a part that it does not have.
The most special entity that fits decides, and names the bucket: who shares it is counted together.
A default gives each name a bucket of its own.

Source: KIP-55, KIP-612, QUO-2, QUO-5, QUO-8. Invariants: a bucket of an entity that has a quota by
its name is never forgotten; of those that defaults make, at most `BUCKETS_MAX` are kept, the last
used, and none that was not used for an hour and is not needed for room meanwhile. A client that
invents names can thus forget nothing but what it has made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from barnabas_broker.env.clock import Clock

BUCKETS_MAX: Final = 10_000
IDLE_MS_MAX: Final = 3_600_000

Entity = tuple[str | None, ...]
Match = tuple[Entity, Entity]
"""An entity that fits somebody, and in which bucket what they do counts then."""


class Limit(Protocol):
    """What counts in a bucket."""

    rate: float


LimitT = TypeVar("LimitT", bound=Limit)


class Quota(NamedTuple):
    """The quota of somebody: in which bucket it counts, how much a second, and by a name or not."""

    bucket: Entity
    rate: float
    is_named: bool


class _Used(Generic[LimitT]):
    """A limit that a default made, and when it was used last."""

    __slots__ = ("limit", "used_ms")

    def __init__(self, limit: LimitT, used_ms: int) -> None:
        self.limit = limit
        self.used_ms = used_ms


class QuotaBuckets(Generic[LimitT]):
    """Rates by entity, limits by bucket."""

    __slots__ = ("_clock", "_made", "_make", "_named", "_rates")

    def __init__(self, clock: Clock, make: Callable[[Clock], LimitT]) -> None:
        self._clock = clock
        self._make = make
        self._rates: dict[Entity, float] = {}
        self._named: dict[Entity, LimitT] = {}
        self._made: OrderedDict[Entity, _Used[LimitT]] = OrderedDict()  # the last used at the end

    def __bool__(self) -> bool:
        """Whether anybody has a quota."""
        return bool(self._rates)

    @property
    def bucket_count(self) -> int:
        """How many limits are kept."""
        return len(self._named) + len(self._made)

    def update(self, entity: Entity, rate: float | None) -> None:
        """Set the quota of an entity, or take it away; what was counted stays (QUO-8)."""
        if rate is not None:
            self._rates[entity] = rate
            return
        self._rates.pop(entity, None)
        limit = self._named.pop(entity, None)
        if not self._rates:
            self._made.clear()
        elif limit is not None:
            self._keep(entity, limit)

    def clear(self) -> None:
        """Forget all quotas; what was counted stays for those that are set again."""
        self._rates.clear()

    def quota_of(self, matches: Sequence[Match]) -> Quota | None:
        """The quota of the first entity that has one, the most special first."""
        rates = self._rates
        for entity, bucket in matches:
            rate = rates.get(entity)
            if rate is not None:
                return Quota(bucket, rate, entity == bucket)
        return None

    def limit_of(self, matches: Sequence[Match]) -> LimitT | None:
        """The limit that holds for somebody, with its rate as it is now; None without a quota."""
        quota = self.quota_of(matches)
        if quota is None:
            return None
        limit = self._named_limit(quota.bucket) if quota.is_named else self._made_limit(quota)
        limit.rate = quota.rate
        return limit

    def _named_limit(self, bucket: Entity) -> LimitT:
        limit = self._named.get(bucket)
        if limit is None:
            used = self._made.pop(bucket, None)
            limit = self._named[bucket] = self._make(self._clock) if used is None else used.limit
        return limit

    def _made_limit(self, quota: Quota) -> LimitT:
        bucket, now_ms = quota.bucket, self._clock.monotonic_ms()
        used = self._made.get(bucket)
        if used is not None:
            self._made.move_to_end(bucket)
            used.used_ms = now_ms
            return used.limit
        limit = self._named.pop(bucket, None)
        return self._keep(bucket, self._make(self._clock) if limit is None else limit)

    def _keep(self, bucket: Entity, limit: LimitT) -> LimitT:
        """Keep a limit among those last used; each that comes makes room for two that are old."""
        now_ms = self._clock.monotonic_ms()
        self._made[bucket] = _Used(limit, now_ms)
        for _ in range(2):
            oldest = next(iter(self._made.values()))
            if now_ms - oldest.used_ms > IDLE_MS_MAX or len(self._made) > BUCKETS_MAX:
                self._made.popitem(last=False)
        return limit


def client_matches(user: str, client_id: str) -> Sequence[Match]:
    """The entities that fit a client, the most special first, with their buckets (QUO-2).

    A bucket is a user with a client id, a user with all client ids, or a client id of all users.
    """
    both, of_user, of_client = (user, client_id), (user, None), (None, client_id)
    return (
        (both, both),
        ((user, ""), both),
        (of_user, of_user),
        (("", client_id), both),
        (("", ""), both),
        (("", None), of_user),
        (of_client, of_client),
        ((None, ""), of_client),
    )


def address_matches(host: str) -> Sequence[Match]:
    """The entities that fit an address: its own, and the default, by which each has a bucket."""
    own: Entity = (host,)
    return ((own, own), (("",), own))
