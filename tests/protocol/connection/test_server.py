"""Responses leave in the order of the requests."""

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.connection.framing import FrameReceiver, SharedBuffer
from barnabas_protocol.connection.server import JOIN_BYTES_MAX, RESPONSE_BYTES_MAX, ServerConnection


class Request:
    """A request in flight, as a server remembers it."""

    def __init__(self) -> None:
        self.is_done = False
        self.parts: Any = None


def connection_with(count: int) -> tuple[ServerConnection[Request], list[Request]]:
    """A connection with so many requests in flight."""
    connection = ServerConnection[Request](FrameReceiver(SharedBuffer(1_000), 1_000))
    requests = [Request() for _ in range(count)]
    for request in requests:
        connection.begin(request)
    return connection, requests


def respond(
    connection: ServerConnection[Request], request: Request, parts: list[Any] | None
) -> None:
    request.is_done = True
    connection.respond(request, parts)


def framed(response: bytes) -> bytes:
    return struct.pack(">I", len(response)) + response


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_responses_keep_the_order_of_requests(
    order: list[int], silent: set[int], takes: set[int]
) -> None:
    """Whatever the order in which they become ready; silent ones are those of acks=0 (NET-7)."""
    connection, requests = connection_with(8)
    sent = b""
    for number in order:
        respond(connection, requests[number], None if number in silent else [b"%d" % number, b"!"])
        if number in takes:
            sent += b"".join(connection.data_to_send())
    sent += b"".join(connection.data_to_send())
    assert sent == b"".join(framed(b"%d!" % n) for n in range(8) if n not in silent)
    assert connection.parked_bytes == connection.out_bytes == 0
    assert not connection.pending
    assert connection.finished == requests


def test_bytes_that_wait_are_counted() -> None:
    """They bound how much a session takes on."""
    connection, (first, second) = connection_with(2)
    respond(connection, second, [b"12345"])
    assert (connection.parked_bytes, connection.out_bytes) == (5, 0)
    respond(connection, first, [b"1", b"2"])
    assert (connection.parked_bytes, connection.out_bytes) == (0, 4 + 2 + 4 + 5)


def test_large_parts_are_passed_on_without_a_copy() -> None:
    """Record bytes are not copied for the response to a fetch."""
    large = memoryview(bytearray(JOIN_BYTES_MAX + 1))
    connection, (first, second) = connection_with(2)
    respond(connection, first, [b"head", large, b"tail"])
    respond(connection, second, [b"x"])
    taken = connection.data_to_send()
    assert len(taken) == 3
    assert taken[1] is large
    assert taken[0] == struct.pack(">I", 8 + len(large)) + b"head"
    assert taken[2] == b"tail" + framed(b"x")


def test_nothing_follows_a_response_that_is_too_large_to_be_sent() -> None:
    """Its size could not be written, and a stream cannot be cut in its middle."""

    class Huge(bytes):
        def __len__(self) -> int:
            return RESPONSE_BYTES_MAX + 1

    connection, (first, second, third) = connection_with(3)
    respond(connection, first, [b"a"])
    respond(connection, second, [Huge()])
    respond(connection, third, [b"c"])
    assert connection.is_broken
    assert b"".join(connection.data_to_send()) == framed(b"a")


def test_clearing_forgets_both_directions() -> None:
    """A closed connection holds on to nothing."""
    connection, (first, second) = connection_with(2)
    connection.receiver.buffer()[:3] = b"abc"
    connection.receiver.received(3)
    respond(connection, second, [b"parked"])
    respond(connection, first, [b"lined up"])
    connection.clear()
    assert connection.receiver.held_bytes == 0
    assert connection.out_bytes == connection.parked_bytes == 0
    assert not connection.pending
    assert not connection.finished
    assert second.parts is None
