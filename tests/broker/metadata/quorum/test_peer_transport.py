"""The quorum's questions from node to node: transport, wire and handlers together."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.handlers.dispatch import Dispatcher
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.messages import (
    DivergenceResponse,
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.peer_transport import SNAPSHOT_PIECE_BYTES, PeerTransport
from barnabas_broker.metadata.quorum.transport import QuorumTransport
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.metadata_fetch import MetadataFetchRequest, MetadataFetchResponse
from barnabas_protocol.messages.metadata_promise import MetadataPromiseRequest
from barnabas_protocol.messages.metadata_snapshot import (
    MetadataSnapshotRequest,
    MetadataSnapshotResponse,
)
from tests.support.peer_nodes import PeerNode, until
from tests.support.request_frames import RequestFrames
from tests.support.session_bench import Bench
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import run_virtual

SOURCE = Voter(1, b"s" * 16)
ASKER = Voter(2, b"a" * 16)
ASKED = QuorumFetchRequest(controller_epoch=5, voter=ASKER, end=LogEnd(4, 100))


class Quorum:
    """Answers as a test wants, and remembers what it was asked."""

    history = bytes(16)

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.response: tuple[QuorumFetchResponse | FetchRefused, bytes] = (
            FetchRefused(controller_epoch=5, source=SOURCE, leader_id=None),
            b"",
        )
        self.snapshots: dict[LogEnd, bytes] = {}
        self.promised_epoch = 5

    async def on_promise_request(self, request: PromiseRequest) -> PromiseResponse:
        self.requests.append(request)
        return PromiseResponse(
            controller_epoch=request.controller_epoch,
            promised_epoch=self.promised_epoch,
            voter=SOURCE,
            end=LogEnd(3, 77),
        )

    async def on_fetch_request(
        self, request: QuorumFetchRequest, wait_ms_max: int
    ) -> tuple[QuorumFetchResponse | FetchRefused, bytes]:
        self.requests.append((request, wait_ms_max))
        return self.response

    async def snapshot_bytes(self, snapshot: LogEnd) -> bytes | None:
        self.requests.append(snapshot)
        return self.snapshots.get(snapshot)


class Node:
    """Node 1 of the cluster, with nothing of a broker but its network and its quorum."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.tasks: set[asyncio.Task[None]] = set()
        self.quorum = Quorum()
        self.cluster_id: str | None = "ours"
        address = "127.0.0.1", bench.listener.port
        self.peers = Peers(
            bench.network,
            resolve=lambda node_id: address,
            client_id="broker-2",
        )
        self.transport = PeerTransport(self.peers, cluster_id=lambda: self.cluster_id)
        services = SimpleNamespace(
            config=SimpleNamespace(inter_broker_listener_name="PLAINTEXT"),
            logs=SimpleNamespace(cluster_id="ours", node_id=1),
            quorum=self.quorum,
            clock=SystemClock(),
            channel=None,
            spawn=self._spawn,
            apis={},
            quotas=SimpleNamespace(request=None),
            authorizer=None,
            broker_identity=BrokerIdentity("PLAINTEXT"),
        )
        bench.dispatch = Dispatcher(cast(Services, services))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def on_node(work: Callable[[Node], Awaitable[None]]) -> None:
    async def run(piece_bytes_max: int) -> None:
        async with Bench(SimulatedNetwork(piece_bytes_max)) as bench:
            node = Node(bench)
            try:
                await work(node)
            finally:
                await node.peers.close()
                await bench.until(lambda: not node.tasks)

    run_virtual(run(1 << 30))
    run_virtual(run(1_000))


def test_a_promise_travels_both_ways() -> None:
    async def work(node: Node) -> None:
        request = PromiseRequest(controller_epoch=5, leader_id=2)
        transport: QuorumTransport = node.transport
        assert await transport.request_promise(1, request, 1_000) == PromiseResponse(
            controller_epoch=5, promised_epoch=5, voter=SOURCE, end=LogEnd(3, 77)
        )
        assert node.quorum.requests == [request]

    on_node(work)


@pytest.mark.parametrize(
    ("response", "records"),
    [
        (FetchRefused(controller_epoch=9, source=SOURCE, leader_id=3), b""),
        (FetchRefused(controller_epoch=9, source=SOURCE, leader_id=None), b""),
        (FetchRefused(controller_epoch=9, source=SOURCE, leader_id=0), b""),
        (
            RecordsResponse(
                controller_epoch=5,
                source=SOURCE,
                requested=ASKED.end,
                end_offset=120,
                high_watermark=7,
            ),
            b"batches" * 1_000,
        ),
        (
            DivergenceResponse(
                controller_epoch=5, source=SOURCE, requested=ASKED.end, diverging=LogEnd(-1, 0)
            ),
            b"",
        ),
        (
            SnapshotResponse(
                controller_epoch=5, source=SOURCE, requested=ASKED.end, snapshot=LogEnd(3, 2**40)
            ),
            b"",
        ),
    ],
)
def test_every_answer_to_a_fetch_arrives_as_it_was_given(
    response: QuorumFetchResponse | FetchRefused, records: bytes
) -> None:
    async def work(node: Node) -> None:
        node.quorum.response = response, records
        got, batches = await node.transport.fetch_records(1, ASKED, 2_000)
        assert got == response
        assert bytes(batches) == records
        assert node.quorum.requests == [(ASKED, 500)]

    on_node(work)


def test_an_answer_to_another_fetch_counts_as_none() -> None:
    async def work(node: Node) -> None:
        other = LogEnd(4, 99)
        node.quorum.response = (
            RecordsResponse(
                controller_epoch=5, source=SOURCE, requested=other, end_offset=99, high_watermark=7
            ),
            b"",
        )
        with pytest.raises(PeerUnreachableError, match="another request"):
            await node.transport.fetch_records(1, ASKED, 2_000)

    on_node(work)


@pytest.mark.parametrize(
    "size", [0, 1, SNAPSHOT_PIECE_BYTES, SNAPSHOT_PIECE_BYTES + 1, 2 * SNAPSHOT_PIECE_BYTES]
)
def test_a_snapshot_arrives_in_pieces(size: int) -> None:
    async def work(bench: Bench) -> None:
        node = Node(bench)
        content = bytes(range(256)) * (size // 256) + bytes(size % 256)
        node.quorum.snapshots[LogEnd(3, 50)] = content
        assert await node.transport.fetch_snapshot(1, LogEnd(3, 50), 5_000) == content
        await node.peers.close()

    async def run() -> None:
        async with Bench() as bench:
            await work(bench)

    run_virtual(run())


def test_a_snapshot_that_is_gone_is_an_error_as_a_lost_node_is() -> None:
    async def work(node: Node) -> None:
        with pytest.raises(OSError, match="98"):
            await node.transport.fetch_snapshot(1, LogEnd(3, 50), 1_000)

    on_node(work)


def test_a_foreign_cluster_gets_no_answer() -> None:
    """Its epochs would be obeyed like our own, after an address was used again."""

    async def work(node: Node) -> None:
        for node.cluster_id in ("theirs", ""):  # a request that names no cluster is nobody's
            for asking in (
                node.transport.request_promise(
                    1, PromiseRequest(controller_epoch=9, leader_id=2), 1_000
                ),
                node.transport.fetch_records(1, ASKED, 1_000),
                node.transport.fetch_snapshot(1, LogEnd(3, 50), 1_000),
            ):
                with pytest.raises(OSError, match="104"):
                    await asking
        assert node.quorum.requests == []

    on_node(work)


def test_another_node_at_the_address_gets_no_answer() -> None:
    async def work(node: Node) -> None:
        with pytest.raises(OSError, match="42"):
            await node.transport.fetch_records(3, ASKED, 1_000)
        assert node.quorum.requests == []

    on_node(work)


def test_no_fetch_is_held_back_longer_than_agreed() -> None:
    """What a peer asks for bounds nothing here: it may be anything."""

    async def work(node: Node) -> None:
        for wait_ms, expected in ((2**31 - 1, 500), (-5, 0), (20, 20)):
            request = MetadataFetchRequest(cluster_id="ours", receiver_id=1, max_wait_ms=wait_ms)
            await node.peers.request(1, request, 0, channel="x", timeout_ms=1_000)
            assert node.quorum.requests[-1][1] == expected

    on_node(work)


@pytest.mark.parametrize(
    ("position", "max_bytes"), [(-1, 10), (11, 10), (2**62, 10), (0, 0), (0, -1)]
)
def test_a_piece_outside_of_the_snapshot_is_refused(position: int, max_bytes: int) -> None:
    async def work(node: Node) -> None:
        node.quorum.snapshots[LogEnd(3, 50)] = b"0123456789"
        request = MetadataSnapshotRequest(
            cluster_id="ours",
            receiver_id=1,
            last_epoch=3,
            end_offset=50,
            position=position,
            max_bytes=max_bytes,
        )
        response = await node.peers.request(1, request, 0, channel="x", timeout_ms=1_000)
        assert response.error_code == 99
        assert bytes(response.content) == b""

    on_node(work)


@pytest.mark.parametrize(
    "response",
    [
        MetadataSnapshotResponse(size=10, position=0, content=b""),
        MetadataSnapshotResponse(size=10, position=5, content=b"12345"),
        MetadataSnapshotResponse(size=2, position=0, content=b"123"),
        MetadataSnapshotResponse(size=2**50, position=0, content=b"123"),
    ],
)
def test_pieces_of_a_snapshot_that_do_not_fit_end_it(response: MetadataSnapshotResponse) -> None:
    """Neither an endless loop nor memory without bound."""

    async def run() -> None:
        network = SimulatedNetwork()
        node = PeerNode(network)
        await node.start()
        node.script = lambda request: response
        peers = Peers(network, resolve=lambda _: node.address, client_id="2")
        transport = PeerTransport(peers, cluster_id=lambda: "ours")
        with pytest.raises(PeerUnreachableError, match="piece"):
            await transport.fetch_snapshot(1, LogEnd(3, 50), 1_000)
        await peers.close()
        await node.stop()

    run_virtual(run())


def test_an_outcome_that_does_not_exist_is_an_error() -> None:
    async def run() -> None:
        network = SimulatedNetwork()
        node = PeerNode(network)
        await node.start()
        node.script = lambda request: MetadataFetchResponse(outcome=4)
        peers = Peers(network, resolve=lambda _: node.address, client_id="2")
        transport = PeerTransport(peers, cluster_id=lambda: "ours")
        with pytest.raises(PeerUnreachableError, match="no outcome 4"):
            await transport.fetch_records(1, ASKED, 1_000)
        await peers.close()
        await node.stop()

    run_virtual(run())


def test_hostile_frames_of_the_private_keys_end_their_connection_only() -> None:
    """Anybody who reaches the port can send them: each is response, or its connection closed."""

    async def work(bench: Bench) -> None:
        node = Node(bench)
        frames = [
            codec.encode_request(MetadataPromiseRequest(receiver_id=1), 20001, 0, 1, "x"),
            codec.encode_request(MetadataFetchRequest(receiver_id=1), 20002, 0, 1, "x"),
            codec.encode_request(MetadataSnapshotRequest(receiver_id=1), 20003, 0, 1, "x"),
        ]
        damage = RequestFrames(seed=5)
        for number in range(600):
            client = await bench.connect()
            data = damage.damaged(frames[number % 3])
            client.transport.write(data)
            (size,) = struct.unpack_from(">i", data)
            await bench.until(
                lambda client=client, size=size, data=data: (  # type: ignore[misc]
                    client.is_closed or len(client.data) > 0 or size != len(data) - 4
                )
            )
            client.transport.abort()
        client = await bench.connect()
        client.transport.write(struct.pack(">ihhih", 10, ApiKey.METADATA_FETCH, 1, 1, -1))
        await client.closed()
        promise = PromiseRequest(controller_epoch=5, leader_id=2)
        assert await node.transport.request_promise(1, promise, 1_000)
        await node.peers.close()
        await until(lambda: not node.tasks)

    async def run() -> None:
        async with Bench() as bench:
            await work(bench)

    run_virtual(run())
