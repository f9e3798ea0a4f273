"""A simulated disk whose threads stand still at every system call.

Each call of `Disk.run` is made in a real thread, but only one of them, or the loop, runs at a time:
a thread gives way before each operation on the disk, and goes on when the loop, or the loop's own
operation on the disk, lets it. A seed decides when; those in `held` stand for long. A kill ends
the threads where they stand, and lets nothing of the dead process touch the disk any more.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from tests.support.simulated_disk import SimulatedDirectory, SimulatedDisk, SimulatedFile

_PROCESS: ContextVar[int] = ContextVar("process", default=0)
_idle: list[_Thread] = []
os.register_at_fork(after_in_child=_idle.clear)  # a fork has no threads but its own
# Virtual time that a thread stands still at most, so that nobody waits for it for ever.
STALL_SECONDS_MAX = 60
# How many operations a thread makes at most while the loop waits for it: some are quicker.
_PACES = (1, 6, 30)


class KilledError(OSError):
    """The process that wanted something of the disk is dead."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "the process is dead")


class _Thread(threading.Thread):
    """A thread that is used again; `go` lets it run, `back` says that it stands still."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.go, self.back = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.back.acquire()
        self.work: Callable[[], None] | None = None

    def run(self) -> None:
        while True:
            self.go.acquire()
            assert self.work is not None
            self.work()
            self.back.release()


class Worker:
    """One call in a thread. Every other one is in a hurry: it is made in one piece, without one."""

    def __init__(self, disk: SteppingDisk, call: Callable[[], Any]) -> None:
        self.disk = disk
        self.is_done = self.is_killed = False
        self.is_waiting = False  # for a lock
        self.pace = _PACES[disk.random.integer(len(_PACES))]
        self._left = 0  # operations that it may make before it stands still again
        self.value: Any = None
        self.error: BaseException | None = None
        self._call = call
        self._thread: _Thread | None = None
        if disk.random.integer(2):
            self._thread = _idle.pop() if _idle else _Thread()
            self._thread.work = self._work
            if not self._thread.is_alive():
                self._thread.start()

    def _work(self) -> None:
        try:
            self.value = self._call()
        except BaseException as error:
            self.error = error
        self.is_done = True

    def step(self, operations: int = 1) -> None:
        """Let it make so many operations, at most to its end."""
        thread, self._left = self._thread, operations
        before, self.disk.current = self.disk.current, self
        if thread is None:
            self.disk.is_in_thread = True
            self._work()
            self.disk.is_in_thread = False
        else:
            thread.go.release()
            thread.back.acquire()
            if self.is_done:
                _idle.append(thread)
        self.disk.current = before

    def pause(self) -> None:
        """In the thread, before an operation: stand still, if it has made as many as it may."""
        if self._thread is not None and not self.is_killed and self._left <= 0:
            self._thread.back.release()
            self._thread.go.acquire()
        self._left -= 1
        if self.is_killed:
            raise KilledError

    def wait(self) -> None:
        """In the thread: let another go on, which holds what is waited for."""
        self._left = 0
        if self._thread is not None:
            self.is_waiting = True
            self.pause()
            self.is_waiting = False
            return
        for other in list(self.disk.workers):
            if other is not self and other._thread is not None and not other.is_done:
                other.step()

    def kill(self) -> None:
        """End it where it stands."""
        self.is_killed = True
        while not self.is_done:
            self.step()


class StepLock:
    """A lock between threads: who has to wait stands still."""

    disk: SteppingDisk | None = None

    def __init__(self) -> None:
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held:
            assert self.disk is not None
            assert self.disk.current is not None
            self.disk.current.wait()
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False


class SteppingDisk(SimulatedDisk):
    """The disk of one machine, whose processes come and go."""

    process = 0
    current: Worker | None = None
    follows_renames = True  # of folders that are open; else they are found by their paths
    _is_atomic = False
    _is_stepping = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.workers: list[Worker] = []
        self.held: set[Worker] = set()  # those that do not go on for now

    def start_process(self) -> None:
        """What is done from now on in this context is done by the present process."""
        _PROCESS.set(self.process)

    async def kill(self) -> None:
        """End the process and all that it does; what it has written is there."""
        self.process += 1
        for worker in list(self.workers):
            worker.kill()
        self.workers.clear()
        self._generation += 1
        self._locks.clear()
        self._failures.clear()
        self.held.clear()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        if _PROCESS.get() != self.process:
            raise KilledError  # a timer outlives its process here, but does nothing any more
        worker = Worker(self, call)
        self.workers.append(worker)
        try:
            while not worker.is_done:
                for _ in range(1 + (self.random.integer(4) == 0) * 3):
                    await asyncio.sleep(0)
                wait_seconds = 0.001
                if worker.is_waiting:  # time passes, or who is held would never let go
                    await asyncio.sleep(wait_seconds)
                while worker in self.held and wait_seconds < STALL_SECONDS_MAX:
                    await asyncio.sleep(wait_seconds)
                    wait_seconds *= 2
                self.held.discard(worker)
                if not worker.is_done:
                    worker.step(1 + self.random.integer(worker.pace))
        finally:
            if worker in self.workers:
                self.workers.remove(worker)
        if worker.error is not None:
            raise worker.error
        return worker.value

    def open_directory(self, path: str) -> SteppingDirectory:
        plain = super().open_directory(path)
        directory = SteppingDirectory(self, plain.path)
        if self.follows_renames:
            self._open_directories.add(directory)
        return directory

    def _checked(self, operation: str, path: str) -> str:
        if not self._is_atomic:
            self.give_way()
        return super()._checked(operation, path)

    def give_way(self) -> None:
        """Before an operation: a thread stands still, the loop may let others go on."""
        worker = self.current
        if worker is not None:
            worker.pause()
        elif _PROCESS.get() != self.process:
            raise KilledError
        elif self.workers and not self._is_stepping:
            self._is_stepping = True
            while self.workers and self.random.integer(4) == 0:
                other = self.workers[self.random.integer(len(self.workers))]
                if other.is_done or other in self.held:
                    break
                other.step()
            self._is_stepping = False

    def atomically(self, call: Callable[[], Any]) -> Any:
        """One operation, in which nobody else gets between its path and what it does there."""
        self.give_way()
        before, self._is_atomic = self._is_atomic, True
        try:
            return call()
        finally:
            self._is_atomic = before


class SteppingDirectory(SimulatedDirectory):
    """An open folder: names are looked up in it when the operation is made, not before."""

    _disk: SteppingDisk

    def open(self, name: str, *, create: bool = False) -> SimulatedFile:
        found: SimulatedFile = self._disk.atomically(
            lambda: super(SteppingDirectory, self).open(name, create=create)
        )
        return found

    def exists(self, name: str) -> bool:
        return bool(self._disk.atomically(lambda: super(SteppingDirectory, self).exists(name)))

    def write_atomically(self, name: str, data: Any) -> None:
        file = self.open(name + ".tmp", create=True)
        file.truncate(0)
        file.append([data])
        file.sync()
        file.close()
        self._disk.atomically(
            lambda: self._usable().rename(f"{self.path}/{name}.tmp", f"{self.path}/{name}")
        )
        self.sync()

    def sync(self) -> None:
        self._disk.atomically(super().sync)
