"""Random walks of requests to nodes that answer late, vanish, move, hang and come back."""

import asyncio
import random
from typing import Any

import pytest

from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_broker.network.reachability import Reachability
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from tests.support.peer_nodes import Asked, PeerNode
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import VirtualClock, run_virtual

NODES = (1, 2)
CHANNELS = ("a", "b")


class Walk:
    """Two nodes, many callers, and trouble; all drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.loop = asyncio.get_running_loop()
        self.network = SimulatedNetwork(self.pick.choice((1, 7, 1 << 30)))
        self.nodes = {number: PeerNode(self.network) for number in NODES}
        self.is_up = dict.fromkeys(NODES, True)
        self.answered: dict[tuple[int, str], list[int]] = {}
        self.outcomes = {"answers": 0, "failures": 0}
        self.tasks: dict[asyncio.Task[None], None] = {}
        clock = VirtualClock(self.loop)
        self.peers = Peers(self.network, resolve=self._resolve, client_id="x")
        self.reachability = Reachability(self.network, clock, resolve=self._resolve)
        self.peers.on_lost.append(self.reachability.suspect)

    def _resolve(self, node_id: int) -> tuple[str, int] | None:
        return self.nodes[node_id].address

    async def start(self, number: int) -> None:
        await self.nodes[number].start()
        self.nodes[number].script = lambda asked: self._script(asked)

    def _script(self, asked: Asked) -> Any:
        response = BrokerHeartbeatResponse(throttle_time_ms=asked.message.broker_id)
        kind = self.pick.random()
        if kind < 0.5:
            return response
        if kind < 0.53:
            asked.connection.transport.abort()
        elif kind < 0.56:
            frame = asked.encoded(response)
            asked.connection.transport.write(frame[: self.pick.randrange(len(frame))])
            asked.connection.transport.close()
        elif kind < 0.59:
            pass  # never answered: all that comes behind would be out of order, and is noticed
        else:
            return response
        return None

    def ask(self, number: int) -> None:
        task = self.loop.create_task(self._ask(number))
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done))

    async def _ask(self, number: int) -> None:
        node_id, channel = self.pick.choice(NODES), self.pick.choice(CHANNELS)
        timeout_ms = self.pick.choice((20, 200, 1_000))
        started = self.loop.time()
        request = BrokerHeartbeatRequest(broker_id=number)
        try:
            response = await self.peers.request(
                node_id, request, 1, channel=channel, timeout_ms=timeout_ms
            )
        except PeerUnreachableError as error:
            assert error.node_id == node_id
            self.outcomes["failures"] += 1
        else:
            assert response.throttle_time_ms == number
            got = self.answered.setdefault((node_id, channel), [])
            assert not got or got[-1] < number
            got.append(number)
            self.outcomes["answers"] += 1
        assert self.loop.time() - started <= timeout_ms / 1000 + 1e-6

    async def trouble(self) -> None:
        number = self.pick.choice(NODES)
        node = self.nodes[number]
        match self.pick.randrange(6):
            case 0:
                node.drop_connections()
            case 1 if self.is_up[number]:
                node.stop_listening()
                node.drop_connections()
                self.is_up[number] = False
            case 2 if not self.is_up[number]:
                await self.start(number)
                self.is_up[number] = True
            case 3 if self.is_up[number]:
                node.stop_listening()
                node.port = 0
                await self.start(number)
            case 4:
                self.peers.disconnect(number)
            case 5 if self.tasks:
                self.pick.choice(list(self.tasks)).cancel()

    async def run(self) -> None:
        for number in NODES:
            await self.start(number)
        for number in range(300):
            self.ask(number)
            if self.pick.random() < 0.1:
                await self.trouble()
            if self.pick.random() < 0.6:
                await asyncio.sleep(self.pick.choice((0, 0.001, 0.03)))
        for number in NODES:
            if not self.is_up[number]:
                await self.start(number)
        while self.tasks:
            results = await asyncio.gather(*self.tasks, return_exceptions=True)
            for result in results:
                assert result is None or isinstance(result, asyncio.CancelledError), result
        await asyncio.sleep(2)
        for number in NODES:
            assert not self.reachability.is_suspected(number)
            assert self.reachability.refused_since_ms(number) is None
        await self.reachability.close()
        await self.peers.close()
        for node in self.nodes.values():
            await node.stop()
        await asyncio.sleep(0.1)
        assert len(asyncio.all_tasks()) == 1
        assert not self.network.transports


@pytest.mark.parametrize("seed", range(60))
def test_every_request_ends_in_time_with_its_own_response_or_an_error(seed: int) -> None:
    async def work() -> None:
        walk = Walk(seed)
        await walk.run()
        assert walk.outcomes["answers"] > 20
        assert walk.outcomes["failures"] > 0

    run_virtual(work())
