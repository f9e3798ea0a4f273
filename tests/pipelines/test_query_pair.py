"""Two queries of one job end together, whichever fails first. Pure: queries are events here."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from barnabas_pipelines.jobs.streaming import run_pair

_DEADLINE_SECONDS = 30


class Query:
    """Runs until it is stopped, or ends as it is told to."""

    def __init__(self, name: str, end: Callable[[], None] | None = None) -> None:
        self.name = name
        self._end = end
        self._is_stopped = threading.Event()
        self.has_ended = False

    def stop(self) -> None:
        """As `StreamingQuery.stop`."""
        self._is_stopped.set()

    def run(self) -> None:
        """As `run_query`."""
        try:
            if self._end is not None:
                self._end()
            else:
                assert self._is_stopped.wait(_DEADLINE_SECONDS), f"nobody stops {self.name}"
        finally:
            self.has_ended = True


class Session:
    """The streams of a session."""

    def __init__(self, *queries: Query) -> None:
        self.streams = self
        self.active = list(queries)


def fail() -> None:
    raise ValueError("broken")


def run(first: Query, second: Query) -> None:
    session = cast(Any, Session(first, second))
    run_pair(session, (first.name, first.run), (second.name, second.run))


def test_both_end_by_themselves() -> None:
    """With available-now each reads to its end, and the job has done both."""
    queries = [Query(name, lambda: None) for name in ("first", "second")]
    run(*queries)
    assert all(query.has_ended for query in queries)


@pytest.mark.parametrize("failing", ["first", "second"])
def test_the_failure_of_one_stops_the_other_and_is_told(failing: str) -> None:
    """Else aggregation would go on without its dead letters, for ever and silently."""
    queries = [Query(name, fail if name == failing else None) for name in ("first", "second")]
    with pytest.raises(ValueError, match="broken"):
        run(*queries)
    assert all(query.has_ended for query in queries)


def test_a_query_that_starts_late_is_stopped_too() -> None:
    """The other one may fail before Spark knows of it."""
    first, second = Query("first"), Query("second", fail)
    session = Session(second)

    def start_late() -> None:
        while not second.has_ended:
            threading.Event().wait(0.01)
        session.active.append(first)
        first.run()

    with pytest.raises(ValueError, match="broken"):
        run_pair(cast(Any, session), ("first", start_late), ("second", second.run))
    assert first.has_ended


def test_an_interrupt_stops_both() -> None:
    """Ctrl-C reaches the main thread only."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    first, second = Query("first", interrupt), Query("second")
    with pytest.raises(KeyboardInterrupt):
        run(first, second)
    assert second.has_ended
