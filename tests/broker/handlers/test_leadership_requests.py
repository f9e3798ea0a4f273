"""Elections, reassignments and ISR changes on the wire, each version, at a broker that is alone."""

from pathlib import Path

import pytest

from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    alter_partition,
    alter_partition_reassignments,
    create_topics,
    elect_leaders,
    list_partition_reassignments,
)
from tests.broker.broker_requests import with_broker
from tests.support.raw_client import RawClient

NOT_NEEDED = "Leader election not needed for topic partition."


async def make_topic(client: RawClient, partition_count: int = 2) -> bytes:
    response = await client.call(
        ApiKey.CREATE_TOPICS,
        7,
        create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name="moved", num_partitions=partition_count, replication_factor=1
                )
            ]
        ),
    )
    assert response.topics[0].error_code == 0
    topic_id = response.topics[0].topic_id
    assert isinstance(topic_id, bytes)
    return topic_id


@pytest.mark.parametrize("version", [0, 1, 2])
def test_elections_are_answered_partition_by_partition(tmp_path: Path, version: int) -> None:
    """LEAD-4, KIP-460: version 0 knows preferred elections only."""

    async def test(_: Server, client: RawClient) -> None:
        await make_topic(client)
        response = await client.call(
            ApiKey.ELECT_LEADERS,
            version,
            elect_leaders.ElectLeadersRequest(
                election_type=1 if version else 0,
                topic_partitions=[
                    elect_leaders.TopicPartitions(topic="moved", partitions=[0, 5]),
                    elect_leaders.TopicPartitions(topic="unknown", partitions=[0]),
                ],
            ),
        )
        assert response.error_code == 0
        moved, unknown = response.replica_election_results
        assert [
            (result.partition_id, result.error_code, result.error_message)
            for result in (*moved.partition_result, *unknown.partition_result)
        ] == [
            (0, ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED),
            (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as moved-5"),
            (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as unknown"),
        ]
        everything = await client.call(
            ApiKey.ELECT_LEADERS,
            version,
            elect_leaders.ElectLeadersRequest(topic_partitions=None),
        )
        assert (everything.error_code, everything.replica_election_results) == (0, [])

    with_broker(tmp_path, test)


def test_an_unknown_kind_of_election_fails_as_a_whole(tmp_path: Path) -> None:
    """KIP-460: and for each partition, as clients of version 0 look there."""

    async def test(_: Server, client: RawClient) -> None:
        response = await client.call(
            ApiKey.ELECT_LEADERS,
            2,
            elect_leaders.ElectLeadersRequest(
                election_type=9,
                topic_partitions=[elect_leaders.TopicPartitions(topic="moved", partitions=[0])],
            ),
        )
        assert response.error_code == ErrorCode.INVALID_REQUEST
        (result,) = response.replica_election_results[0].partition_result
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert result.error_message == "Unknown election type 9"

    with_broker(tmp_path, test)


@pytest.mark.parametrize("version", [0, 1])
def test_reassignments_are_answered_partition_by_partition(tmp_path: Path, version: int) -> None:
    """LEAD-10, KIP-860: with Kafka's words."""

    async def test(_: Server, client: RawClient) -> None:
        await make_topic(client)
        asked = [(0, [0]), (1, [0, 7]), (0, None), (4, [0])]
        response = await client.call(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            version,
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                allow_replication_factor_change=True,
                topics=[
                    alter_partition_reassignments.ReassignableTopic(
                        name="moved",
                        partitions=[
                            alter_partition_reassignments.ReassignablePartition(
                                partition_index=index, replicas=replicas
                            )
                            for index, replicas in asked
                        ],
                    )
                ],
            ),
        )
        assert (response.error_code, response.error_message) == (0, None)
        assert response.allow_replication_factor_change
        (topic,) = response.responses
        assert [
            (result.partition_index, result.error_code, result.error_message)
            for result in topic.partitions
        ] == [
            (0, ErrorCode.NONE, None),
            (
                1,
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes broker 7, but no such broker is "
                "registered.",
            ),
            (
                0,
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                "No partition reassignment is in progress.",
            ),
            (4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition moved:4."),
        ]

    with_broker(tmp_path, test)


@pytest.mark.parametrize("names", [None, ["moved", "unknown"]])
def test_nothing_is_on_the_move_in_a_cluster_of_one(
    tmp_path: Path, names: list[str] | None
) -> None:
    """LEAD-10."""

    async def test(_: Server, client: RawClient) -> None:
        await make_topic(client)
        topics = None
        if names is not None:
            topics = [
                list_partition_reassignments.ListPartitionReassignmentsTopics(
                    name=name, partition_indexes=[0, 1]
                )
                for name in names
            ]
        response = await client.call(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            0,
            list_partition_reassignments.ListPartitionReassignmentsRequest(topics=topics),
        )
        assert (response.error_code, response.error_message, response.topics) == (0, None, [])

    with_broker(tmp_path, test)


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_hears_the_state_of_its_partition(tmp_path: Path, version: int) -> None:
    """KIP-497, REG-4: and one with an old broker epoch is refused as a whole."""

    async def test(server: Server, client: RawClient) -> None:
        topic_id = await make_topic(client)
        image = server.image
        partition = image.topics.by_id[topic_id].partitions[1]
        epoch = image.brokers[0].epoch
        request = alter_partition.AlterPartitionRequest(
            broker_id=0,
            broker_epoch=epoch,
            topics=[
                alter_partition.AlterPartitionRequestTopicData(
                    topic_id=topic_id,
                    partitions=[
                        alter_partition.AlterPartitionRequestPartitionData(
                            partition_index=1,
                            leader_epoch=partition.leader_epoch,
                            partition_epoch=partition.partition_epoch,
                            new_isr=[0],
                            new_isr_with_epochs=[
                                alter_partition.BrokerState(broker_id=0, broker_epoch=epoch)
                            ],
                        )
                    ],
                )
            ],
        )
        async with await RawClient.connect(server.replication_port) as broker:
            response = await broker.call(ApiKey.ALTER_PARTITION, version, request)
        assert response.error_code == 0
        (answer,) = response.topics[0].partitions
        assert (answer.error_code, answer.leader_id, answer.isr) == (0, 0, [0])
        assert answer.partition_epoch == partition.partition_epoch
        request.broker_epoch = epoch - 1
        async with await RawClient.connect(server.replication_port) as broker:
            response = await broker.call(ApiKey.ALTER_PARTITION, version, request)
        assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])

    with_broker(tmp_path, test)
