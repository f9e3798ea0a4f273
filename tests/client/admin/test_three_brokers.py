"""Three brokers of either kind: what is batched per destination goes to more than one."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigResource
from barnabas_client.admin.values.partitions import ElectionType, OffsetSpec
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import BrokerUnreachableError, NotFoundError, TimedOutError
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from tests.client.admin.raw_requests import connected, create_topics
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.barnabas_process import BarnabasProcess
from tests.support.in_process_broker import eventually
from tests.support.kafka_cluster import KafkaCluster

TOPIC = "spread"


Brokers = Mapping[int, ApacheKafka | BarnabasProcess]


@pytest.fixture(params=[pytest.param("apache", marks=pytest.mark.interop), "barnabas"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    if request.param == "apache":
        with KafkaCluster(tmp_path) as apache:
            yield apache.brokers
    else:
        with BarnabasCluster(tmp_path, node_ids=(1, 2, 3)) as barnabas:
            yield barnabas.brokers


async def leaders(admin: Admin) -> list[int | None]:
    described = (await admin.topics.describe([TOPIC]))[TOPIC].unwrap()
    return [one.leader_id for one in described.partitions.values()]


def test_calls_are_spread_over_brokers_and_survive_the_loss_of_one(
    brokers: Brokers,
) -> None:
    """Leaders, coordinators and brokers are three; then a move, an election and a lost broker."""
    partitions = [TopicPartition(TOPIC, number) for number in range(3)]

    async def run() -> None:
        async with connected(brokers[1].bootstrap, request_timeout_ms=3000) as (_, admin):

            async def are_all_there() -> bool:
                return len((await admin.cluster.describe()).brokers) == 3

            await eventually(are_all_there)
            assignment = {0: [1, 3], 1: [2, 3], 2: [3, 2]}
            await create_topics(admin, NewTopic(name=TOPIC, replica_assignment=assignment))
            assert await leaders(admin) == [1, 2, 3]
            latest = dict.fromkeys(partitions, OffsetSpec.LATEST)
            assert (await admin.partitions.list_offsets(latest)).errors == {}
            resources = [ConfigResource.broker(node_id) for node_id in (3, 1, 2)]
            described = await admin.configs.describe({one: ["node.id"] for one in resources})
            assert [one["node.id"].value for one in described.unwrap().values()] == ["3", "1", "2"]
            directories = (await admin.log_dirs.describe(partitions=partitions)).unwrap()
            assert directories.keys() == {1, 2, 3}

            groups = [f"group-{number}" for number in range(9)]
            for group in groups:
                offset = {partitions[0]: OffsetAndMetadata(0)}
                (await admin.group_offsets.alter(group, offset)).unwrap()
            listed = [one.group_id for one in await admin.groups.list()]
            assert listed == groups
            coordinators = (await admin.groups.describe(groups)).unwrap()
            assert len({one.coordinator_id for one in coordinators.values()}) > 1
            assert (await admin.group_offsets.list(groups)).errors == {}
            assert (await admin.groups.delete(groups)).errors == {}

            (await admin.partitions.reassign({partitions[0]: [2, 3]})).unwrap()

            async def has_moved() -> bool:
                if await admin.partitions.list_reassignments():
                    return False
                topic = (await admin.topics.describe([TOPIC]))[TOPIC].unwrap()
                moved = topic.partitions[0]
                return moved.replica_ids == (2, 3) and moved.leader_id in (2, 3)

            await eventually(has_moved)

            await asyncio.to_thread(brokers[3].stop)

            async def has_failed_over() -> bool:
                return await leaders(admin) == [2, 2, 2]

            await eventually(has_failed_over)
            assert (await admin.partitions.list_offsets(latest)).errors == {}
            lost = await admin.configs.describe(resources[:1], timeout_ms=4000)
            assert isinstance(
                lost[resources[0]].error, (NotFoundError, TimedOutError, BrokerUnreachableError)
            )
            elected = await admin.partitions.elect_leaders(
                ElectionType.PREFERRED, [partitions[1], partitions[2]]
            )
            codes = [error.code for error in elected.errors.values()]
            assert codes == [
                ErrorCode.ELECTION_NOT_NEEDED,
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ]
            await admin.cluster.unregister_broker(3)

    asyncio.run(run())
