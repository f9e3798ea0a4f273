"""One event loop in a thread, for a process in which Spark calls plain functions.

Clients of `barnabas_client` live in it and are kept for the next call: connecting costs more than
most calls. Spark's workers are forked from a daemon and end without cleaning up, so the thread is a
daemon too, a forked child begins without loop and clients, and what can be closed at exit is.

Invariants: a client is used in the loop alone; no more than `KEPT_MAX` that nobody uses are kept of
a kind; a client that has failed is closed instead of kept.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from concurrent.futures import Future
from typing import Any, Final, Generic, Protocol, TypeVar

KEPT_MAX: Final = 4
_CLOSE_TIMEOUT_S: Final = 5.0

T = TypeVar("T")


class Closeable(Protocol):
    """What can be kept."""

    async def close(self) -> None:
        """End all connections."""


ClosableT = TypeVar("ClosableT", bound=Closeable)


class LoopThread:
    """A running event loop; `submit` and `run` are called from other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="barnabas-loop", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin the work in the loop.

        Raises: RuntimeError if the loop has ended, as at the exit of the process.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the event loop has ended")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work in the loop and wait for it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop; what still runs in it is cancelled."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            with contextlib.suppress(Exception):
                self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()


_lock = threading.Lock()
_thread: LoopThread | None = None
_caches: list[KeptClients[Any]] = []


def loop_thread() -> LoopThread:
    """The one of this process, started at the first call."""
    global _thread
    with _lock:
        if _thread is None:
            _thread = LoopThread()
        return _thread


class KeptClients(Generic[ClosableT]):
    """Started clients that wait for their next use, by the settings that they were made with."""

    def __init__(self, make: Callable[[Any], Awaitable[ClosableT]]) -> None:
        """`make` gives a started client for a key."""
        self._make = make
        self._idle: OrderedDict[Hashable, list[ClosableT]] = OrderedDict()
        _caches.append(self)

    @contextlib.contextmanager
    def borrow(self, key: Hashable) -> Iterator[ClosableT]:
        """A client that nobody else uses; kept afterwards if nothing was raised."""
        thread = loop_thread()
        with _lock:
            waiting = self._idle.get(key)
            client = waiting.pop() if waiting else None
            if waiting is not None and not waiting:
                del self._idle[key]
        if client is None:
            client = thread.run(_start(self._make, key))
        try:
            yield client
        except BaseException:
            close_quietly(thread, client)
            raise
        for surplus in self._put_back(key, client):
            close_quietly(thread, surplus)

    def forget(self) -> None:
        """Drop all without closing: they belong to the parent process."""
        self._idle.clear()

    def take_all(self) -> list[ClosableT]:
        """Give away all that wait."""
        found = [client for waiting in self._idle.values() for client in waiting]
        self._idle.clear()
        return found

    def _put_back(self, key: Hashable, client: ClosableT) -> list[ClosableT]:
        """Keep the client; give back those that have waited longest and are too many."""
        with _lock:
            self._idle.setdefault(key, []).append(client)
            self._idle.move_to_end(key)
            surplus = []
            while sum(map(len, self._idle.values())) > KEPT_MAX:
                oldest, waiting = next(iter(self._idle.items()))
                surplus.append(waiting.pop(0))
                if not waiting:
                    del self._idle[oldest]
            return surplus


async def _start(make: Callable[[Any], Awaitable[ClosableT]], key: Hashable) -> ClosableT:
    return await make(key)


def close_quietly(thread: LoopThread, client: Closeable) -> None:
    """Close a client; whatever goes wrong, it is not used again."""
    with contextlib.suppress(Exception):
        thread.submit(client.close()).result(_CLOSE_TIMEOUT_S)


def close_all() -> None:
    """Close every kept client and end the loop."""
    global _thread
    with _lock:
        thread, _thread = _thread, None
        clients = [client for cache in _caches for client in cache.take_all()]
    if thread is not None:
        for client in clients:
            close_quietly(thread, client)
        thread.stop()


def _forget_in_child() -> None:
    """A forked process has no thread, and the sockets are the parent's."""
    global _lock, _thread
    _lock = threading.Lock()
    _thread = None
    for cache in _caches:
        cache.forget()


os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(close_all)
