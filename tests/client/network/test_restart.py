"""A broker that is killed and started again: the client finds back by itself."""

import asyncio
from pathlib import Path

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.errors import RetriableError
from barnabas_client.network import Client, CoordinatorType
from barnabas_protocol.messages.metadata import MetadataRequest
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_brokers import PROPERTIES

TIMEOUT_MS = 60_000


@pytest.mark.parametrize("kind", ["barnabas", pytest.param("apache", marks=pytest.mark.interop)])
def test_the_client_outlives_its_broker(kind: str, tmp_path: Path) -> None:
    """CLI-5 and CLI-6: what is in flight fails as disconnected, then the client reconnects."""
    broker: BarnabasProcess | ApacheKafka
    if kind == "apache":
        broker = ApacheKafka(tmp_path, properties=PROPERTIES, heap="512M")
    else:
        broker = BarnabasProcess(tmp_path, properties=PROPERTIES)

    async def run() -> None:
        client = Client(ClientSettings.create({"bootstrap_servers": broker.bootstrap}))
        await client.start()
        try:
            topic = await client.wait_for_topic("stays", timeout_ms=TIMEOUT_MS)
            await client.coordinator(CoordinatorType.GROUP, "g", timeout_ms=TIMEOUT_MS)
            (node_id,) = client.cluster.nodes
            broker.kill()
            with pytest.raises(RetriableError):
                await client.request(node_id, MetadataRequest(topics=[]), timeout_ms=300)
            assert not client.is_ready(node_id)
            await asyncio.to_thread(broker.start)
            again = await client.request_any(MetadataRequest(topics=[]), timeout_ms=TIMEOUT_MS)
            assert again.cluster_id == client.cluster.cluster_id
            await client.coordinator(CoordinatorType.GROUP, "g", timeout_ms=TIMEOUT_MS)
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                while client.cluster.partition_count("stays") is None:
                    await client.refresh()
            assert client.cluster.topics["stays"].topic_id == topic.topic_id
        finally:
            await client.close()

    with broker:
        asyncio.run(run())
