"""The audit log: a line of bounded size each, whatever a request holds (CON-145)."""

import json
from typing import Any

from barnabas_console.security.audit_log import ITEMS_MAX, TEXT_CHARACTERS_MAX, AuditLog
from tests.support.simulated_clock import SimulatedClock


def written(**facts: Any) -> str:
    lines: list[str] = []
    AuditLog(SimulatedClock(), lines.append).add("resend records", "User:eve", "::1", facts)
    (line,) = lines
    return line


def test_texts_and_lists_of_texts_are_cut() -> None:
    """CON-172: the topics of dead letters are what their headers say, a megabyte each."""
    huge = "x" * 1_000_000
    told = json.loads(written(topic=huge, to_topics=[huge] * (ITEMS_MAX + 1)))
    assert len(told["topic"]) == TEXT_CHARACTERS_MAX
    assert [len(one) for one in told["to_topics"]] == [TEXT_CHARACTERS_MAX] * ITEMS_MAX


def test_nothing_begins_a_line_of_its_own() -> None:
    """CON-172."""
    line = written(filter='a\r\n{"act": "forged"}\u2028', title="\x1b[2J")
    assert line.isascii() and line.isprintable()
