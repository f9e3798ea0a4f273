"""Cutting frames: any split of the stream gives the same frames, and none is trusted too early."""

import resource
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_protocol.connection.framing import (
    OWN_BYTES_MAX,
    SMALL_BYTES,
    TRUST_FACTOR,
    TRUSTED_BYTES,
    FrameError,
    FrameReceiver,
    SharedBuffer,
)

SHARED = SharedBuffer()


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def deliver(receiver: FrameReceiver, data: bytes, piece_bytes: int = 1 << 30) -> list[memoryview]:
    """What a transport does: fill what it is given, as far as the data goes."""
    frames = []
    position = 0
    while position < len(data):
        target = receiver.buffer()
        count = min(len(target), len(data) - position, piece_bytes)
        target[:count] = data[position : position + count]
        position += count
        receiver.received(count)
        while (frame := receiver.next_frame()) is not None:
            frames.append(frame)
        receiver.keep()
    return frames


def content(size: int, seed: int) -> bytes:
    return bytes((seed + n) % 251 for n in range(min(size, 251))) * (size // 251 + 1)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(0, 70_000), max_size=8),
    st.lists(st.integers(1, 60_000), min_size=1, max_size=10),
)
def test_any_split_gives_the_same_frames(sizes: list[int], pieces: list[int]) -> None:
    """Frames that were handed out stay as they were, whatever arrives after them."""
    expected = [content(size, n)[:size] for n, size in enumerate(sizes)]
    stream = framed(*expected)
    receiver = FrameReceiver(SHARED, 100_000)
    found: list[memoryview] = []
    position = 0
    while position < len(stream):
        for piece in pieces:
            found += deliver(receiver, stream[position : position + piece])
            position += piece
    assert [bytes(frame) for frame in found] == expected
    assert all(not frame.readonly for frame in found)
    assert receiver.held_bytes == 0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=60), st.integers(1, 4), st.integers(1))
def test_frames_left_for_later_are_the_same(sizes: list[int], at_once: int, piece: int) -> None:
    """A held session takes few frames at a time; the rest waits outside of the shared buffer."""
    expected = [content(size, n)[:size] for n, size in enumerate(sizes)]
    stream = framed(*expected)
    receiver = FrameReceiver(SHARED, 100_000)
    found: list[bytes] = []
    for start in range(0, len(stream), piece % 20_000 + 1):
        part = stream[start : start + piece % 20_000 + 1]
        target = receiver.buffer()
        target[: len(part)] = part
        receiver.received(len(part))
        for _ in range(at_once):
            frame = receiver.next_frame()
            if frame is not None:
                found.append(bytes(frame))
        receiver.keep()
        SHARED.content[:] = bytes(len(SHARED.content))  # another connection uses it
    while (frame := receiver.next_frame()) is not None:
        found.append(bytes(frame))
        receiver.keep()
    assert found == expected


@pytest.mark.parametrize("size", [SMALL_BYTES + 1, 300_000, OWN_BYTES_MAX, OWN_BYTES_MAX * 3])
@pytest.mark.parametrize("piece", [14_000, 100_000])
def test_large_frames_arrive_whole(size: int, piece: int) -> None:
    receiver = FrameReceiver(SHARED, 100_000_000)
    first, second = content(size, 3)[:size], b"next"
    found = deliver(receiver, framed(first, second), piece)
    assert [bytes(frame) for frame in found] == [first, second]
    found[0][:4] = b"edit"  # offsets are stamped in place


def test_the_rest_of_a_large_frame_is_received_without_a_copy() -> None:
    """The frame the handler gets is the memory the kernel has filled."""
    receiver = FrameReceiver(SHARED, 10_000_000)
    size = 500_000
    deliver(receiver, struct.pack(">i", size) + bytes(size // 8))
    target = receiver.buffer()
    assert len(target) == size - size // 8
    target[:] = bytes([7]) * len(target)
    receiver.received(len(target))
    frame = receiver.next_frame()
    assert frame is not None
    assert frame.obj is target.obj


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_negative_sizes_are_refused(size: int) -> None:
    """NET-6."""
    with pytest.raises(FrameError) as caught:
        deliver(FrameReceiver(SHARED, 1_000), struct.pack(">i", size))
    assert caught.value.reason == "negative-size"


def test_oversize_frames_are_refused_before_anything_is_allocated() -> None:
    """NET-6; the largest allowed one is taken."""
    assert len(deliver(FrameReceiver(SHARED, 1_000), framed(bytes(1_000)))) == 1
    receiver = FrameReceiver(SHARED, 1_000)
    with pytest.raises(FrameError) as caught:
        deliver(receiver, struct.pack(">i", 1_001))
    assert caught.value.reason == "oversize"
    assert receiver.buffer_bytes == 0


@pytest.mark.parametrize(
    ("start", "guess"),
    [
        (b"GET /metrics HTTP/1.1\r\n", "HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"\x15\x03\x03\x00\x02\x02", "TLS"),
        (b"EHLO me\r\n", ""),
        (b"\x7f\xff\xff\xff", ""),
    ],
)
def test_other_protocols_are_named(start: bytes, guess: str) -> None:
    """The usual mistake of an operator should be legible in the log."""
    with pytest.raises(FrameError) as caught:
        deliver(FrameReceiver(SHARED, 1_000_000), start)
    assert caught.value.looks_like == guess
    assert caught.value.start == start[:4]
    assert ("looks like" in str(caught.value)) is bool(guess)


@given(
    st.lists(st.binary(max_size=40), max_size=4),
    st.one_of(st.integers(-(1 << 31), -1), st.integers(10_001, (1 << 31) - 1)),
    st.integers(1, 50),
)
def test_an_impossible_size_is_refused_after_what_came_before(
    bodies: list[bytes], bad: int, piece_bytes: int
) -> None:
    """What is complete is handed out, then the stream is lost, however it was split."""
    data = framed(*bodies) + struct.pack(">i", bad)
    receiver = FrameReceiver(SharedBuffer(), 10_000)
    found = []
    with pytest.raises(FrameError):
        for start in range(0, len(data), piece_bytes):
            piece = data[start : start + piece_bytes]
            receiver.buffer()[: len(piece)] = piece
            receiver.received(len(piece))
            while (frame := receiver.next_frame()) is not None:
                found.append(bytes(frame))
            receiver.keep()
    assert found == bodies


def test_connections_share_the_buffer() -> None:
    """Two connections of one loop take turns, also with half frames."""
    first, second = FrameReceiver(SHARED, 1_000), FrameReceiver(SHARED, 1_000)
    data = framed(b"abcdef")
    assert deliver(first, data[:7]) == []
    assert deliver(second, data[:3]) == []
    assert deliver(first, data[7:]) == [b"abcdef"]
    assert deliver(second, data[3:]) == [b"abcdef"]


def test_a_trusted_peer_gets_the_memory_that_it_claims_at_once() -> None:
    """A client knows its broker: no piece of a fetch response is copied when more of it comes."""
    receiver = FrameReceiver(SHARED, 100_000_000, trusted_bytes=OWN_BYTES_MAX)
    body = content(3_000_000, 1)[:3_000_000]
    data = framed(body)
    assert deliver(receiver, data[:1000]) == []
    own = receiver.buffer()
    assert len(own) == len(data) - 1000
    own[:] = data[1000:]
    receiver.received(len(own))
    frame = receiver.next_frame()
    assert frame is not None
    assert frame.obj is own.obj
    assert frame == body


@pytest.mark.parametrize("claim", [SMALL_BYTES + 1, 1_000_000, 100_000_000])
def test_a_claim_alone_gets_little_memory(claim: int) -> None:
    """A peer that claims 100 MB and sends little must not be worth more than what it sent."""
    receiver = FrameReceiver(SHARED, 100_000_000)
    sent = 0
    deliver(receiver, struct.pack(">i", claim))
    while sent < claim // TRUST_FACTOR and sent < OWN_BYTES_MAX // TRUST_FACTOR:
        assert 0 < receiver.buffer_bytes <= max(TRUSTED_BYTES, sent * TRUST_FACTOR, SMALL_BYTES + 1)
        piece = min(10_000, claim - sent)
        assert deliver(receiver, bytes(piece)) == [] or sent + piece == claim
        sent += piece
        if sent == claim:
            return
        assert receiver.held_bytes == sent


def test_an_idle_receiver_holds_no_buffer() -> None:
    """Thousands of idle connections cost their objects only."""
    receiver = FrameReceiver(SHARED, 1_000_000)
    deliver(receiver, framed(bytes(100), bytes(100_000)))
    assert receiver.buffer_bytes == 0
    deliver(receiver, framed(b"abc")[:5])
    assert receiver.buffer_bytes == 5
    receiver.clear()
    assert receiver.held_bytes == 0


def test_reading_on_while_a_full_buffer_waits_is_a_mistake_that_shows() -> None:
    """The session pauses reading; memory would grow otherwise."""
    receiver = FrameReceiver(SHARED, 1_000_000)
    target = receiver.buffer()
    target[:] = (framed(bytes(96)) * len(target))[: len(target)]
    receiver.received(len(target))
    receiver.keep()
    with pytest.raises(FrameError) as caught:
        receiver.buffer()
    assert caught.value.reason == "reading-not-paused"


def test_half_frames_are_worth_no_more_than_what_has_arrived() -> None:
    """Attack: connections that stop in the middle held eight times what they had sent."""
    before = resident_bytes()
    receivers = [FrameReceiver(SHARED, 100_000_000) for _ in range(60)]
    for receiver in receivers:
        deliver(receiver, struct.pack(">i", 4_000_000) + bytes(502_000))
    sent = sum(receiver.held_bytes for receiver in receivers)
    assert sent == 60 * 502_000
    grown = resident_bytes() - before
    assert grown < 3 * sent, (grown, sent)


def test_the_smallest_frames_cost_no_more_than_their_number() -> None:
    """Attack: what waits is not copied for each frame that is cut off it; that took ten seconds."""
    shared = SharedBuffer(1024 * 1024)
    receiver = FrameReceiver(shared, 1_000)
    count = len(shared.content) // 4
    receiver.buffer()[:] = bytes(len(shared.content))
    receiver.received(len(shared.content))
    before = time.process_time()
    found = 0
    while receiver.next_frame() is not None:  # one at a time, as a session that is held takes them
        receiver.keep()
        found += 1
    assert found == count
    assert time.process_time() - before < 4


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_the_limit_of_frames_changes_with_the_state_of_a_connection() -> None:
    receiver = FrameReceiver(SHARED, 1_000)
    assert len(deliver(receiver, framed(bytes(1_000)))) == 1
    receiver.frame_bytes_max = 100_000
    assert len(deliver(receiver, framed(bytes(100_000)))) == 1
    receiver.frame_bytes_max = 1_000
    with pytest.raises(FrameError):
        deliver(receiver, framed(bytes(1_001)))
