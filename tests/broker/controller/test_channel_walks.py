"""Random walks of requests to a controller that moves, with views of it that lag behind."""

import asyncio
import random
from typing import Any

import pytest

from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.handlers.table import is_repeatable
from barnabas_broker.network.peers import Peers
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.peer_nodes import Asked, PeerNode
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import VirtualClock, run_virtual

ME = 2
REQUESTS_COUNT = 60


class Walk:
    """Nodes 0 and 1 are elsewhere, node 2 is this one; each may lead, or nobody."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.loop = asyncio.get_running_loop()
        network, clock = SimulatedNetwork(), VirtualClock(self.loop)
        self.nodes = [PeerNode(network), PeerNode(network)]
        self.leader: int | None = None
        self.seen: int | None = None  # by this node
        self.is_calm = False
        self.changed = asyncio.Event()
        self.carried_out: dict[int, int] = {}
        self.not_known_count = 0
        self.peers = Peers(network, resolve=self._resolve, client_id="x")
        self.channel = ControllerChannel(
            self.peers,
            clock,
            controller_id=lambda: self.seen,
            local=lambda: self if self.leader == ME else None,
            wait_for_change=lambda: self.changed.wait(),
            is_repeatable=is_repeatable,
        )

    def _resolve(self, node_id: int) -> tuple[str, int] | None:
        return None if node_id == ME else self.nodes[node_id].address

    def _carry_out(self, request: Any) -> Any:
        if isinstance(request, CreateTopicsRequest):
            number = request.topics[0].num_partitions
            response: Any = CreateTopicsResponse(throttle_time_ms=number)
        else:
            number = request.broker_id
            response = AllocateProducerIdsResponse(producer_id_start=number)
        self.carried_out[number] = self.carried_out.get(number, 0) + 1
        return response

    async def answer(self, request: Any) -> Any:
        """As the local controller."""
        await asyncio.sleep(self.pick.choice((0, 0.01, 1)))
        if self.leader != ME:
            if self.pick.random() < 0.5:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return _refusal(request)
        return self._carry_out(request)

    def script(self, node_id: int, asked: Asked) -> Any:
        if self.leader != node_id:
            return _refusal(asked.message)
        if self.is_calm or self.pick.random() < 0.7:
            return self._carry_out(asked.message)
        if isinstance(asked.message, CreateTopicsRequest) or self.pick.random() < 0.5:
            self._carry_out(asked.message)
            asked.connection.transport.abort()
        return None

    def move(self) -> None:
        self.leader = self.pick.choice((None, 0, 1, ME))
        self.loop.call_later(self.pick.choice((0, 0.05, 0.7)), self._see, self.leader)

    def _see(self, leader: int | None) -> None:
        self.seen = leader
        changed, self.changed = self.changed, asyncio.Event()
        if self.pick.random() < 0.9:
            changed.set()  # a change may also be missed

    async def send_once(self, number: int) -> None:
        """What is not to be repeated is carried out once, or perhaps: then nobody is told more."""
        await asyncio.sleep(self.pick.uniform(0, 20))
        # The number of partitions stands for the request's own.
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=number)])
        try:
            response = await self.channel.send(request, timeout_ms=20_000)
        except KafkaError as error:
            assert error.code is ErrorCode.REQUEST_TIMED_OUT
            assert self.carried_out.get(number, 0) <= 1
            self.not_known_count += 1
        else:
            assert response.throttle_time_ms == number
            assert self.carried_out[number] == 1

    async def send(self, number: int) -> None:
        await asyncio.sleep(self.pick.uniform(0, 20))
        request = AllocateProducerIdsRequest(broker_id=number)
        response = await self.channel.send(request, timeout_ms=60_000)
        assert response.error_code == 0
        assert response.producer_id_start == number

    async def run(self) -> None:
        for node_id, node in enumerate(self.nodes):
            await node.start()
            node.script = lambda asked, node_id=node_id: self.script(node_id, asked)
        sending = [self.loop.create_task(self.send(number)) for number in range(REQUESTS_COUNT)]
        once = range(REQUESTS_COUNT, 2 * REQUESTS_COUNT)
        sending += [self.loop.create_task(self.send_once(number)) for number in once]
        for _ in range(20):
            self.move()
            await asyncio.sleep(self.pick.choice((0.1, 1, 3)))
        self.is_calm = True
        self.leader = self.pick.choice((0, 1, ME))
        self.loop.call_later(1, self._see, self.leader)
        # A connection that hangs at the last controller is only given up with its request.
        await asyncio.gather(*sending)
        assert set(self.carried_out) >= set(range(REQUESTS_COUNT))
        assert all(self.carried_out.get(number, 0) <= 1 for number in once)
        await self.peers.close()
        for node in self.nodes:
            await node.stop()
        assert len(asyncio.all_tasks()) == 1
        assert self.not_known_count < REQUESTS_COUNT


def _refusal(request: Any) -> Any:
    if isinstance(request, CreateTopicsRequest):
        refused = CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)
        return CreateTopicsResponse(topics=[refused])
    return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize("seed", range(60))
def test_every_request_finds_the_controller_in_the_end(seed: int) -> None:
    async def work() -> None:
        await Walk(seed).run()

    run_virtual(work())
