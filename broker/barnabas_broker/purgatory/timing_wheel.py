"""A hierarchical timing wheel: many timers, few of which ever run out.

Adding and cancelling cost the same whatever the number of timers. Pure: time is an argument and
nothing runs by itself; `timer` puts a loop behind it.

Level 0 has 20 buckets of 1 ms. Level n has 20 buckets, each as wide as all of level n - 1, and is
made when first needed. A task sits in the bucket that its expiry falls in; when a bucket of a
higher level is reached, its tasks are placed again, now lower, until they are due.

Invariants: a task is due exactly once or was cancelled; never before its expiry; the clock of the
wheel moves only to buckets that hold tasks, so an idle wheel costs nothing, and a single task one
wake-up.

Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987); Kafka's use of them for
its purgatory; TIM-1 to TIM-5.
"""

import heapq
from collections.abc import Callable

TICK_MS = 1
BUCKET_COUNT = 20
_NEVER_MS = 2**63 - 1


class TimerTask:
    """A callback and when it is due."""

    __slots__ = ("_bucket", "callback", "expiry_ms")

    def __init__(self, expiry_ms: int, callback: Callable[[], None]) -> None:
        self.expiry_ms = expiry_ms
        self.callback = callback
        self._bucket: _Bucket | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it waits in a wheel."""
        return self._bucket is not None

    def cancel(self) -> bool:
        """Leave the wheel at once; False if it was due or cancelled before."""
        bucket, self._bucket = self._bucket, None
        if bucket is None:
            return False
        del bucket.tasks[self]
        bucket.wheel.task_count -= 1
        return True


class _Bucket:
    """The tasks of one bucket, in the order they came, and when it is reached (-1: not queued).

    No task in it is due before `earliest_ms`.
    """

    __slots__ = ("earliest_ms", "expiry_ms", "tasks", "wheel")

    def __init__(self, wheel: "TimingWheel") -> None:
        self.wheel = wheel
        self.expiry_ms = -1
        self.earliest_ms = -1
        self.tasks: dict[TimerTask, None] = {}


class _Level:
    """One circle of buckets."""

    __slots__ = ("buckets", "current_ms", "span_ms", "tick_ms")

    def __init__(self, wheel: "TimingWheel", tick_ms: int, bucket_count: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.span_ms = tick_ms * bucket_count
        self.current_ms = now_ms - now_ms % tick_ms
        self.buckets = [_Bucket(wheel) for _ in range(bucket_count)]


class TimingWheel:
    """Tasks by expiry, from a given time on."""

    __slots__ = ("_queue", "_sequence", "levels", "task_count")

    def __init__(
        self, now_ms: int = 0, tick_ms: int = TICK_MS, bucket_count: int = BUCKET_COUNT
    ) -> None:
        self.levels = [_Level(self, tick_ms, bucket_count, now_ms)]
        self._queue: list[tuple[int, int, _Bucket]] = []  # buckets that hold or held tasks
        self._sequence = 0
        self.task_count = 0

    @property
    def queued_count(self) -> int:
        """Buckets in the queue, those that were emptied by cancelling included."""
        return len(self._queue)

    @property
    def current_ms(self) -> int:
        """The time up to which the wheel has advanced, rounded down to the tick."""
        return self.levels[0].current_ms

    def add(self, task: TimerTask) -> bool:
        """Put a task in; False if it is due already, and then nothing was done."""
        expiry_ms = task.expiry_ms
        if expiry_ms < self.levels[0].current_ms + self.levels[0].tick_ms:
            return False
        level = self._level_for(expiry_ms)
        position = expiry_ms // level.tick_ms
        bucket = level.buckets[position % len(level.buckets)]
        bucket.tasks[task] = None
        task._bucket = bucket
        self.task_count += 1
        reached_ms = position * level.tick_ms
        if bucket.expiry_ms == reached_ms:
            bucket.earliest_ms = min(bucket.earliest_ms, expiry_ms)
        else:
            bucket.expiry_ms, bucket.earliest_ms = reached_ms, expiry_ms
            self._sequence += 1
            heapq.heappush(self._queue, (reached_ms, self._sequence, bucket))
        return True

    def advance(self, now_ms: int) -> list[TimerTask]:
        """The tasks that are due at `now_ms`, in the order of their buckets; they have left."""
        due: list[TimerTask] = []
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            reached_ms, _, bucket = heapq.heappop(queue)
            if bucket.expiry_ms != reached_ms:
                continue  # emptied by cancelling and used again for a later time
            self._move_to(reached_ms)
            bucket.expiry_ms = -1
            tasks, bucket.tasks = bucket.tasks, {}
            self.task_count -= len(tasks)
            for task in tasks:
                task._bucket = None
                if not self.add(task):
                    due.append(task)
        return due

    def next_ms(self) -> int | None:
        """A time before which no task is due; None while there is no task.

        It is that of the first task, unless that was cancelled or its bucket is not the first one:
        a bucket of a higher level need not be reached for itself, since `advance` makes up for it.
        """
        queue = self._queue
        while queue:
            reached_ms, _, bucket = queue[0]
            if bucket.expiry_ms == reached_ms:
                if bucket.tasks:
                    # The children of the heap's root: the second bucket is one of them.
                    following_ms = min((entry[0] for entry in queue[1:3]), default=_NEVER_MS)
                    return max(reached_ms, min(bucket.earliest_ms, following_ms))
                bucket.expiry_ms = -1
            heapq.heappop(queue)
        return None

    def catch_up(self, now_ms: int) -> None:
        """Move an empty wheel to the present, so that the next task lands on a low level."""
        if not self.task_count:
            self._move_to(now_ms)

    def _level_for(self, expiry_ms: int) -> _Level:
        """The lowest level that reaches as far, made if there is none yet."""
        for level in self.levels:
            if expiry_ms < level.current_ms + level.span_ms:
                return level
        while True:
            below = self.levels[-1]
            level = _Level(self, below.span_ms, len(below.buckets), self.current_ms)
            self.levels.append(level)
            if expiry_ms < level.current_ms + level.span_ms:
                return level

    def _move_to(self, now_ms: int) -> None:
        for level in self.levels:
            if now_ms < level.current_ms + level.tick_ms:
                return
            level.current_ms = now_ms - now_ms % level.tick_ms
