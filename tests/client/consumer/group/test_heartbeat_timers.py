"""When heartbeats of a classic member are due, and when its program counts as stuck (CON-10)."""

from barnabas_client.consumer.group.heartbeat_timers import HeartbeatTimers


def timers() -> HeartbeatTimers:
    return HeartbeatTimers(heartbeat_interval_ms=3000, max_poll_interval_ms=10_000, now_ms=0)


def test_a_heartbeat_is_due_an_interval_after_the_last() -> None:
    clock = timers()
    clock.restart(100)
    assert not clock.is_heartbeat_due(3099)
    assert clock.wait_ms(100) == 3000
    assert clock.is_heartbeat_due(3100)
    clock.sent(3200)
    assert not clock.is_heartbeat_due(6199)
    assert clock.is_heartbeat_due(6200)


def test_after_a_failure_it_is_due_after_the_backoff_at_most_an_interval() -> None:
    clock = timers()
    clock.failed(0, 100)
    assert clock.is_heartbeat_due(100)
    clock.failed(0, 9000)
    assert clock.is_heartbeat_due(3000)


def test_a_poll_is_overdue_after_the_limit_and_wakes_whoever_waits() -> None:
    clock = timers()
    clock.last_poll_ms = 500
    clock.sent(9000)
    assert not clock.is_poll_overdue(10_500)
    assert clock.wait_ms(10_000) == 501
    assert clock.is_poll_overdue(10_501)
    assert clock.wait_ms(20_000) == 1
