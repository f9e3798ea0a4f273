"""Replication quotas."""

from __future__ import annotations

from barnabas_broker.replication.throttle import RateLimit, ReplicationThrottle, is_listed
from barnabas_protocol.ids import TopicPartition
from tests.support.simulated_clock import SimulatedClock

TP = TopicPartition("t", 3)


def test_a_rate_is_kept_over_its_window() -> None:
    """QUO-3: bytes over eleven samples of a second."""
    clock = SimulatedClock(monotonic_ms=1_000_000)
    limit = RateLimit(clock, 1_000)
    limit.record(10_000)
    assert not limit.is_exceeded
    limit.record(1)
    assert limit.is_exceeded
    clock.advance(10_999)
    assert not limit.is_exceeded
    clock.advance(1)
    assert limit.observed_rate == 0


def test_traffic_at_the_limit_settles_at_the_rate() -> None:
    """QUO-6: who waits as told gets about what the quota gives, no more."""
    clock = SimulatedClock(monotonic_ms=0)
    limit = RateLimit(clock, 100_000)
    sent = 0
    while clock.monotonic_ms() < 120_000:
        if limit.is_exceeded:
            clock.advance(limit.wait_ms)
        else:
            limit.record(5_000)
            sent += 5_000
            clock.advance(1)
    assert 90_000 < sent / 120 < 115_000


def test_no_rate_is_no_limit() -> None:
    """QUO-6: the default is unlimited, and counts nothing."""
    clock = SimulatedClock(monotonic_ms=0)
    throttle = ReplicationThrottle(clock)
    throttle.follower_fetched(TP, ("*",), 1, 10**12)
    assert throttle.follower_waits_ms(TP, ("*",), 1, is_in_sync=False) == 0
    assert throttle.leader_allows(TP, ("*",), 1, is_in_sync=False)


def test_only_listed_replicas_out_of_sync_are_held_back() -> None:
    """QUO-6: in-sync replicas are never throttled, but count."""
    clock = SimulatedClock(monotonic_ms=0)
    throttle = ReplicationThrottle(clock)
    throttle.leader.rate = throttle.follower.rate = 10
    throttle.leader_sent(TP, ("3:1",), 1, 1_000)
    assert not throttle.leader_allows(TP, ("3:1",), 1, is_in_sync=False)
    assert throttle.leader_allows(TP, ("3:1",), 1, is_in_sync=True)
    assert throttle.leader_allows(TP, ("3:2",), 1, is_in_sync=False)
    assert throttle.leader_allows(TP, (), 1, is_in_sync=False)
    throttle.follower_fetched(TP, ("*",), 7, 1_000)
    assert throttle.follower_waits_ms(TP, ("*",), 7, is_in_sync=False) > 0
    assert throttle.follower_waits_ms(TP, ("*",), 7, is_in_sync=True) == 0
    throttle.follower.rate = 10**9  # QUO-8: at once
    assert throttle.follower_waits_ms(TP, ("*",), 7, is_in_sync=False) == 0


def test_a_list_names_partitions_and_brokers() -> None:
    """KIP-73: `partition:broker`, or `*`."""
    assert is_listed(("1:2", "3:4"), TP, 4)
    assert not is_listed(("1:2", "3:4"), TP, 2)
    assert is_listed(("*",), TP, 2)
