"""Settings of all tests: Hypothesis must not judge their speed, machines that run them are busy.

Nothing may wait for a device on an event loop, in no test.

In CI the same examples are drawn each time, so that a run there tells about the change in hand;
everywhere else new ones are, and what they find is kept as an `@example`.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.loop_guard import LoopGuard, guarded_loops

settings.register_profile(
    "busy machine",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("busy machine")


@pytest.fixture(scope="session")
def loop_guard() -> Iterator[LoopGuard]:
    """What sees durable operations of disks on event loops."""
    with guarded_loops() as guard:
        yield guard


@pytest.fixture(autouse=True)
def no_fsync_on_the_loop(loop_guard: LoopGuard) -> Iterator[None]:
    """A test in which the broker waits for a device on an event loop fails."""
    yield
    calls = loop_guard.take()
    assert not calls, f"{len(calls)} times, first {calls[0]}"
