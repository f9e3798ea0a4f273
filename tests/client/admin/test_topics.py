"""`admin.topics` on real brokers, and the joining of pages without one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.outcome import Outcome
from barnabas_client.admin.topics import merge_page
from barnabas_client.admin.values.topics import NewPartitions, NewTopic, TopicDescription
from barnabas_client.errors import AlreadyExistsError, NotFoundError, UsageError
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tests.client.admin.raw_requests import connected, create_topics
from tests.support.in_process_broker import eventually

Unique = Callable[[str], str]


def page(*topics: tuple[str, int, list[int]]) -> Any:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                name=name,
                error_code=code,
                partitions=[
                    DescribeTopicPartitionsResponsePartition(partition_index=one)
                    for one in partitions
                ],
            )
            for name, code, partitions in topics
        ]
    )


# Brokers of Apache Kafka hear of changes a little after the controller has answered.
async def knows(admin: Admin, *names: str) -> bool:
    return not (await admin.topics.describe(names)).errors


async def is_gone(admin: Admin, name: str) -> bool:
    return isinstance((await admin.topics.describe([name]))[name].error, NotFoundError)


async def has_partitions(admin: Admin, name: str, count: int) -> bool:
    return (await admin.topics.describe([name]))[name].unwrap().partition_count == count


def test_a_topic_that_goes_on_on_the_next_page_is_one_topic() -> None:
    """KIP-966: the broker cuts an answer within a topic when the limit is reached."""
    described: dict[str, Outcome[TopicDescription]] = {}
    merge_page(described, page(("a", 0, [0]), ("b", 0, [0, 1])), with_operations=False)
    merge_page(described, page(("b", 0, [2]), ("c", 3, [])), with_operations=False)
    assert list(described["b"].unwrap().partitions) == [0, 1, 2]
    assert list(described["a"].unwrap().partitions) == [0]
    assert isinstance(described["c"].error, NotFoundError)


def test_topics_are_created_described_listed_and_deleted(bootstrap: str, unique: Unique) -> None:
    """The whole life of topics, with what the broker made of what was left out."""
    name, other = unique("admin.topic"), unique("admin.topic")

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            created = await admin.topics.create(
                [
                    NewTopic(name=name, partition_count=3, configs={"retention.ms": "60000"}),
                    NewTopic(name=other),
                ]
            )
            assert created.errors == {}
            made = created[name].unwrap()
            assert (made.partition_count, made.replication_factor) == (3, 1)
            assert made.configs is not None
            assert made.configs["retention.ms"].value == "60000"
            assert created[other].unwrap().partition_count == 4, "num.partitions of the broker"

            await eventually(lambda: knows(admin, name, other))
            described = (await admin.topics.describe([name, other])).unwrap()
            assert described[name].topic_id == made.topic_id
            assert list(described[name].partitions) == [0, 1, 2]
            assert described[name].partitions[0].in_sync_replica_ids == (1,)
            assert described[name].authorized_operations is None

            listed = {topic.name: topic for topic in await admin.topics.list()}
            assert listed[name].topic_id == made.topic_id

            assert (await admin.topics.delete([name])).errors == {}
            await eventually(lambda: is_gone(admin, name))
            other_id = created[other].unwrap().topic_id
            assert (await admin.topics.delete_by_id([other_id])).errors == {}
            again = (await admin.topics.delete_by_id([other_id]))[other_id].error
            assert isinstance(again, NotFoundError)

    asyncio.run(run())


def test_small_pages_tell_the_same_as_one_answer_and_as_metadata(
    bootstrap: str, unique: Unique
) -> None:
    """DescribeTopicPartitions two partitions at a time, all at once, and Metadata by id."""
    names = sorted(unique("admin.paged") for _ in range(3))

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            await create_topics(admin, *(NewTopic(name=name, partition_count=5) for name in names))
            wanted = [names[2], "no-such-topic", names[0], names[1]]
            whole = await admin.topics.describe(wanted)
            paged = await admin.topics.describe(wanted, partitions_per_page=2)
            assert list(paged) == wanted
            assert paged.successes == whole.successes
            assert list(paged.errors) == ["no-such-topic"]
            by_id = await admin.topics.describe_by_id(
                one.topic_id for one in whole.successes.values()
            )
            for topic in by_id.unwrap().values():
                paged_partitions = paged[topic.name].unwrap().partitions
                assert topic.partitions.keys() == paged_partitions.keys()
                assert all(
                    one.replica_ids == paged_partitions[number].replica_ids
                    and one.leader_epoch == paged_partitions[number].leader_epoch
                    for number, one in topic.partitions.items()
                )
            with pytest.raises(UsageError, match="partitions_per_page"):
                await admin.topics.describe(wanted, partitions_per_page=0)
            await admin.topics.delete(names)

    asyncio.run(run())


def test_errors_come_per_topic_with_the_types_that_say_what_to_do(
    bootstrap: str, unique: Unique
) -> None:
    """One request, three outcomes: made, there already, not a name."""
    name, other = unique("admin.errors"), unique("admin.errors")

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            (await admin.topics.create([NewTopic(name=name)])).unwrap()
            outcomes = await admin.topics.create(
                [NewTopic(name=name), NewTopic(name=other), NewTopic(name="not a name")]
            )
            assert outcomes[other].is_ok
            assert isinstance(outcomes[name].error, AlreadyExistsError)
            assert isinstance(outcomes["not a name"].error, UsageError)
            assert "not a name" in str(outcomes["not a name"].error)
            await admin.topics.delete([name, other])

    asyncio.run(run())


def test_validate_only_changes_nothing(bootstrap: str, unique: Unique) -> None:
    """A dry run says what would be, and the cluster is as before."""
    name = unique("admin.dry")

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            dry = await admin.topics.create([NewTopic(name=name)], validate_only=True)
            assert dry[name].is_ok
            assert not (await admin.topics.describe([name]))[name].is_ok
            await create_topics(admin, NewTopic(name=name, partition_count=1))
            assert (await admin.topics.add_partitions({name: 3}, validate_only=True))[name].is_ok
            assert (await admin.topics.describe([name]))[name].unwrap().partition_count == 1
            await admin.topics.delete([name])

    asyncio.run(run())


def test_partitions_are_added_and_never_taken(bootstrap: str, unique: Unique) -> None:
    """The count is that of all partitions; fewer than there are is refused."""
    name = unique("admin.grow")

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            await create_topics(admin, NewTopic(name=name, replica_assignment={0: [1], 1: [1]}))
            more = NewPartitions(total_count=3, replica_assignments=[[1]])
            (await admin.topics.add_partitions({name: more})).unwrap()
            await eventually(lambda: has_partitions(admin, name, 3))
            described = (await admin.topics.describe([name]))[name].unwrap()
            assert described.replication_factor == 1
            outcomes = await admin.topics.add_partitions({name: 2, "no-such-topic": 2})
            fewer = outcomes[name].error
            assert fewer is not None
            assert fewer.code is ErrorCode.INVALID_PARTITIONS
            assert isinstance(outcomes["no-such-topic"].error, NotFoundError)
            await admin.topics.delete([name])

    asyncio.run(run())


def test_looking_at_a_topic_does_not_create_it(bootstrap: str, unique: Unique) -> None:
    """The broker creates topics that clients ask for (auto.create.topics.enable); not for us."""
    name = unique("admin.looked.at")

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            assert isinstance((await admin.topics.describe([name]))[name].error, NotFoundError)
            assert name not in {topic.name for topic in await admin.topics.list()}

    asyncio.run(run())
