"""Records as they are shown: large ones are worked on by a thread (CON-172)."""

import asyncio
import threading

import pytest

from barnabas_console.records.record_view import RecordView, worked_on
from barnabas_protocol.records.record import Header
from tests.console.records.record_views import view


def thread_of(_: RecordView) -> int:
    return threading.get_ident()


@pytest.mark.parametrize(
    ("value", "headers", "times", "is_inline"),
    [
        (b"x" * 1_000, (), 1, True),
        (b"x" * 1_000, (), 20, False),
        (b"x" * 100_000, (), 1, False),
        (b"", (("h", None),) * 10_000, 1, False),
    ],
)
def test_what_takes_long_is_done_by_a_thread(
    value: bytes, headers: tuple[Header, ...], times: int, is_inline: bool
) -> None:
    """20 terms that look at 9,000 values, or at 50,000 headers, held the loop for a second."""
    one = view(value, headers=headers)
    found = asyncio.run(worked_on(one, thread_of, times=times))
    assert (found == threading.get_ident()) == is_inline


def test_headers_are_read_once_however_many_terms_look_at_them() -> None:
    one = view(headers=(("a", b"1"), ("b", None)))
    assert one.headers is one.headers
    assert one.header_texts("a") == ["1"]
