"""DescribeProducers on a replica that does not lead."""

import asyncio
from pathlib import Path

from barnabas_client import Producer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.support.in_process_cluster import running_cluster
from tests.support.raw_client import RawClient


def test_follower_describes_the_producers_of_its_log(tmp_path: Path) -> None:
    """TXN-10: who names a broker sees what that replica has, as with Kafka."""

    async def run() -> None:
        async with running_cluster(tmp_path, 2) as servers:
            bootstrap = f"127.0.0.1:{servers[0].port}"
            async with Admin(bootstrap) as admin:
                topic = NewTopic(name="orders", partition_count=1, replication_factor=2)
                (await admin.topics.create([topic])).unwrap()
            async with Producer(bootstrap) as producer:
                await producer.send("orders", b"value")
            request = DescribeProducersRequest(
                topics=[TopicRequest(name="orders", partition_indexes=[0])]
            )
            found = []
            for server in servers:
                async with await RawClient.connect(server.port) as client:
                    response = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request)
                found += response.topics[0].partitions
            assert [one.error_code for one in found] == [ErrorCode.NONE, ErrorCode.NONE]
            first, second = (one.active_producers for one in found)
            assert len(first) == 1
            assert first == second

    asyncio.run(run())
