"""Cutting a stream into frames: any split of the bytes gives the same frames."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_client.network.frame_receiver import (
    DIRECT_BYTES_MIN,
    SHARED_BYTES,
    TRUSTED_BYTES,
    FrameError,
    FrameReceiver,
)

LIMIT = 16 * 1024 * 1024


def feed(receiver: FrameReceiver, data: bytes, sizes: list[int]) -> list[bytes]:
    """Hand the data over in pieces of the given sizes, repeated; return copies of the frames."""
    frames = []
    position = turn = 0
    while position < len(data):
        buffer = receiver.buffer()
        assert len(buffer) > 0
        size = min(sizes[turn % len(sizes)], len(buffer), len(data) - position)
        buffer[:size] = data[position : position + size]
        frames += [bytes(frame) for frame in receiver.received(size)]
        position += size
        turn += 1
    return frames


def stream(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(
    bodies=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.integers(DIRECT_BYTES_MIN - 2, DIRECT_BYTES_MIN + 2000).map(
                lambda size: bytes(range(256)) * (size // 256)
            ),
        ),
        max_size=6,
    ),
    sizes=st.lists(st.integers(1, 70_000), min_size=1, max_size=5),
)
def test_any_split_gives_the_same_frames(bodies: list[bytes], sizes: list[int]) -> None:
    """style.md section 9: any split of the input gives the same events."""
    data = stream(bodies)
    if len(data) > 5000:
        sizes = [size + 500 for size in sizes]  # byte by byte would take too long
    shared = memoryview(bytearray(SHARED_BYTES))
    assert feed(FrameReceiver(shared, LIMIT), data, sizes) == bodies


@given(
    bodies=st.lists(st.binary(max_size=40), max_size=4),
    bad=st.one_of(st.integers(-(1 << 31), -1), st.integers(LIMIT + 1, (1 << 31) - 1)),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=5),
)
def test_an_impossible_size_is_refused_after_what_came_before(
    bodies: list[bytes], bad: int, sizes: list[int]
) -> None:
    """What is complete is handed out, then the stream is lost, however it was split."""
    data = stream(bodies) + struct.pack(">i", bad)
    receiver = FrameReceiver(memoryview(bytearray(SHARED_BYTES)), LIMIT)
    frames = []
    position = turn = 0
    with pytest.raises(FrameError):
        while True:
            assert position < len(data), "the bad size was not noticed"
            buffer = receiver.buffer()
            size = min(sizes[turn % len(sizes)], len(data) - position)
            buffer[:size] = data[position : position + size]
            position += size
            turn += 1
            for frame in receiver.received(size):
                frames.append(bytes(frame))  # noqa: PERF401 - it ends with an error
    assert frames == bodies


def test_connections_share_the_buffer() -> None:
    """Two connections of one client take turns, also with half frames."""
    shared = memoryview(bytearray(SHARED_BYTES))
    first, second = FrameReceiver(shared, LIMIT), FrameReceiver(shared, LIMIT)
    data = stream([b"abcdef"])
    assert feed(first, data[:7], [7]) == []
    assert feed(second, data[:3], [3]) == []
    assert feed(first, data[7:], [10]) == [b"abcdef"]
    assert feed(second, data[3:], [10]) == [b"abcdef"]


def test_a_large_frame_is_received_into_its_own_memory() -> None:
    """No byte of a fetch answer is copied after its first piece."""
    receiver = FrameReceiver(memoryview(bytearray(SHARED_BYTES)), LIMIT)
    body = bytes(1_000_000)
    data = stream([body])
    buffer = receiver.buffer()
    buffer[:1000] = data[:1000]
    assert list(receiver.received(1000)) == []
    own = receiver.buffer()
    assert len(own) == len(data) - 1000
    own[:] = data[1000:]
    (frame,) = receiver.received(len(own))
    assert frame.obj is own.obj


def test_memory_is_taken_as_bytes_arrive() -> None:
    """A size is a claim: ten bytes do not make us take sixteen mebibytes."""
    receiver = FrameReceiver(memoryview(bytearray(SHARED_BYTES)), LIMIT)
    receiver.buffer()[:4] = struct.pack(">i", LIMIT)
    assert list(receiver.received(4)) == []
    assert len(receiver.buffer()) == TRUSTED_BYTES
    body = bytes(range(256)) * (LIMIT // 256)
    assert feed(receiver, body, [300_000]) == [body]


@pytest.mark.parametrize(
    ("data", "words", "is_tls"),
    [
        (b"\x15\x03\x03\x00\x02\x02", "TLS", True),
        (b"\x16\x03\x01\x00\x02\x02", "TLS", True),
        (b"HTTP", "no Kafka broker", False),
        (b"\x7f\xff\xff\xff", "receive_message_max_bytes", False),
        (b"\xff\xff\xff\xff", "negative size -1", False),
    ],
)
def test_what_is_no_frame_is_told_apart(data: bytes, words: str, is_tls: bool) -> None:
    """The commonest cause of nonsense is a port that speaks something else."""
    receiver = FrameReceiver(memoryview(bytearray(SHARED_BYTES)), LIMIT)
    with pytest.raises(FrameError, match=words) as raised:
        feed(receiver, data, [100])
    assert raised.value.looks_like_tls is is_tls
