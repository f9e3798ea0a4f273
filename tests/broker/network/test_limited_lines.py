"""Lines about peers: bounded in number, and one line each."""

import logging

import pytest

from barnabas_broker.network.limited_lines import (
    LINES_MAX,
    LINES_PERIOD_MS,
    LimitedLines,
    one_line,
)
from tests.support.simulated_clock import SimulatedClock

LOGGER = logging.getLogger("test-limited-lines")


def test_so_many_lines_of_a_kind_are_written(caplog: pytest.LogCaptureFixture) -> None:
    """SEC-8: what is left out is counted and told later; other kinds have lines of their own."""
    clock = SimulatedClock()
    lines = LimitedLines(LOGGER, clock)
    for number in range(3 * LINES_MAX):
        lines.write("kind", "number %d from %s", number, "somebody")
    lines.write("other", "another")
    assert len(caplog.messages) == LINES_MAX + 1
    assert caplog.messages[0] == "number 0 from somebody"
    clock.advance(LINES_PERIOD_MS)
    lines.write("kind", "again")
    assert caplog.messages[-2:] == [f"{2 * LINES_MAX} more lines like the last: kind", "again"]


def test_texts_of_peers_begin_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """SEC-71: nobody writes lines of his own into the log."""
    LimitedLines(LOGGER, SimulatedClock()).write("kind", "%s: %s", 1, "a\nb\r\x1b[2J\u2028é")
    assert caplog.messages == ["1: a\\nb\\r\\x1b[2J\\u2028é"]
    assert one_line("CN=é, O=x") == "CN=é, O=x"
