"""Many callers, some of whom go away, while brokers fail in every way: nobody waits forever."""

import asyncio
import random

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_client.network import Client, CoordinatorType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.scripted_broker import (
    CLOSE,
    SILENCE,
    Received,
    ScriptedBroker,
    scripted_brokers,
)

CALLERS = 12
CALLS = 25
BROKERS = 3
WRONG_ANSWER = b"\0\0\0\x04\xff\xff\xff\xff"
SETTINGS = {
    "reconnect_backoff_ms": 2,
    "reconnect_backoff_max_ms": 10,
    "retry_backoff_ms": 2,
    "retry_backoff_max_ms": 10,
    "request_timeout_ms": 200,
    "max_in_flight_requests_per_connection": 3,
}


def script(brokers: list[ScriptedBroker], rng: random.Random) -> None:
    """Heartbeats echo their generation; one in thirty goes wrong."""

    def heartbeat(received: Received) -> object:
        echo = HeartbeatResponse(
            error_code=received.message.generation_id, throttle_time_ms=rng.choice([0] * 40 + [3])
        )
        return rng.choices([echo, CLOSE, SILENCE, WRONG_ANSWER], [60, 1, 0.5, 0.5])[0]

    def find(received: Received) -> FindCoordinatorResponse:
        rows = []
        for key in received.message.coordinator_keys:
            broker = brokers[len(key) % BROKERS]
            rows.append(
                Coordinator(key=key, node_id=broker.node_id, host="127.0.0.1", port=broker.port)
            )
        return FindCoordinatorResponse(coordinators=rows)

    for broker in brokers:
        broker.script[ApiKey.HEARTBEAT] = heartbeat
        broker.script[ApiKey.FIND_COORDINATOR] = find


async def call(client: Client, rng: random.Random, number: int) -> str:
    """One call; what came of it."""
    node_id = rng.randint(1, BROKERS)
    if rng.random() < 0.3:
        node_id = await client.coordinator(CoordinatorType.GROUP, "g" * (1 + number % BROKERS))
    generation = rng.randint(0, 30_000)
    request = HeartbeatRequest(group_id="g", member_id="m", generation_id=generation)
    timeout_ms = rng.choice([None, None, 20, 1000])
    task = asyncio.ensure_future(client.request(node_id, request, timeout_ms=timeout_ms))
    if rng.random() < 0.1:
        await asyncio.sleep(rng.random() * 0.002)
        task.cancel()
    try:
        answer = await asyncio.wait_for(task, 20)
    except RetriableError:
        return "failed"
    except asyncio.CancelledError:
        return "cancelled"
    assert answer.error_code == generation
    return "answered"


@pytest.mark.parametrize("seed", [1, 2])
def test_every_caller_gets_its_own_response_or_an_error(seed: int) -> None:
    """CLI-3 and CLI-5 together, with reconnects, throttling, cancellations and a restart."""
    rng = random.Random(seed)

    async def run() -> None:
        async with scripted_brokers(BROKERS) as brokers:
            script(brokers, rng)
            servers = [broker.bootstrap for broker in brokers]
            client = Client(ClientSettings.create({"bootstrap_servers": servers, **SETTINGS}))
            await client.start()

            async def caller(number: int) -> list[str]:
                outcomes = []
                for turn in range(CALLS):
                    if number == 0 and turn == CALLS // 2:
                        await brokers[0].stop()
                        await brokers[0].start()
                    outcomes.append(await call(client, rng, number))
                return outcomes

            results = await asyncio.gather(*(caller(number) for number in range(CALLERS)))
            counts = [outcomes.count("answered") for outcomes in results]
            assert sum(counts) > CALLERS * CALLS // 3
            before = asyncio.all_tasks()
            await client.close()
            assert not [
                task for task in asyncio.all_tasks() & before if task.get_name()[:4] == "conn"
            ]
            with pytest.raises(BarnabasError):
                await client.refresh()

    asyncio.run(run())
