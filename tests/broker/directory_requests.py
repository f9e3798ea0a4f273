"""Topics in several log directories, made and written to over the wire."""

from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import create_topics, produce
from tests.broker.broker_requests import batch, topic_id_of
from tests.support.raw_client import RawClient

PARTITION_COUNT = 4


async def produced(server: Server, partition: int) -> tuple[int, int]:
    """Error code and base offset of one more record."""
    async with await RawClient.connect(server.port) as client:
        response = await client.call(
            ApiKey.PRODUCE,
            13,
            produce.ProduceRequest(
                acks=-1,
                timeout_ms=5000,
                topic_data=[
                    produce.TopicProduceData(
                        topic_id=await topic_id_of(client, "t"),
                        partition_data=[
                            produce.PartitionProduceData(index=partition, records=batch(b"v"))
                        ],
                    )
                ],
            ),
        )
    (answer,) = response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


async def create(server: Server) -> None:
    topic = create_topics.CreatableTopic(
        name="t", num_partitions=PARTITION_COUNT, replication_factor=1
    )
    async with await RawClient.connect(server.port) as client:
        response = await client.call(
            ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(topics=[topic])
        )
    assert response.topics[0].error_code == 0
