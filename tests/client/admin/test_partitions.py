"""`admin.partitions` on real brokers: offsets by every spec, deleted records, elections, moves."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_client.admin.values.partitions import ElectionType, OffsetSpec, PartitionOffset
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import NotFoundError, OffsetOutOfRangeError
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from tests.client.admin.raw_requests import connected, create_topics, produce

Unique = Callable[[str], str]


def test_offsets_are_told_by_spec_and_by_timestamp(bootstrap: str, unique: Unique) -> None:
    """Latest, earliest, largest timestamp, first record at or after a time, and beyond the end."""
    partition = TopicPartition(unique("admin.offsets"), 0)

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            topic = NewTopic(name=partition.topic, partition_count=1)
            await create_topics(admin, topic)
            await produce(client, partition, [1000, 3000, 2000])

            async def listed(spec: OffsetSpec | int, **options: bool) -> PartitionOffset:
                outcomes = await admin.partitions.list_offsets({partition: spec}, **options)
                return outcomes[partition].unwrap()

            assert (await listed(OffsetSpec.EARLIEST)).offset == 0
            assert (await listed(OffsetSpec.LATEST)).offset == 3
            assert (await listed(OffsetSpec.LATEST, read_committed=True)).offset == 3
            largest = await listed(OffsetSpec.MAX_TIMESTAMP)
            assert (largest.offset, largest.timestamp_ms) == (1, 3000)
            later = await listed(1500)
            assert (later.offset, later.timestamp_ms) == (1, 3000)
            nothing = await listed(4000)
            assert (nothing.offset, nothing.timestamp_ms) == (None, None)
            assert (await listed(OffsetSpec.EARLIEST_LOCAL)).offset == 0
            await admin.topics.delete([partition.topic])

    asyncio.run(run())


def test_partitions_that_are_not_there_fail_alone(bootstrap: str, unique: Unique) -> None:
    """A topic without that partition and no topic at all, beside one that answers."""
    name = unique("admin.offsets")

    async def run() -> None:
        async with connected(bootstrap) as (_, admin):
            await create_topics(admin, NewTopic(name=name, partition_count=2))
            good, beyond = TopicPartition(name, 1), TopicPartition(name, 2)
            missing = TopicPartition("no-such-topic", 0)
            wanted = dict.fromkeys((beyond, missing, good), OffsetSpec.LATEST)
            outcomes = await admin.partitions.list_offsets(wanted)
            assert list(outcomes) == [beyond, missing, good]
            assert outcomes[good].unwrap().offset == 0
            assert isinstance(outcomes[beyond].error, NotFoundError)
            assert isinstance(outcomes[missing].error, NotFoundError)
            await admin.topics.delete([name])

    asyncio.run(run())


def test_a_leader_epoch_ends_at_the_end_of_the_log_while_it_lasts(
    bootstrap: str, unique: Unique
) -> None:
    """Of an epoch that no leader has had yet nothing is known; a missing partition fails alone."""
    partition, missing = TopicPartition(unique("admin.epochs"), 0), TopicPartition("no-such", 0)

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            await create_topics(admin, NewTopic(name=partition.topic, partition_count=1))
            await produce(client, partition, [1, 2, 3])
            listed = await admin.partitions.list_offsets({partition: OffsetSpec.LATEST})
            epoch = listed[partition].unwrap().leader_epoch
            assert epoch is not None
            found = await admin.partitions.epoch_ends({partition: epoch, missing: 0})
            assert found[partition].unwrap() == 3
            assert isinstance(found[missing].error, NotFoundError)
            later = await admin.partitions.epoch_ends({partition: epoch + 1})
            assert later[partition].unwrap() is None
            await admin.topics.delete([partition.topic])

    asyncio.run(run())


def test_records_are_deleted_up_to_an_offset_or_all(bootstrap: str, unique: Unique) -> None:
    """The value is the new log start offset; beyond the end is refused."""
    name = unique("admin.delete.records")
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            await create_topics(admin, NewTopic(name=name, partition_count=2))
            for partition in (first, second):
                await produce(client, partition, [1, 2, 3])
            deleted = await admin.partitions.delete_records({first: 2, second: -1})
            assert deleted.unwrap() == {first: 2, second: 3}
            listed = await admin.partitions.list_offsets({first: OffsetSpec.EARLIEST})
            assert listed[first].unwrap().offset == 2
            beyond = await admin.partitions.delete_records({first: 9})
            assert isinstance(beyond[first].error, OffsetOutOfRangeError)
            await admin.topics.delete([name])

    asyncio.run(run())


def test_one_broker_alone_has_nobody_to_elect_or_to_move_to(unique: Unique, barnabas: str) -> None:
    """Elections and reassignments are refused for a reason that the error names."""
    partition = TopicPartition(unique("admin.alone"), 0)

    async def run() -> None:
        async with connected(barnabas) as (_, admin):
            await create_topics(admin, NewTopic(name=partition.topic))
            elected = await admin.partitions.elect_leaders(partitions=[partition])
            error = elected[partition].error
            assert error is not None
            assert error.code is ErrorCode.ELECTION_NOT_NEEDED
            moved = await admin.partitions.reassign({partition: [77]})
            error = moved[partition].error
            assert error is not None
            assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert not await admin.partitions.list_reassignments()
            await admin.topics.delete([partition.topic])

    asyncio.run(run())


@pytest.mark.interop
def test_leaders_are_elected_and_partitions_moved(apache: str, unique: Unique) -> None:
    """On one broker there is nothing to elect or to move, which the codes say."""
    partition = TopicPartition(unique("admin.moves"), 0)
    missing = TopicPartition("no-such-topic", 0)

    async def run() -> None:
        async with connected(apache) as (_, admin):
            topic = NewTopic(name=partition.topic, partition_count=1)
            await create_topics(admin, topic)
            elected = await admin.partitions.elect_leaders(
                ElectionType.PREFERRED, [partition, missing]
            )
            needless = elected[partition].error
            assert needless is not None
            assert needless.code is ErrorCode.ELECTION_NOT_NEEDED
            assert isinstance(elected[missing].error, NotFoundError)
            everything = await admin.partitions.elect_leaders()
            assert everything.errors == {}

            moved = await admin.partitions.reassign({partition: [1], missing: [1]})
            assert moved[partition].is_ok
            assert isinstance(moved[missing].error, NotFoundError)
            wrong = await admin.partitions.reassign({partition: [99]})
            error = wrong[partition].error
            assert error is not None
            assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            cancelled = await admin.partitions.reassign({partition: None})
            assert isinstance(cancelled[partition].error, NotFoundError), "none is under way"
            assert await admin.partitions.list_reassignments() == {}
            assert await admin.partitions.list_reassignments([partition]) == {}
            await admin.topics.delete([partition.topic])

    asyncio.run(run())
