"""A virtual-time loop of several processes, each of which can be killed, stopped and resumed.

What a process starts (tasks, timers, callbacks) inherits its context, by which the loop knows whose
it is. A killed process runs nothing any more: its coroutines are closed where they wait, in the
order in which they began. A stopped one (SIGSTOP) keeps everything and runs it when it is resumed,
late. There are no sockets and no threads on this loop, so it needs no selector.
"""

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any

from tests.support.virtual_loop import DeadlockError, VirtualLoop

CLOSE_ATTEMPTS_MAX = 20
CANCELLED_TIMERS_MAX = 200
TASKS_KEPT_MIN = 64
TURNS_MAX = 20_000


class LivelockError(RuntimeError):
    """Something goes round and round without waiting: time does not go on."""


class Life(Enum):
    """Whether a process runs."""

    RUNS = "runs"
    STANDS = "stands still"
    IS_DEAD = "is dead"


class Process:
    """What belongs together and dies together; `context` is what its work runs in."""

    def __init__(self, name: str, clock_rate: float = 1.0, *, is_old: bool = False) -> None:
        self.name = name
        self.is_old = is_old  # of the last release
        self.life = Life.RUNS
        self.clock_rate = clock_rate  # how fast the clock of its machine goes
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self._tasks_kept = TASKS_KEPT_MIN
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    def note(self, task: asyncio.Task[Any]) -> None:
        """Remember a task until it is done."""
        self.tasks.append(task)
        if len(self.tasks) > self._tasks_kept:
            self.tasks = [other for other in self.tasks if not other.done()]
            self._tasks_kept = 2 * len(self.tasks) + TASKS_KEPT_MIN


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)


class _Handle(asyncio.Handle):
    """A handle without what only a debugged loop needs; `call_soon` fills it in."""

    __slots__ = ()


class _Timer(asyncio.TimerHandle):
    """A handle that has its time; `call_at_true` fills it in."""

    __slots__ = ()


# Handles are made a hundred thousand times in a story: a call of `__init__` for each is dear.
_new_handle: Any = _Handle.__new__
_new_timer: Any = _Timer.__new__


class ProcessLoop(VirtualLoop):
    """Runs what is ready; when nothing is, time goes on to the next timer.

    A process whose clock goes fast or slow sees another time, also in the timers that it sets.
    """

    _ready: Any
    _scheduled: Any
    _timer_cancelled_count: int
    _stopping: bool
    _closed: bool

    def __init__(self) -> None:
        super().__init__()
        self.set_task_factory(_make_task)
        self._now_seconds = 0.0
        self._turns = 0  # since time went on
        self._timer_count = 0

    def time(self) -> float:
        """Virtual seconds since the loop was made, by the clock of the process that asks."""
        process = PROCESS.get()
        if process is None:
            return self._now_seconds
        return self._now_seconds * process.clock_rate

    @property
    def true_seconds(self) -> float:
        """Virtual seconds since the loop was made, by no machine's clock."""
        return self._now_seconds

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As every loop's, at half the price."""
        if self._closed:
            raise RuntimeError("the loop is closed")
        handle = _new_handle(_Handle)
        handle._context = copy_context() if context is None else context
        handle._loop = self
        handle._callback = callback
        handle._args = args
        handle._cancelled = False
        handle._repr = handle._source_traceback = None
        self._ready.append(handle)
        return handle  # type: ignore[no-any-return]

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As every loop's, by the clock of the process that asks."""
        process = PROCESS.get()
        if process is not None:
            when /= process.clock_rate
        return self.call_at_true(when, callback, *args, context=context)

    def call_at_true(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As `call_at`, by no machine's clock."""
        if self._closed:
            raise RuntimeError("the loop is closed")
        timer = _new_timer(_Timer)
        timer._context = copy_context() if context is None else context
        timer._loop = self
        timer._callback = callback
        timer._args = args
        timer._cancelled = False
        timer._repr = timer._source_traceback = None
        timer._when = when
        timer._scheduled = True
        self._timer_count += 1
        heapq.heappush(self._scheduled, (when, self._timer_count, timer))
        return timer  # type: ignore[no-any-return]

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As every loop's."""
        process = PROCESS.get()
        if process is None:
            when = self._now_seconds + delay
        else:
            when = (self._now_seconds * process.clock_rate + delay) / process.clock_rate
        return self.call_at_true(when, callback, *args, context=context)

    def work(self, seconds: float) -> None:
        """Let time go on as by a computation, in which nothing else runs."""
        self._now_seconds += seconds

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a part of a process."""
        return process.context.run(self.create_task, work)

    def stop_process(self, process: Process) -> None:
        """SIGSTOP: nothing of it runs until it is resumed; its time goes on."""
        if process.life is Life.RUNS:
            process.life = Life.STANDS

    def resume_process(self, process: Process) -> None:
        """SIGCONT: what had become due runs now, in the order in which it did."""
        if process.life is Life.STANDS:
            process.life = Life.RUNS
            self._ready.extend(process.held)
            process.held = []

    def kill(self, process: Process) -> None:
        """SIGKILL; its coroutines end in the next turn of the loop, if called from one of them."""
        if process.life is Life.IS_DEAD:
            return
        process.life = Life.IS_DEAD
        process.held = []
        Context().run(self.call_soon, self._bury, process)

    def _bury(self, process: Process) -> None:
        while process.tasks:
            tasks, process.tasks = process.tasks, []
            for task in tasks:
                if not task.done():
                    process.context.copy().run(_close, task)

    def _run_once(self) -> None:
        """All turns until the loop is to stop: a call for each would be dear."""
        ready, scheduled = self._ready, self._scheduled
        runs, stands = Life.RUNS, Life.STANDS
        while True:
            if self._timer_cancelled_count > CANCELLED_TIMERS_MAX:
                self._drop_cancelled_timers()
            while scheduled and scheduled[0][2]._cancelled:
                self._timer_cancelled_count -= 1
                heapq.heappop(scheduled)[2]._scheduled = False
            if not ready:
                if not scheduled:
                    raise DeadlockError("the virtual loop would wait for ever")
                self._turns = 0
                self._now_seconds = max(self._now_seconds, scheduled[0][0])
            elif self._turns > TURNS_MAX:
                raise LivelockError(f"no end of {[_work_of(handle) for handle in ready]}")
            self._turns += 1
            end = self._now_seconds + 1e-9
            while scheduled and scheduled[0][0] < end:
                handle = heapq.heappop(scheduled)[2]
                handle._scheduled = False
                ready.append(handle)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context
                process = context.get(PROCESS)
                if process is None or process.life is runs:
                    try:
                        context.run(handle._callback, *handle._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        self._failed(handle, error)
                elif process.life is stands:
                    process.held.append(handle)
            if self._stopping:
                return

    def _failed(self, handle: Any, error: BaseException) -> None:
        """Tell of what a callback has raised, as every loop does."""
        self.call_exception_handler(
            {"message": f"Exception in callback {handle}", "exception": error, "handle": handle}
        )

    def _drop_cancelled_timers(self) -> None:
        kept = []
        for entry in self._scheduled:
            if entry[2]._cancelled:
                entry[2]._scheduled = False
            else:
                kept.append(entry)
        # In place, in an order that does not depend on how the heap lay before.
        heapq.heapify(kept)
        self._scheduled[:] = kept
        self._timer_cancelled_count = 0


def _work_of(handle: asyncio.Handle) -> str:
    """What a handle is about, for a message."""
    callback: Any = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        work: Any = owner.get_coro()
        where = []
        while getattr(work, "cr_frame", None) is not None:
            where.append(f"{work.__qualname__}:{work.cr_frame.f_lineno}")
            work = work.cr_await
        return " > ".join(where)
    return repr(callback)


def _make_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    context: Context | None = None,
) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, context=context)
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.note(task)
    return task


def _close(task: asyncio.Task[Any]) -> None:
    """End a task's coroutine where it waits, also one that would rather wait again."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    work = task.get_coro()
    for _ in range(CLOSE_ATTEMPTS_MAX):
        # A task group that ends by this hands on a group of its own.
        with contextlib.suppress(BaseException):
            work.close()
            return
    raise AssertionError(f"{task} cannot be ended")


def in_process(process: Process, function: Callable[[], Any]) -> Any:
    """Call a function as a part of a process."""
    return process.context.copy().run(function)
