"""Requests to other nodes, on a simulated network and on real sockets with both loops."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from barnabas_broker.env.clock import Clock, SystemClock
from barnabas_broker.env.network import Network, RealNetwork
from barnabas_broker.network.peer_connection import IN_FLIGHT_MAX
from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.support.peer_nodes import Asked, PeerNode, until
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import VirtualClock, run_virtual


class Bench:
    """One node that asks, and node 1 that is asked."""

    def __init__(self, network: Network, clock: Clock, **options: Any) -> None:
        self.network = network
        self.node = PeerNode(network)
        self.nodes = {1: self.node}
        self.addresses: dict[int, tuple[str, int]] = {}
        self.lost: list[int] = []
        self.peers = Peers(network, resolve=self.addresses.get, client_id="broker-7", **options)
        self.peers.on_lost.append(self.lost.append)

    async def ask(
        self, number: int = 0, *, node_id: int = 1, channel: str = "a", timeout_ms: int = 20_000
    ) -> Any:
        request = BrokerHeartbeatRequest(broker_id=number)
        return await self.peers.request(node_id, request, 1, channel=channel, timeout_ms=timeout_ms)

    async def __aenter__(self) -> "Bench":
        await self.node.start()
        self.addresses[1] = self.node.address
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.peers.close()
        for node in self.nodes.values():
            await node.stop()
        mine = asyncio.current_task()
        assert [task for task in asyncio.all_tasks() if task is not mine] == []


Work = Callable[[Bench], Awaitable[None]]


def on_every_network(work: Work, **options: Any) -> None:
    """In memory, in small pieces, and on sockets with both loops."""

    async def simulated(piece_bytes_max: int) -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        async with Bench(SimulatedNetwork(piece_bytes_max), clock, **options) as bench:
            await work(bench)

    async def real() -> None:
        async with Bench(RealNetwork(), SystemClock(), **options) as bench:
            await work(bench)

    run_virtual(simulated(1 << 30))
    run_virtual(simulated(5))
    asyncio.run(real())
    uvloop.run(real())


def answer(asked: Asked) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(throttle_time_ms=asked.message.broker_id)


def test_a_connection_is_made_by_the_first_request_and_kept() -> None:
    async def work(bench: Bench) -> None:
        bench.node.script = answer
        assert bench.node.connections == []
        for number in range(5):
            assert (await bench.ask(number)).throttle_time_ms == number
        assert len(bench.node.connections) == 1
        assert {asked.header.client_id for asked in bench.node.asked} == {"broker-7"}
        assert bench.lost == []

    on_every_network(work)


def test_requests_of_a_channel_are_pipelined_in_order() -> None:
    """Also those that come while the connection is being made."""

    async def work(bench: Bench) -> None:
        early = [asyncio.create_task(bench.ask(number)) for number in range(3)]
        await until(lambda: len(bench.node.asked) == 3)
        late = [asyncio.create_task(bench.ask(number)) for number in range(3, 6)]
        await until(lambda: len(bench.node.asked) == 6)
        assert [asked.message.broker_id for asked in bench.node.asked] == list(range(6))
        for asked in bench.node.asked:
            asked.answer(answer(asked))
        answers = [(await task).throttle_time_ms for task in (*early, *late)]
        assert answers == list(range(6))
        assert len(bench.node.connections) == 1

    on_every_network(work)


def test_channels_do_not_wait_for_one_another() -> None:
    async def work(bench: Bench) -> None:
        parked = asyncio.create_task(bench.ask(1, channel="slow"))
        await until(lambda: len(bench.node.asked) == 1)
        bench.node.script = answer
        assert (await bench.ask(2, channel="quick")).throttle_time_ms == 2
        bench.node.asked[0].answer(answer(bench.node.asked[0]))
        assert (await parked).throttle_time_ms == 1
        assert len(bench.node.connections) == 2

    on_every_network(work)


def test_a_refused_connection_is_told_from_others() -> None:
    async def work(bench: Bench) -> None:
        bench.node.stop_listening()
        with pytest.raises(PeerUnreachableError) as refused:
            await bench.ask()
        assert refused.value.was_refused
        assert refused.value.node_id == 1
        assert bench.lost == [1]
        await bench.node.start()
        bench.node.script = answer
        assert (await bench.ask(3)).throttle_time_ms == 3

    on_every_network(work)


def test_an_unknown_node_is_unreachable() -> None:
    async def work(bench: Bench) -> None:
        with pytest.raises(PeerUnreachableError, match="not known") as unknown:
            await bench.ask(node_id=2)
        assert not unknown.value.was_refused
        assert bench.lost == []

    on_every_network(work)


def test_a_lost_connection_fails_all_that_wait_and_is_made_again() -> None:
    async def work(bench: Bench) -> None:
        waiting = [asyncio.create_task(bench.ask(number)) for number in range(3)]
        await until(lambda: len(bench.node.asked) == 3)
        bench.node.drop_connections()
        for task in waiting:
            with pytest.raises(PeerUnreachableError) as lost:
                await task
            assert not lost.value.was_refused
        assert bench.lost == [1]
        bench.node.script = answer
        assert (await bench.ask(9)).throttle_time_ms == 9
        assert len(bench.node.connections) == 2

    on_every_network(work)


@pytest.mark.parametrize("sent_count", [1, 4, 6, 12])
def test_a_connection_lost_in_the_middle_of_a_response_fails_the_request(sent_count: int) -> None:
    async def work(bench: Bench) -> None:
        waiting = asyncio.create_task(bench.ask())
        await until(lambda: len(bench.node.asked) == 1)
        asked = bench.node.asked[0]
        frame = asked.encoded(answer(asked))
        asked.connection.transport.write((struct.pack(">i", len(frame)) + frame)[:sent_count])
        asked.connection.transport.close()
        with pytest.raises(PeerUnreachableError):
            await waiting
        bench.node.script = answer
        assert (await bench.ask(9)).throttle_time_ms == 9

    on_every_network(work)


def test_a_peer_that_never_responds_costs_the_timeout_and_the_connection() -> None:
    """And those that wait behind it: an answer cannot overtake."""

    async def work(bench: Bench) -> None:
        patient = asyncio.create_task(bench.ask(1))
        hasty = asyncio.create_task(bench.ask(2, timeout_ms=50))
        with pytest.raises(PeerUnreachableError, match="within 50 ms") as late:
            await hasty
        assert not late.value.was_refused
        with pytest.raises(PeerUnreachableError):
            await patient
        await until(lambda: bench.node.connections[0].is_lost)
        assert bench.lost == [1]
        bench.node.script = answer
        assert (await bench.ask(9)).throttle_time_ms == 9

    on_every_network(work)


def test_a_connection_that_is_never_made_costs_the_timeout() -> None:
    class Silence(SimulatedNetwork):
        async def connect(self, *arguments: Any, **options: Any) -> Any:
            await asyncio.Event().wait()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with Bench(Silence(), VirtualClock(loop)) as bench:
            with pytest.raises(PeerUnreachableError, match="no connection to BROKER_HEARTBEAT"):
                await bench.ask(timeout_ms=500)
            assert loop.time() == pytest.approx(0.5)
            assert bench.lost == [1]
            pending = asyncio.create_task(bench.ask())
            await asyncio.sleep(1)
            await bench.peers.close()
            with pytest.raises(PeerUnreachableError):
                await pending

    run_virtual(work())


def test_a_changed_address_is_followed_by_the_next_request() -> None:
    async def work(bench: Bench) -> None:
        bench.node.script = answer
        await bench.ask()
        moved = bench.nodes[2] = PeerNode(bench.network)
        await moved.start()
        moved.script = answer
        bench.addresses[1] = moved.address
        assert (await bench.ask(4)).throttle_time_ms == 4
        assert len(moved.asked) == 1
        await until(lambda: bench.node.connections[0].is_lost)
        assert bench.lost == []

    on_every_network(work)


def test_disconnect_ends_the_connections_of_one_node() -> None:
    async def work(bench: Bench) -> None:
        waiting = [asyncio.create_task(bench.ask(channel=channel)) for channel in "ab"]
        await until(lambda: len(bench.node.asked) == 2)
        bench.peers.disconnect(3)
        bench.peers.disconnect(1)
        for task in waiting:
            with pytest.raises(PeerUnreachableError):
                await task
        assert bench.lost == []
        bench.node.script = answer
        await bench.ask()

    on_every_network(work)


def test_a_connection_that_is_closed_before_its_first_step_leaves_nothing_behind() -> None:
    """Found by walks: closing waited for ever for an attempt that had never begun."""

    async def work(bench: Bench) -> None:
        waiting = asyncio.create_task(bench.ask())
        await asyncio.sleep(0)
        bench.peers.disconnect(1)
        with pytest.raises(PeerUnreachableError):
            await waiting
        await bench.peers.close()

    on_every_network(work)


def test_after_close_nothing_is_asked_any_more() -> None:
    async def work(bench: Bench) -> None:
        waiting = asyncio.create_task(bench.ask())
        await until(lambda: len(bench.node.asked) == 1)
        await bench.peers.close()
        with pytest.raises(PeerUnreachableError):
            await waiting
        with pytest.raises(PeerUnreachableError, match="stops"):
            await bench.ask()
        await bench.peers.close()

    on_every_network(work)


def test_the_response_to_a_caller_that_has_gone_is_passed_over() -> None:
    async def work(bench: Bench) -> None:
        first = asyncio.create_task(bench.ask(1))
        second = asyncio.create_task(bench.ask(2))
        await until(lambda: len(bench.node.asked) == 2)
        first.cancel()
        for asked in bench.node.asked:
            asked.answer(answer(asked))
        assert (await second).throttle_time_ms == 2
        with pytest.raises(asyncio.CancelledError):
            await first

    on_every_network(work)


def test_a_request_of_a_caller_that_has_gone_still_has_its_deadline() -> None:
    """Otherwise all that comes later on the channel would wait behind it for ever."""

    async def work(bench: Bench) -> None:
        gone = asyncio.create_task(bench.ask(1, timeout_ms=50))
        await until(lambda: len(bench.node.asked) == 1)
        gone.cancel()
        await until(lambda: bench.lost == [1])

    on_every_network(work)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">iib", 5, 99, 0),  # another correlation id
        struct.pack(">i", -1),  # a negative size
        struct.pack(">i", 2**31 - 1),  # an enormous one
        struct.pack(">i", 2) + b"\0\0",  # shorter than a header
        struct.pack(">iib", 5, 1, 0),  # no body
        struct.pack(">iib", 14, 1, 0) + b"\xff" * 9,  # a body of something else
    ],
)
def test_a_response_that_cannot_be_read_ends_the_connection(data: bytes) -> None:
    async def work(bench: Bench) -> None:
        waiting = asyncio.create_task(bench.ask())
        await until(lambda: len(bench.node.asked) == 1)
        bench.node.asked[0].connection.transport.write(data)
        with pytest.raises(PeerUnreachableError, match="cannot be read"):
            await waiting
        await until(lambda: bench.node.connections[0].is_lost)

    on_every_network(work)


def test_a_response_without_a_request_ends_the_connection() -> None:
    async def work(bench: Bench) -> None:
        bench.node.script = answer
        await bench.ask()
        asked = bench.node.asked[0]
        asked.answer(answer(asked))
        await until(lambda: bench.node.connections[0].is_lost)
        await bench.ask()
        assert len(bench.node.connections) == 2

    on_every_network(work)


def test_not_more_than_some_requests_wait() -> None:
    async def work(bench: Bench) -> None:
        tasks = [asyncio.create_task(bench.ask(number)) for number in range(IN_FLIGHT_MAX)]
        await until(lambda: len(bench.node.asked) == IN_FLIGHT_MAX)
        with pytest.raises(PeerUnreachableError, match="too many"):
            await bench.ask()
        for asked in bench.node.asked:
            asked.answer(answer(asked))
        assert len(await asyncio.gather(*tasks)) == IN_FLIGHT_MAX

    on_every_network(work)


def test_records_of_a_fetch_stay_in_the_frame() -> None:
    """A follower appends the bytes that the socket filled, without a copy."""

    async def work(bench: Bench) -> None:
        batch = bytes(range(256)) * 2_000
        partition = PartitionData(partition_index=0, records=batch)
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
        bench.node.script = lambda asked: response
        got = await bench.peers.request(1, FetchRequest(), 17, channel="f", timeout_ms=20_000)
        records = got.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert records == batch
        bench.node.script = None
        waiting = asyncio.create_task(bench.ask(channel="f"))
        await until(lambda: len(bench.node.asked) == 2)
        bench.node.asked[1].answer(answer(bench.node.asked[1]))
        await waiting
        assert records == batch

    on_every_network(work)
