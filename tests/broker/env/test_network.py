"""The contract of networks, on sockets (asyncio's loop and uvloop) and on the simulated one."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import pytest
import uvloop

from barnabas_broker.env.network import Network, RealNetwork
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import VirtualLoop

WAIT_SECONDS = 10


class Peer(asyncio.Protocol):
    """Remembers what happened to it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_paused = False
        self.changed = asyncio.Event()
        self.lost = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's
        self.changed.set()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.changed.set()

    def pause_writing(self) -> None:
        self.is_paused = True
        self.changed.set()

    def resume_writing(self) -> None:
        self.is_paused = False
        self.changed.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not holds():
                await self.changed.wait()
                self.changed.clear()


class Buffered(asyncio.BufferedProtocol):
    """Receives into memory of three bytes."""

    def __init__(self) -> None:
        self.memory = bytearray(3)
        self.data = bytearray()
        self.complete = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.memory

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.memory[:nbytes]
        if self.data == b"0123456789":
            self.complete.set_result(None)


async def connected(network: Network) -> tuple[Peer, Peer, Callable[[], None]]:
    """Both sides of a connection, and what closes the listener."""
    accepted: list[Peer] = []

    def accept() -> Peer:
        accepted.append(Peer())
        return accepted[-1]

    listener = await network.listen(accept, "127.0.0.1", 0)
    assert listener.port > 0
    transport, near = await network.connect(Peer, "127.0.0.1", listener.port)
    async with asyncio.timeout(WAIT_SECONDS):
        while not accepted or accepted[0].transport is None:
            await asyncio.sleep(0)
    far = accepted[0]
    assert far.transport is not None
    assert far.transport.get_extra_info("peername")[0] == "127.0.0.1"
    assert transport is near.transport
    return near, far, listener.close


async def bytes_arrive_in_order_in_both_directions(network: Network) -> None:
    near, far, close = await connected(network)
    assert near.transport is not None
    assert far.transport is not None
    near.transport.write(b"abc")
    near.transport.writelines([b"d", bytearray(b"ef"), memoryview(b"g")])
    await far.until(lambda: far.data == b"abcdefg")
    far.transport.write(b"answer")
    await near.until(lambda: near.data == b"answer")
    near.transport.close()
    assert await asyncio.wait_for(far.lost, WAIT_SECONDS) is None
    assert await asyncio.wait_for(near.lost, WAIT_SECONDS) is None
    close()


async def what_was_written_before_closing_arrives(network: Network) -> None:
    near, far, close = await connected(network)
    assert near.transport is not None
    near.transport.write(b"x" * 100_000)
    near.transport.close()
    await asyncio.wait_for(far.lost, WAIT_SECONDS)
    assert len(far.data) == 100_000
    close()


async def a_reader_that_pauses_pauses_the_writer(network: Network) -> None:
    near, far, close = await connected(network)
    assert near.transport is not None
    assert far.transport is not None
    near.transport.set_write_buffer_limits(high=10_000, low=1_000)
    far.transport.pause_reading()
    size = 0
    async with asyncio.timeout(WAIT_SECONDS):
        while not near.is_paused:
            near.transport.write(b"y" * 50_000)
            size += 50_000
            await asyncio.sleep(0)
    far.transport.resume_reading()
    await near.until(lambda: not near.is_paused)
    await far.until(lambda: len(far.data) == size)
    near.transport.abort()
    await asyncio.wait_for(far.lost, WAIT_SECONDS)
    await asyncio.wait_for(near.lost, WAIT_SECONDS)
    close()


async def buffered_protocols_receive_into_their_memory(network: Network) -> None:
    accepted: list[Buffered] = []

    def accept() -> Buffered:
        accepted.append(Buffered())
        return accepted[-1]

    listener = await network.listen(accept, "127.0.0.1", 0)
    transport, peer = await network.connect(Peer, "127.0.0.1", listener.port)
    transport.write(b"0123456789")
    async with asyncio.timeout(WAIT_SECONDS):
        while not accepted:
            await asyncio.sleep(0)
        await accepted[0].complete
    transport.close()
    await asyncio.wait_for(peer.lost, WAIT_SECONDS)
    listener.close()
    await asyncio.sleep(0)


async def a_closed_listener_refuses_and_leaves_connections(network: Network) -> None:
    accepted: list[Peer] = []

    def accept() -> Peer:
        accepted.append(Peer())
        return accepted[-1]

    listener = await network.listen(accept, "127.0.0.1", 0)
    with pytest.raises(OSError, match=r".+"):
        await network.listen(accept, "127.0.0.1", listener.port)
    transport, near = await network.connect(Peer, "127.0.0.1", listener.port)
    transport.write(b"a")
    async with asyncio.timeout(WAIT_SECONDS):
        while not (accepted and accepted[0].data):
            await asyncio.sleep(0)
    listener.close()
    await listener.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await network.connect(Peer, "127.0.0.1", listener.port)
    transport.write(b"b")
    await accepted[0].until(lambda: accepted[0].data == b"ab")
    transport.abort()
    await asyncio.wait_for(near.lost, WAIT_SECONDS)
    await asyncio.wait_for(accepted[0].lost, WAIT_SECONDS)


CLAIMS = [
    bytes_arrive_in_order_in_both_directions,
    what_was_written_before_closing_arrives,
    a_reader_that_pauses_pauses_the_writer,
    buffered_protocols_receive_into_their_memory,
    a_closed_listener_refuses_and_leaves_connections,
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
@pytest.mark.parametrize("kind", ["asyncio", "uvloop", "simulated", "simulated-in-small-pieces"])
def test_networks_keep_their_contract(kind: str, claim: Callable[[Network], object]) -> None:
    """style.md section 4: fakes pass the same tests as the real thing."""
    loops = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}
    network: Network = RealNetwork()
    if kind.startswith("simulated"):
        network = SimulatedNetwork(7 if kind.endswith("pieces") else 1 << 30)
    with asyncio.Runner(loop_factory=loops.get(kind, VirtualLoop)) as runner:
        runner.run(claim(network))  # type: ignore[arg-type]


def test_a_cut_link_delivers_when_it_heals() -> None:
    """A partition of the network is silence, not a reset."""

    async def work() -> None:
        network = SimulatedNetwork()
        near, far, close = await connected(network)
        assert near.transport is not None
        network.cut("127.0.0.1", "127.0.0.1")
        near.transport.write(b"late")
        await asyncio.sleep(60)
        assert not far.data
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Peer, "127.0.0.1", 20_001)
        network.heal()
        await far.until(lambda: far.data == b"late")
        near.transport.close()
        await far.lost
        close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_name_with_two_addresses_refuses_if_both_do(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """One error comes of both, without a number; fencing on refusal needs to know."""

    async def work() -> None:
        network = RealNetwork()
        listener = await network.listen(Peer, "127.0.0.1", 0)
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Peer, "localhost", listener.port)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work())


def test_the_canonical_name_is_what_the_address_of_the_host_name_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """REG-2: as Java's getCanonicalHostName, which also fails for an unknown host."""
    monkeypatch.setattr("socket.gethostname", lambda: "127.0.0.1")
    name = asyncio.run(RealNetwork().canonical_host_name())
    assert name == socket.getnameinfo(("127.0.0.1", 0), 0)[0]
    monkeypatch.setattr("socket.gethostname", lambda: "no-such-host.invalid")
    with pytest.raises(OSError, match=r"no-such-host\.invalid: "):
        asyncio.run(RealNetwork().canonical_host_name())
