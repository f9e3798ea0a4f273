"""The worked examples of TIM-3, and the properties that must hold for any schedule."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.purgatory.timing_wheel import BUCKET_COUNT, TimerTask, TimingWheel


def nothing() -> None:
    pass


def added(wheel: TimingWheel, expiry_ms: int) -> TimerTask:
    task = TimerTask(expiry_ms, nothing)
    assert wheel.add(task)
    return task


def place(wheel: TimingWheel, task: TimerTask) -> tuple[int, int]:
    """The level and the bucket in which a task sits."""
    for number, level in enumerate(wheel.levels):
        for index, bucket in enumerate(level.buckets):
            if task in bucket.tasks:
                return number, index
    raise AssertionError("the task is in no bucket")


def test_levels_grow_by_their_span_and_are_made_on_demand() -> None:
    """TIM-1: 1 ms x 20, 20 ms x 20, 400 ms x 20, ..."""
    wheel = TimingWheel(now_ms=5)
    assert [(level.tick_ms, level.span_ms) for level in wheel.levels] == [(1, 20)]
    added(wheel, 5 + 8_000)
    assert [(level.tick_ms, level.span_ms) for level in wheel.levels] == [
        (1, 20),
        (20, 400),
        (400, 8_000),
        (8_000, 160_000),
    ]
    assert [level.current_ms for level in wheel.levels] == [5, 0, 0, 0]


def test_a_task_that_is_due_is_not_taken() -> None:
    """TIM-2: expiry < current + tick runs now."""
    wheel = TimingWheel(now_ms=10)
    assert not wheel.add(TimerTask(10, nothing))
    assert not wheel.add(TimerTask(3, nothing))
    assert wheel.add(TimerTask(11, nothing))
    assert wheel.task_count == 1


def test_the_lowest_level_s_buckets_are_used_again() -> None:
    """TIM-3: 2 ms goes to bucket 2; at time 2, +8 ms to bucket 10 and +19 ms to bucket 1."""
    wheel = TimingWheel()
    first = added(wheel, 2)
    assert place(wheel, first) == (0, 2)
    assert wheel.advance(2) == [first]
    assert wheel.current_ms == 2
    assert place(wheel, added(wheel, 2 + 8)) == (0, 10)
    assert place(wheel, added(wheel, 2 + 19)) == (0, 1)


def test_a_task_of_the_second_level() -> None:
    """TIM-3: 350 ms goes to level 1, bucket 17."""
    wheel = TimingWheel()
    task = added(wheel, 350)
    assert place(wheel, task) == (1, 17)
    assert wheel.next_ms() == 350
    assert wheel.advance(349) == []
    assert place(wheel, task)[0] == 0
    assert wheel.advance(350) == [task]


def test_a_task_comes_down_level_by_level() -> None:
    """TIM-3: 450 ms: level 2 [400, 800), then level 1 [440, 460), then level 0; runs at 450."""
    wheel = TimingWheel()
    task = added(wheel, 450)
    assert place(wheel, task) == (2, 1)
    assert wheel.next_ms() == 450
    assert wheel.advance(400) == []
    assert place(wheel, task) == (1, 440 // 20 % BUCKET_COUNT)
    assert wheel.next_ms() == 450
    assert wheel.advance(440) == []
    assert place(wheel, task) == (0, 450 % BUCKET_COUNT)
    assert wheel.advance(449) == []
    assert wheel.advance(450) == [task]
    assert wheel.task_count == 0


def test_next_ms_of_several_levels_is_never_behind_the_first_task() -> None:
    """TIM-4: a bucket of a low level may hold an earlier task than one that is reached before."""
    wheel = TimingWheel()
    late = added(wheel, 415)  # level 2, which is reached at 400
    wheel.advance(395)
    assert wheel.next_ms() == 415
    early = added(wheel, 405)  # level 0
    assert wheel.next_ms() == 405
    assert wheel.advance(405) == [early]
    assert wheel.next_ms() == 415
    assert wheel.advance(415) == [late]
    assert wheel.next_ms() is None


def test_one_late_advance_cascades_through_all_levels() -> None:
    """TIM-4: placing again may run or cascade."""
    wheel = TimingWheel()
    tasks = [added(wheel, expiry) for expiry in (1, 19, 20, 399, 400, 450, 7_999, 8_000, 100_000)]
    assert wheel.advance(1_000_000) == tasks
    assert wheel.next_ms() is None


def test_a_cancelled_task_leaves_at_once() -> None:
    """TIM-5: and so the wheel does not wake for it."""
    wheel = TimingWheel()
    task = added(wheel, 500)
    assert task.is_pending
    assert task.cancel()
    assert not task.cancel()
    assert wheel.task_count == 0
    assert wheel.next_ms() is None
    assert wheel.advance(1_000) == []


def test_a_bucket_emptied_by_cancelling_is_used_again() -> None:
    """Its old place in the queue must not make the new task early or late."""
    wheel = TimingWheel()
    added(wheel, 5).cancel()
    other = added(wheel, 4)
    assert wheel.advance(4) == [other]
    later = added(wheel, 25 - 2)
    assert wheel.advance(22) == []
    assert wheel.advance(23) == [later]
    same_bucket = added(wheel, 40)
    assert wheel.advance(39) == []
    assert wheel.advance(40) == [same_bucket]


def test_constant_cancelling_does_not_fill_the_queue() -> None:
    """A fetch that is answered early cancels its time-out, millions of times a day."""
    wheel = TimingWheel()
    for now in range(5_000):
        wheel.advance(now)
        added(wheel, now + 500).cancel()
    assert wheel.queued_count < 200


def test_an_empty_wheel_catches_up_with_the_present() -> None:
    """TIM-4: it stood still while idle; a short delay should not start on a high level."""
    wheel = TimingWheel()
    wheel.catch_up(1_000_003)
    assert place(wheel, added(wheel, 1_000_010))[0] == 0
    wheel.catch_up(2_000_000)
    assert wheel.current_ms == 1_000_003


@given(
    st.integers(0, 10_000),
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 20_000)),
            st.tuples(st.just("cancel"), st.integers(0, 100)),
            st.tuples(st.just("advance"), st.integers(0, 3_000)),
        ),
        max_size=60,
    ),
)
def test_every_task_is_due_once_or_was_cancelled_and_never_early(
    start_ms: int, steps: list[tuple[str, int]]
) -> None:
    """TIM-5: on any schedule; in order of time up to one tick."""
    wheel = TimingWheel(now_ms=start_ms)
    now_ms = start_ms
    waiting: list[TimerTask] = []
    for step, value in [*steps, ("advance", 100_000)]:
        if step == "add":
            task = TimerTask(now_ms + value, nothing)
            if wheel.add(task):
                waiting.append(task)
            else:
                assert task.expiry_ms <= now_ms
        elif step == "cancel" and waiting:
            assert waiting.pop(value % len(waiting)).cancel()
        elif step == "advance":
            next_ms = wheel.next_ms()
            assert (next_ms is None) == (not waiting)
            assert next_ms is None or next_ms <= min(task.expiry_ms for task in waiting)
            now_ms += value
            due = wheel.advance(now_ms)
            assert due == sorted(due, key=lambda task: task.expiry_ms)
            assert set(due) == {task for task in waiting if task.expiry_ms <= now_ms}
            waiting = [task for task in waiting if task.expiry_ms > now_ms]
        assert wheel.task_count == len(waiting)
    assert not waiting


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=60))
def test_waking_at_next_ms_finds_each_task_on_time(expiries: list[int]) -> None:
    """TIM-4, TIM-5: whoever sleeps until then is never late."""
    wheel = TimingWheel()
    for expiry_ms in expiries:
        added(wheel, expiry_ms)
    found = []
    while (next_ms := wheel.next_ms()) is not None:
        due = wheel.advance(next_ms)
        assert {task.expiry_ms for task in due} <= {next_ms}
        found += [task.expiry_ms for task in due]
    assert found == sorted(expiries)
