"""Where operations wait until something happens to what they watch, or their time is up.

A produce waits for the high watermark, a fetch for bytes, a join for members. Whoever changes what
they watch calls `check_and_complete`; a timer does it otherwise. It knows nothing of what they do.

Invariants: completion runs exactly once, whoever wins; a completed or cancelled operation is in no
list any more (so there is nothing to purge, where Kafka collects such leftovers now and then); an
operation that fails never keeps others from being tried.

Source: PUR-1 to PUR-5. There are no locks here: everything runs on one loop.
"""

import logging
from collections.abc import Hashable, Iterable, Iterator

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.purgatory.timing_wheel import TimerTask

_log = logging.getLogger(__name__)


class DelayedOperation:
    """Something to be completed once: by an event, by a time-out, or by its maker.

    Subclasses give `try_complete` and `on_complete`, and `on_expire` where a time-out makes a
    difference. Their slots may not start with `_purgatory`.
    """

    __slots__ = ("_purgatory", "_purgatory_keys", "_purgatory_task", "is_completed", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.is_completed = False
        self._purgatory: Purgatory | None = None
        self._purgatory_keys: tuple[Hashable, ...] = ()
        self._purgatory_task: TimerTask | None = None

    def try_complete(self) -> bool:
        """Whether what is waited for has happened.

        It may call `force_complete` itself and return its result; where it only returns True, the
        purgatory does.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Do what was waited for; runs exactly once."""
        raise NotImplementedError

    def on_expire(self) -> None:
        """Prepare for completion by time-out; runs right before `on_complete`, only then."""

    def force_complete(self) -> bool:
        """Complete now; False if that has happened before."""
        if self.is_completed:
            return False
        self._end()
        self.on_complete()
        return True

    def cancel(self) -> None:
        """End without completion: nobody wants the outcome any more."""
        if not self.is_completed:
            self._end()

    def _end(self) -> None:
        self.is_completed = True
        if self._purgatory is not None:
            self._purgatory.leave(self)


class Purgatory:
    """The operations of one kind that wait, by the keys they watch."""

    __slots__ = (
        "_pending",
        "_timer",
        "_watchers",
        "completed_count",
        "expired_count",
        "failed_count",
        "name",
        "watched_count",
    )

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self._timer = timer
        # Dictionaries as ordered sets: who came first is tried first, and leaving is quick.
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._pending: dict[DelayedOperation, None] = {}
        self.watched_count = 0
        self.completed_count = 0
        self.expired_count = 0
        self.failed_count = 0

    @property
    def key_count(self) -> int:
        """Keys that some operation watches."""
        return len(self._watchers)

    @property
    def pending_count(self) -> int:
        """Operations that wait; one that watches three keys counts once here."""
        return len(self._pending)

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """Complete an operation now, or let it wait for its keys; returns whether it is completed.

        It is tried, put on all keys, and tried again, because watching may itself have let
        something happen; only then its time starts.

        Raises: what `try_complete` raises; the operation then does not wait.
        """
        if self._attempt(operation):
            return True
        self._watch(operation, tuple(dict.fromkeys(keys)))
        try:
            if self._attempt(operation):
                return True
        except BaseException:
            operation.cancel()
            raise
        self._start_time(operation)
        return False

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> None:
        """Let an operation wait for its keys: its maker has just seen that it is not due yet.

        Nothing may have happened since, and watching may let nothing happen.
        """
        self._watch(operation, tuple(dict.fromkeys(keys)))
        self._start_time(operation)

    def _start_time(self, operation: DelayedOperation) -> None:
        operation._purgatory_task = self._timer.schedule(
            operation.timeout_ms, lambda: self._expire(operation)
        )

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that watches a key; returns how many were completed by that.

        Call it when the change is finished, not in the middle of it.
        """
        watchers = self._watchers.get(key)
        if not watchers:
            return 0
        count = 0
        for operation in list(watchers):
            if operation.is_completed:
                continue  # by one of those before it
            try:
                count += self._attempt(operation)
            except Exception:
                self._failed(operation)
        return count

    def leave(self, operation: DelayedOperation) -> None:
        """Take an operation out of every list; it calls this itself when it ends."""
        if self._pending.pop(operation, self) is self:
            return
        for key in operation._purgatory_keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
        self.watched_count -= len(operation._purgatory_keys)
        operation._purgatory_keys = ()
        operation._purgatory = None
        if operation._purgatory_task is not None:
            operation._purgatory_task.cancel()
            operation._purgatory_task = None

    def close(self) -> None:
        """Complete everything that waits, as if its time were up; the timer stays its owner's."""
        for operation in list(self._pending):
            self._expire(operation)

    def samples(self) -> Iterator[Sample]:
        """The gauges and counters for the collector."""
        labels = {"purgatory": self.name}
        for name, kind, text, value in (
            ("watched", "gauge", "Places in the lists of watched keys.", self.watched_count),
            ("pending", "gauge", "Operations that wait.", self.pending_count),
            ("completed_total", "counter", "Completed after waiting.", self.completed_count),
            ("expired_total", "counter", "Completed by time-out.", self.expired_count),
            ("failed_total", "counter", "Raised an exception.", self.failed_count),
        ):
            yield Sample(f"barnabas_purgatory_{name}", kind, text, labels, value)

    def _watch(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        operation._purgatory = self
        operation._purgatory_keys = keys
        self._pending[operation] = None
        self.watched_count += len(keys)
        for key in keys:
            self._watchers.setdefault(key, {})[operation] = None

    def _attempt(self, operation: DelayedOperation) -> bool:
        """Try an operation; returns whether this completed it."""
        if operation.is_completed:
            return True
        was_waiting = operation._purgatory is not None
        if not operation.try_complete():
            return operation.is_completed
        operation.force_complete()
        if was_waiting:
            self.completed_count += 1
        return True

    def _expire(self, operation: DelayedOperation) -> None:
        if operation.is_completed:
            return
        self.expired_count += 1
        try:
            operation.on_expire()
        except Exception:
            self._failed(operation)
        try:
            operation.force_complete()
        except Exception:
            self._failed(operation)

    def _failed(self, operation: DelayedOperation) -> None:
        self.failed_count += 1
        _log.exception("an operation of purgatory %s failed: %s", self.name, type(operation))
