"""The end of a loop turn: staged appends are written first, then every response leaves.

Handlers run while bytes arrive and only stage their work: appends at partition logs, callbacks that
need those appends in the file, responses at sessions. One callback at the end of the turn does the
work once for all requests that came together: every writer, then the callbacks, then one write per
connection. So this decides when a write may be acknowledged. It is not a queue of requests and
knows nothing of what is written.

Invariants: no response leaves before the writers of its turn have run; an exception in one writer,
callback or session never keeps the others from theirs.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from barnabas_broker.metrics.sample import Sample

_log = logging.getLogger(__name__)

ROUNDS_MAX = 64
"""How often callbacks of one turn may stage new appends before other sockets get their turn."""


class Writer(Protocol):
    """Something that stages work during a turn, such as the log of a partition."""

    def finish_turn(self) -> None:
        """Write what was staged."""
        ...


class Flushable(Protocol):
    """Something that sends at the end of a turn: a session."""

    def flush(self) -> None:
        """Send what is ready."""
        ...


class Turn:
    """Collects what the handlers of one loop turn leave behind, and finishes it once."""

    __slots__ = (
        "_callbacks",
        "_is_scheduled",
        "_loop",
        "_on_writer_failure",
        "_sessions",
        "_writers",
        "failure_count",
        "turn_count",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_writer_failure: Callable[[Writer, Exception], None] | None = None,
    ) -> None:
        """Make one for a loop.

        `on_writer_failure` gets a writer that raised, before any callback or response of the
        turn runs, so that its owner can still turn the responses into errors.
        """
        self._loop = loop
        self._on_writer_failure = on_writer_failure
        # Dictionaries as ordered sets: each once a turn, in the order of the first staging.
        self._writers: dict[Writer, None] = {}
        self._callbacks: list[Callable[[], None]] = []
        self._sessions: dict[Flushable, None] = {}
        self._is_scheduled = False
        self.turn_count = 0
        self.failure_count = 0

    def writer(self, writer: Writer) -> None:
        """Have `finish_turn` called once at the end of this turn."""
        self._writers[writer] = None
        if not self._is_scheduled:
            self._schedule()

    def after(self, callback: Callable[[], None]) -> None:
        """Have a callback run when the writers of this turn have run; it may stage more."""
        self._callbacks.append(callback)
        if not self._is_scheduled:
            self._schedule()

    def flush(self, session: Flushable) -> None:
        """Have `flush` called once when writers and callbacks are through."""
        self._sessions[session] = None
        if not self._is_scheduled:
            self._schedule()

    def samples(self) -> Iterator[Sample]:
        """Counters of turns, for the collector (MET-1)."""
        for name, text, value in (
            ("turns", "Turns of the loop that wrote or sent something.", self.turn_count),
            ("turn_failures", "What failed at the end of a turn.", self.failure_count),
        ):
            yield Sample(f"barnabas_{name}_total", "counter", text, {}, value)

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._loop.call_soon(self.finish)

    def finish(self) -> None:
        """End the turn now; normally called by the loop."""
        self._is_scheduled = False
        self.turn_count += 1
        rounds = 0
        while self._writers or self._callbacks:
            rounds += 1
            if rounds > ROUNDS_MAX:
                # Responses wait too: those of the last round need writers that have not run.
                self._schedule()
                return
            self._run_writers()
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                try:
                    callback()
                except Exception:
                    self._failed("a callback at the end of a turn")
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            try:
                session.flush()
            except Exception:
                self._failed("sending the responses of a connection")

    def _run_writers(self) -> None:
        writers, self._writers = self._writers, {}
        for writer in writers:
            try:
                writer.finish_turn()
            except Exception as error:
                self._failed("writing what a turn has staged")
                if self._on_writer_failure is not None:
                    self._on_writer_failure(writer, error)

    def _failed(self, what: str) -> None:
        self.failure_count += 1
        _log.exception("%s failed", what)
