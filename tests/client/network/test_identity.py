"""A client stays with the cluster that it has found first."""

import asyncio

import pytest

from barnabas_client.errors import RetriableError
from tests.client.network.scripted_clients import started
from tests.support.scripted_broker import scripted_brokers


def test_a_stranger_at_a_known_address_is_not_believed() -> None:
    """Seen with kill -9 tests side by side: while a broker restarted, another cluster's broker had
    its port, made the topic and acknowledged records that its own cluster has never seen.
    """

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            assert client.cluster.cluster_id == "scripted"
            broker.cluster_id = "strange"
            with pytest.raises(RetriableError, match="belongs to cluster strange") as caught:
                await client.refresh(timeout_ms=500)
            assert "make a new client" in str(caught.value)
            assert client.cluster.cluster_id == "scripted"
            broker.cluster_id = "scripted"
            assert (await client.refresh(timeout_ms=20_000)).cluster_id == "scripted"

    asyncio.run(run())


def test_requests_in_flight_with_a_stranger_are_lost_and_repeated() -> None:
    """What the stranger would still acknowledge must not count: its connections are given up."""

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            before = len(broker.connections)
            broker.cluster_id = "strange"
            with pytest.raises(RetriableError):
                await client.refresh(timeout_ms=500)
            assert not client.is_ready(broker.node_id)
            broker.cluster_id = "scripted"
            await client.refresh(timeout_ms=20_000)
            assert len(broker.connections) > before

    asyncio.run(run())
