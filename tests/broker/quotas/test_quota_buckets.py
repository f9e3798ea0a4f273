"""Whose quota holds, in which bucket it counts, and which buckets are kept."""

import pytest

from barnabas_broker.quotas.quota_buckets import (
    BUCKETS_MAX,
    IDLE_MS_MAX,
    Entity,
    Quota,
    QuotaBuckets,
    address_matches,
    client_matches,
)
from barnabas_broker.quotas.rate_limit import RateLimit
from tests.support.simulated_clock import SimulatedClock

# From the most special to the most general, with the bucket that bytes of user u by c go to.
PRECEDENCE: list[tuple[Entity, Entity]] = [
    (("u", "c"), ("u", "c")),
    (("u", ""), ("u", "c")),
    (("u", None), ("u", None)),
    (("", "c"), ("u", "c")),
    (("", ""), ("u", "c")),
    (("", None), ("u", None)),
    ((None, "c"), (None, "c")),
    ((None, ""), (None, "c")),
]


def buckets(rates: dict[Entity, float]) -> tuple[QuotaBuckets[RateLimit], SimulatedClock]:
    clock = SimulatedClock(monotonic_ms=1_000_000)
    made = QuotaBuckets(clock, RateLimit)
    for entity, rate in rates.items():
        made.update(entity, rate)
    return made, clock


def limit_of(made: QuotaBuckets[RateLimit], user: str, client_id: str) -> RateLimit:
    limit = made.limit_of(client_matches(user, client_id))
    assert limit is not None
    return limit


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_special_entity_decides_and_names_the_bucket(first: int) -> None:
    """QUO-2: whatever more general quotas there are, and never one of somebody else."""
    rates = {entity: float(place) for place, (entity, _) in enumerate(PRECEDENCE) if place >= first}
    rates |= {("v", "c"): 99.0, ("v", None): 99.0, (None, "d"): 99.0}
    made, _ = buckets(rates)
    entity, bucket = PRECEDENCE[first]
    expected = Quota(bucket, float(first), entity == bucket)
    assert made.quota_of(client_matches("u", "c")) == expected


def test_who_fits_no_entity_has_no_quota() -> None:
    """QUO-2."""
    made, _ = buckets({("v", None): 1.0, (None, "d"): 1.0, ("u", "d"): 1.0})
    assert made.quota_of(client_matches("u", "c")) is None
    assert made.limit_of(client_matches("u", "c")) is None


def test_an_address_has_a_bucket_of_its_own_by_its_name_or_the_default() -> None:
    """KIP-612."""
    made, _ = buckets({("10.0.0.1",): 5.0, ("",): 7.0})
    assert made.quota_of(address_matches("10.0.0.1")) == Quota(("10.0.0.1",), 5.0, True)
    assert made.quota_of(address_matches("10.0.0.2")) == Quota(("10.0.0.2",), 7.0, False)


def test_invented_names_push_out_one_another_and_nobody_with_a_quota_of_its_own() -> None:
    """QUO-2: else a client would get rid of what counts against it by ten thousand names."""
    made, _ = buckets({("u", None): 1.0, (None, ""): 1.0, (None, "c"): 1.0})
    limit_of(made, "u", "x").record(1)
    limit_of(made, "other", "c").record(2)
    limit_of(made, "other", "first").record(3)
    for number in range(BUCKETS_MAX - 1):
        limit_of(made, "other", f"invented-{number}")
    assert limit_of(made, "other", "first").observed_rate > 0
    for number in range(BUCKETS_MAX - 1):
        limit_of(made, "other", f"more-{number}")
    assert made.bucket_count == BUCKETS_MAX + 2
    assert limit_of(made, "other", "first").observed_rate > 0
    assert limit_of(made, "u", "y").observed_rate > 0
    assert limit_of(made, "third", "c").observed_rate > 0


def test_a_bucket_that_nobody_used_for_an_hour_goes_when_others_come() -> None:
    """QUO-5."""
    made, clock = buckets({(None, ""): 1.0})
    for number in range(3):
        limit_of(made, "u", f"old-{number}")
    clock.advance(IDLE_MS_MAX + 1)
    limit_of(made, "u", "new-0")
    assert made.bucket_count == 2
    limit_of(made, "u", "new-1")
    assert made.bucket_count == 2


def test_what_was_counted_stays_when_quotas_change() -> None:
    """QUO-8: by another rate, by a name instead of the default, and back."""
    made, _ = buckets({(None, ""): 1.0})
    limit = limit_of(made, "u", "c")
    limit.record(100)
    made.update((None, "c"), 2.0)
    assert (limit_of(made, "u", "c"), limit.rate) == (limit, 2.0)
    made.update((None, "c"), 3.0)
    assert (limit_of(made, "u", "c"), limit.rate) == (limit, 3.0)
    made.update((None, "c"), None)
    assert (limit_of(made, "u", "c"), limit.rate) == (limit, 1.0)
    made.update((None, ""), None)
    assert (bool(made), made.bucket_count) == (False, 0)
    assert made.limit_of(client_matches("u", "c")) is None


def test_a_quota_that_is_not_there_can_be_removed() -> None:
    """CFG-5."""
    made, _ = buckets({(None, "c"): 1.0})
    made.update((None, "d"), None)
    made.update((None, "c"), None)
    made.update((None, "c"), None)
    assert not made
