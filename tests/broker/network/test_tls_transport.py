"""What is written to a TLS connection: order, records, pieces, turns."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.network.tls_transport import (
    PIECE_BYTES,
    RECORD_BYTES,
    TURN_BYTES,
    EncryptionTurns,
    TlsTransport,
    joined,
)

SIZES = st.one_of(
    st.integers(0, 200),
    st.integers(RECORD_BYTES - 2, RECORD_BYTES + 2),
    st.integers(0, 3 * PIECE_BYTES),
)


class Turns:
    """A loop's `call_soon`, run by hand."""

    def __init__(self) -> None:
        self.soon: list[Any] = []

    def call_soon(self, callback: Any) -> None:
        self.soon.append(callback)

    def run(self) -> None:
        """One turn."""
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


class Beneath:
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.events: list[str] = []
        self.limits: dict[str, int] = {}

    def set_write_buffer_limits(self, **limits: int) -> None:
        self.limits = limits

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.events.append("closed")

    def abort(self) -> None:
        self.events.append("aborted")


class World:
    def __init__(self) -> None:
        self.loop = Turns()
        self.turns = EncryptionTurns(self.loop)  # type: ignore[arg-type]
        self.told: list[str] = []

    def transport(self) -> tuple[TlsTransport, Beneath]:
        beneath = Beneath()
        transport = TlsTransport(
            beneath,  # type: ignore[arg-type]
            self.turns,
            lambda: self.told.append("pause"),
            lambda: self.told.append("resume"),
        )
        transport.set_write_buffer_limits(high=4 * PIECE_BYTES, low=PIECE_BYTES)
        return transport, beneath


@given(st.lists(st.binary(max_size=50), max_size=30), st.integers(1, 2000))
def test_parts_are_joined_to_records_and_nothing_is_lost(parts: list[bytes], factor: int) -> None:
    """SEC-8: small parts become one record each 16 KiB, large ones stay uncopied."""
    parts = [part * factor for part in parts]
    found = joined(parts)
    assert b"".join(found) == b"".join(parts)
    sizes = [len(part) for part in found]
    assert all(a + b > RECORD_BYTES for a, b in pairwise(sizes))
    for part in found:
        assert len(part) <= RECORD_BYTES or any(part is given for given in parts)


@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "lines", "block", "unblock", "turn"]), SIZES),
        max_size=30,
    )
)
@settings(deadline=None)
def test_bytes_leave_in_their_order_whatever_blocks(steps: list[tuple[str, int]]) -> None:
    """SEC-8: and in pieces, so that a turn encrypts a bounded amount."""
    world = World()
    transport, beneath = world.transport()
    expected = bytearray()
    for number, (step, size) in enumerate(steps):
        data = bytes([number % 251]) * size
        if step == "write":
            transport.write(data)
            expected += data
        elif step == "lines":
            parts = [data[: size // 3], data[size // 3 :]]
            transport.writelines(parts)
            expected += data
        elif step == "block":
            transport.block()
        elif step == "unblock":
            transport.unblock()
        else:
            world.loop.run()
        waiting = transport.get_write_buffer_size()
        assert sum(map(len, beneath.written)) + waiting == len(expected)
    transport.unblock()
    transport.close()
    for _ in range(100):
        world.loop.run()
    assert b"".join(beneath.written) == expected
    assert all(len(piece) <= PIECE_BYTES for piece in beneath.written)
    assert beneath.events[:1] == ["closed"]
    assert world.loop.soon == []
    assert world.told.count("pause") == world.told.count("resume")


def test_a_turn_encrypts_a_bounded_amount_of_all_connections_together() -> None:
    """SEC-8: large responses go out in pieces, one connection after the other."""
    world = World()
    both = [world.transport() for _ in range(2)]
    for transport, _ in both:
        transport.write(bytes(4 * TURN_BYTES))
    turns = 0
    while world.loop.soon:
        before = sum(len(piece) for _, beneath in both for piece in beneath.written)
        world.loop.run()
        turns += 1
        after = sum(len(piece) for _, beneath in both for piece in beneath.written)
        assert after - before <= TURN_BYTES
        sent = [sum(map(len, beneath.written)) for _, beneath in both]
        assert abs(sent[0] - sent[1]) <= PIECE_BYTES
    assert sent == [4 * TURN_BYTES] * 2
    assert turns >= 8
    # Also what is small counts: a thousand connections may answer in one turn.
    small = [world.transport() for _ in range(100)]
    for transport, _ in small:
        transport.write(bytes(PIECE_BYTES))
    assert sum(len(beneath.written) for _, beneath in small) == TURN_BYTES // PIECE_BYTES
    while world.loop.soon:
        world.loop.run()
    assert all(b"".join(beneath.written) == bytes(PIECE_BYTES) for _, beneath in small)


def test_who_writes_is_told_when_too_much_waits() -> None:
    """SEC-8, NET-6: as with a plain transport."""
    world = World()
    transport, beneath = world.transport()
    transport.block()
    transport.write(bytes(4 * PIECE_BYTES))
    assert world.told == []
    transport.write(b"x")
    assert world.told == ["pause"]
    assert transport.get_write_buffer_size() == 4 * PIECE_BYTES + 1
    transport.unblock()
    while world.loop.soon:
        world.loop.run()
    assert world.told == ["pause", "resume"]
    assert sum(map(len, beneath.written)) == 4 * PIECE_BYTES + 1


@pytest.mark.parametrize("end", ["abort", "clear"])
def test_what_is_cut_sends_nothing_more(end: str) -> None:
    """SEC-8: nor does it keep what waited."""
    world = World()
    transport, beneath = world.transport()
    transport.write(bytes(10 * PIECE_BYTES))
    getattr(transport, end)()
    while world.loop.soon:
        world.loop.run()
    assert beneath.written == []
    assert transport.get_write_buffer_size() == 0


def test_the_turns_end_when_nothing_waits() -> None:
    """A broker without TLS, or an idle one, pays nothing for them."""
    world = World()
    transport, _ = world.transport()
    transport.write(b"x")
    world.loop.run()
    assert world.loop.soon == []
