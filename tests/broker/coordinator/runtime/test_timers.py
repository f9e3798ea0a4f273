"""The timers of a shard."""

import random

from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.coordinator.runtime.shard import Instant, Result, TimerAction, no_change
from barnabas_broker.coordinator.runtime.timers import ShardTimers


def noting(fired: list[str], name: str) -> TimerAction:
    def action(_: Instant) -> Result[None]:
        fired.append(name)
        return no_change()

    return action


def run_due(timers: ShardTimers[TimerAction], now_ms: int) -> None:
    while (action := timers.take_due(now_ms)) is not None:
        action(Instant(now_ms, now_ms))


def test_timers_fire_once_in_order_and_never_early() -> None:
    fired: list[str] = []
    timers = ShardTimers[TimerAction]()
    timers.schedule("b", 20, noting(fired, "b"))
    timers.schedule("a", 10, noting(fired, "a"))
    run_due(timers, 9)
    assert fired == []
    assert timers.next_deadline_ms() == 10
    run_due(timers, 20)
    run_due(timers, 1000)
    assert fired == ["a", "b"]
    assert timers.next_deadline_ms() is None


def test_scheduling_a_key_again_replaces_its_timer() -> None:
    fired: list[str] = []
    timers = ShardTimers[TimerAction]()
    timers.schedule("a", 10, noting(fired, "old"))
    timers.schedule("a", 30, noting(fired, "later"))
    run_due(timers, 29)
    assert fired == []
    timers.schedule("a", 5, noting(fired, "earlier"))
    run_due(timers, 30)
    assert fired == ["earlier"]
    assert len(timers) == 0


def test_postponing_moves_a_deadline_later_only() -> None:
    fired: list[str] = []
    timers = ShardTimers[TimerAction]()
    timers.schedule("a", 10, noting(fired, "a"))
    timers.postpone("a", 50)
    timers.postpone("a", 20)
    timers.postpone("nobody", 20)
    run_due(timers, 49)
    assert fired == []
    run_due(timers, 50)
    assert fired == ["a"]


def test_a_cancelled_timer_does_not_fire() -> None:
    fired: list[str] = []
    timers = ShardTimers[TimerAction]()
    timers.schedule("a", 10, noting(fired, "a"))
    timers.cancel("a")
    timers.cancel("a")
    assert "a" not in timers
    run_due(timers, 100)
    assert fired == []


def test_an_action_may_cancel_another_that_is_due() -> None:
    fired: list[str] = []
    timers = ShardTimers[TimerAction]()

    def first(_: Instant) -> Result[None]:
        timers.cancel("b")
        return no_change()

    timers.schedule("a", 10, first)
    timers.schedule("b", 10, noting(fired, "b"))
    run_due(timers, 10)
    assert fired == []


def test_many_cancelled_timers_leave_no_heap_behind() -> None:
    timers = ShardTimers[TimerAction]()
    for number in range(100_000):
        timers.schedule(number, 1_000_000 + number, noting([], ""))
        timers.cancel(number)
    assert len(timers._heap) < 1000


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_timers_behave_like_a_dictionary_of_deadlines(seed: int, steps: int) -> None:
    """A dumb twin: a dictionary that is searched at every step."""
    source = random.Random(seed)
    timers, twin = ShardTimers[TimerAction](), dict[str, int]()
    fired: list[str] = []
    now = 0
    for _ in range(steps):
        key = source.choice("abcdef")
        deadline = now + source.randrange(1, 50)
        match source.randrange(4):
            case 0:
                timers.schedule(key, deadline, noting(fired, key))
                twin[key] = deadline
            case 1:
                timers.cancel(key)
                twin.pop(key, None)
            case 2:
                timers.postpone(key, deadline)
                if key in twin:
                    twin[key] = max(twin[key], deadline)
            case _:
                now += source.randrange(30)
                run_due(timers, now)
                due = sorted(key for key, at in twin.items() if at <= now)
                assert sorted(fired) == due
                fired.clear()
                twin = {key: at for key, at in twin.items() if at > now}
        assert timers.next_deadline_ms() == min(twin.values(), default=None)
