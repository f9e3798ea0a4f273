"""When heartbeats of a group member are due, and when its program has stopped polling (CON-10)."""

from barnabas_client.consumer.group.heartbeat_timers import HeartbeatTimers

INTERVAL_MS = 3000


def timers() -> HeartbeatTimers:
    return HeartbeatTimers(max_poll_interval_ms=10_000, now_ms=0)


def test_a_heartbeat_is_due_an_interval_after_the_last() -> None:
    clock = timers()
    clock.restart(100, INTERVAL_MS)
    assert not clock.is_heartbeat_due(3099)
    assert clock.wait_ms(100, is_member=True) == 3000
    assert clock.is_heartbeat_due(3100)
    clock.on_sent(3200, INTERVAL_MS)
    assert not clock.is_heartbeat_due(6199)
    assert clock.is_heartbeat_due(6200)


def test_an_interval_that_the_response_changes_counts_from_the_sending() -> None:
    """KIP-848: the broker says in each response how often heartbeats come."""
    clock = timers()
    clock.on_sent(100, INTERVAL_MS)
    clock.on_success(1000)
    assert not clock.is_heartbeat_due(1099)
    assert clock.is_heartbeat_due(1100)


def test_after_a_failure_it_is_due_after_the_backoff_at_most_an_interval() -> None:
    clock = timers()
    clock.on_failure(0, 100, INTERVAL_MS)
    assert clock.is_heartbeat_due(100)
    clock.on_failure(0, 9000, INTERVAL_MS)
    assert clock.is_heartbeat_due(3000)
    assert clock.failure_count == 2


def test_a_change_is_sent_at_once_but_not_before_the_backoff_of_a_failure() -> None:
    clock = timers()
    clock.restart(0, INTERVAL_MS)
    clock.expedite()
    assert clock.is_heartbeat_due(1)
    clock.on_failure(1, 100, INTERVAL_MS)
    clock.expedite()
    assert not clock.is_heartbeat_due(100)


def test_a_poll_is_overdue_after_the_limit_and_wakes_whoever_waits() -> None:
    clock = timers()
    clock.last_poll_ms = 500
    clock.on_sent(9000, INTERVAL_MS)
    assert not clock.is_poll_overdue(10_500)
    assert clock.wait_ms(10_000, is_member=True) == 501
    assert clock.is_poll_overdue(10_501)
    assert clock.wait_ms(20_000, is_member=True) == 1


def test_an_overdue_poll_does_not_wake_a_member_that_is_only_joining() -> None:
    """Nothing follows from it there: the session's task woke each millisecond."""
    clock = timers()
    clock.on_sent(19_000, INTERVAL_MS)
    assert clock.is_poll_overdue(20_000)
    assert clock.wait_ms(20_000, is_member=False) == 2000
