"""Answers leave in the order of the requests."""

import struct
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.network.answer_queue import JOIN_BYTES_MAX, AnswerQueue
from barnabas_broker.network.exchange import Exchange


def exchange() -> Exchange:
    return Exchange(cast(Any, None), memoryview(b""), 0)


def answered(queue: AnswerQueue, one: Exchange, parts: list[Any] | None) -> None:
    one.is_done = True
    queue.answer(one, parts)


def framed(answer: bytes) -> bytes:
    return struct.pack(">I", len(answer)) + answer


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_answers_keep_the_order_of_requests(
    order: list[int], silent: set[int], takes: set[int]
) -> None:
    """NET-7; silent ones are those of acks=0."""
    queue = AnswerQueue()
    exchanges = [exchange() for _ in range(8)]
    queue.pending.extend(exchanges)
    sent = b""
    for number in order:
        answered(queue, exchanges[number], None if number in silent else [b"%d" % number, b"!"])
        if number in takes:
            sent += b"".join(queue.take())
    sent += b"".join(queue.take())
    assert sent == b"".join(framed(b"%d!" % n) for n in range(8) if n not in silent)
    assert queue.parked_bytes == queue.out_bytes == 0
    assert not queue.pending
    assert queue.finished == exchanges


def test_bytes_that_wait_are_counted() -> None:
    """They bound how much a session takes on."""
    queue = AnswerQueue()
    first, second = exchange(), exchange()
    queue.pending.extend([first, second])
    answered(queue, second, [b"12345"])
    assert (queue.parked_bytes, queue.out_bytes) == (5, 0)
    answered(queue, first, [b"1", b"2"])
    assert (queue.parked_bytes, queue.out_bytes) == (0, 4 + 2 + 4 + 5)


def test_large_parts_are_passed_on_without_a_copy() -> None:
    """architecture.md section 4: record bytes are not copied for a fetch's answer."""
    queue = AnswerQueue()
    large = memoryview(bytearray(JOIN_BYTES_MAX + 1))
    first, second = exchange(), exchange()
    queue.pending.extend([first, second])
    answered(queue, first, [b"head", large, b"tail"])
    answered(queue, second, [b"x"])
    taken = queue.take()
    assert len(taken) == 3
    assert taken[1] is large
    assert taken[0] == struct.pack(">I", 8 + len(large)) + b"head"
    assert taken[2] == b"tail" + framed(b"x")
