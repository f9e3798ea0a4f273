"""Reading as members of a group on real brokers: what is committed when, and who reads what."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.errors import ClosedError, IllegalStateError, NoOffsetError
from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.raw_topic import RawTopic
from tests.client.consumer.reading import drain, run_on

Names = Callable[[str], str]
VALUES = [b"%d" % number for number in range(10)]


def member(bootstrap: str, group_id: str, **settings: Any) -> Consumer:
    """A member that hears soon of rebalances."""
    chosen: dict[str, Any] = {
        "group_protocol": "classic",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "fetch_max_wait_ms": 20,
    }
    return Consumer(bootstrap, group_id=group_id, **{**chosen, **settings})


async def committed(consumer: Consumer, partition: TopicPartition) -> int | None:
    """The group's offset of a partition."""
    found = (await consumer.committed([partition]))[partition]
    return None if found is None else found.offset


def test_what_a_poll_returned_is_committed_by_the_next_poll(bootstrap: str, unique: Names) -> None:
    """CON-8: not before, because only then the records have been processed."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("auto"))
        await topics.append_values(partition, *VALUES)
        async with member(bootstrap, unique("g"), auto_commit_interval_ms=0) as consumer:
            consumer.subscribe([partition.topic])
            await drain(consumer, 3, max_records=3)
            assert await committed(consumer, partition) in (None, 0)
            # Polls that return nothing: what counts is that they are made.
            consumer.pause([partition])
            while await committed(consumer, partition) != 3:
                assert await consumer.poll(timeout_ms=10) == []
            consumer.resume([partition])
            await drain(consumer, 2, max_records=2)
            assert await committed(consumer, partition) == 3

    run_on(bootstrap, body)


@pytest.mark.parametrize("is_subscribed", [True, False])
def test_close_commits_what_was_processed_and_not_the_record_in_hand(
    bootstrap: str, unique: Names, is_subscribed: bool
) -> None:
    """CON-8: an exception in the loop leaves its record to the next reader, none before it."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("hand"))
        await topics.append_values(partition, *VALUES)
        group_id = unique("g")

        def choose(consumer: Consumer) -> None:
            if is_subscribed:
                consumer.subscribe([partition.topic])
            else:
                consumer.assign([partition])

        with pytest.raises(ZeroDivisionError):
            async with member(bootstrap, group_id) as consumer:
                choose(consumer)
                async for record in consumer:
                    1 // (4 - record.offset)
        async with member(bootstrap, group_id) as consumer:
            choose(consumer)
            assert [r.offset for r in await drain(consumer, 2, max_records=2)] == [4, 5]
        async with member(bootstrap, group_id, enable_auto_commit=False) as consumer:
            choose(consumer)
            async for record in consumer:
                if record.offset == 7:
                    await consumer.commit()
                if record.offset == 8:
                    break
        async with member(bootstrap, group_id) as consumer:
            choose(consumer)
            assert (await drain(consumer, 1))[0].offset == 8, "commit() counts the one in hand"

    run_on(bootstrap, body)


def test_an_exception_leaves_what_the_last_poll_returned_to_the_next_reader(
    bootstrap: str, unique: Names
) -> None:
    """CON-8: nobody knows how much of it was processed; of what was before, and committed, all."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("thrown"))
        for value in VALUES:  # a batch each, so that columns can be few
            await topics.append_values(partition, value)
        group_id = unique("g")

        async def look(*, polls: list[int], commits: bool = False, columns: bool = False) -> int:
            """What is committed after an exception behind polls of so many records."""
            with pytest.raises(ZeroDivisionError):
                async with member(bootstrap, group_id) as consumer:
                    consumer.assign([partition])
                    for count in polls:
                        await drain(consumer, count, max_records=count)
                    if columns:
                        assert await consumer.poll_columns(timeout_ms=5000)
                    if commits:
                        await consumer.commit()
                    raise ZeroDivisionError
            async with member(bootstrap, group_id, enable_auto_commit=False) as consumer:
                return await committed(consumer, partition) or 0

        assert await look(polls=[3]) == 0
        assert await look(polls=[2, 3]) == 2
        assert await look(polls=[2], commits=True) == 4
        assert await look(polls=[1], columns=True) == 5
        async with member(bootstrap, group_id) as consumer:
            consumer.assign([partition])
            await drain(consumer, 2, max_records=2)
            await consumer.close()
        async with member(bootstrap, group_id, enable_auto_commit=False) as consumer:
            assert await committed(consumer, partition) == 7, "closed by hand: it counts"

    run_on(bootstrap, body)


def test_a_pattern_reads_topics_that_appear_later(bootstrap: str, unique: Names) -> None:
    """CON-2: the group meets anew when another topic matches."""

    async def body(topics: RawTopic) -> None:
        stem = unique("pattern")
        (first,) = await topics.create(f"{stem}-a")
        await topics.append_values(first, b"1")
        async with member(bootstrap, unique("g"), metadata_max_age_ms=100) as consumer:
            consumer.subscribe(pattern=f"{stem}-.")
            assert {r.topic for r in await drain(consumer, 1)} == {first.topic}
            (second,) = await topics.create(f"{stem}-b")
            await topics.create(f"{stem}-other")
            await topics.append_values(second, b"2")
            assert {r.topic for r in await drain(consumer, 1)} == {second.topic}
            assert consumer.subscription() == {first.topic, second.topic}

    run_on(bootstrap, body)


def test_two_members_share_and_the_one_that_stays_takes_over(bootstrap: str, unique: Names) -> None:
    """CON-11: nothing is lost and nothing read twice when members commit before they go."""

    async def body(topics: RawTopic) -> None:
        partitions = await topics.create(unique("share"), 4)
        for partition in partitions:
            await topics.append_values(partition, *VALUES)
        group_id = unique("g")
        seen: list[tuple[int, int]] = []
        events: list[str] = []

        class Listener(RebalanceListener):
            def on_revoked(self, partitions: object) -> None:
                events.append("revoked")

            async def on_assigned(self, partitions: object) -> None:
                events.append("assigned")

        async def read(consumer: Consumer, until: Callable[[], bool]) -> None:
            while not until():
                found = await consumer.poll(timeout_ms=50, max_records=2)
                seen.extend((record.partition, record.offset) for record in found)

        async with member(bootstrap, group_id) as one:
            one.subscribe([partitions[0].topic], listener=Listener())
            await read(one, lambda: len(seen) > 4)
            two = member(bootstrap, group_id)
            await two.start()
            two.subscribe([partitions[0].topic])
            split = lambda: len(one.assignment()) == len(two.assignment()) == 2  # noqa: E731
            await asyncio.gather(read(one, split), read(two, split))
            assert not one.assignment() & two.assignment()
            await read(two, lambda: len(seen) > 10)
            await two.close()
            await read(one, lambda: len(seen) >= 40 and one.assignment() == set(partitions))
        assert sorted(seen) == [(number, offset) for number in range(4) for offset in range(10)]
        assert events[0] == "assigned"
        assert "revoked" in events

    run_on(bootstrap, body)


def test_without_a_committed_offset_and_a_policy_the_error_names_the_partition(
    bootstrap: str, unique: Names
) -> None:
    """CON-5: with the policy none a group's first reader has to say where to begin."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("none"))
        await topics.append_values(partition, *VALUES)
        async with member(bootstrap, unique("g"), auto_offset_reset="none") as consumer:
            consumer.subscribe([partition.topic])
            with pytest.raises(NoOffsetError) as raised:
                await drain(consumer, 1)
            assert raised.value.positions == {partition: None}
            consumer.seek(partition, 8)
            assert [r.offset for r in await drain(consumer, 2)] == [8, 9]

    run_on(bootstrap, body)


def test_unsubscribe_leaves_the_group_and_assign_may_follow(bootstrap: str, unique: Names) -> None:
    """CON-2, CON-3: the group's offsets stay; partitions that are assigned begin at them."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("leave"))
        await topics.append_values(partition, *VALUES)
        async with member(bootstrap, unique("g"), enable_auto_commit=False) as consumer:
            consumer.subscribe([partition.topic])
            await drain(consumer, 3, max_records=3)
            await consumer.commit()
            assert consumer.group_metadata().generation_id > 0
            await consumer.unsubscribe()
            assert consumer.assignment() == set()
            consumer.assign([partition])
            assert [r.offset for r in await drain(consumer, 7)] == list(range(3, 10))

    run_on(bootstrap, body)


def test_positions_are_what_a_commit_of_everything_says(bootstrap: str, unique: Names) -> None:
    """For `send_offsets` of a producer; in an iteration what was yielded counts."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("positions"))
        await topics.append_values(partition, *VALUES)
        async with member(bootstrap, unique("g"), enable_auto_commit=False) as consumer:
            consumer.assign([partition])
            assert consumer.positions() == {}
            await drain(consumer, 4, max_records=4)
            assert consumer.positions()[partition].offset == 4
            async for record in consumer:
                assert (record.offset, consumer.positions()[partition].offset) == (4, 5)
                break
            await consumer.commit(consumer.positions())
            assert await committed(consumer, partition) == 5

    run_on(bootstrap, body)


def test_a_rebalance_can_be_asked_for(bootstrap: str, unique: Names) -> None:
    """KIP-568: for what an assignor knows and the group cannot see; the next poll joins again."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("enforced"))
        await topics.append_values(partition, *VALUES)
        async with member(bootstrap, unique("g")) as consumer:
            with pytest.raises(IllegalStateError, match="subscribe"):
                consumer.enforce_rebalance()
            consumer.subscribe([partition.topic])
            await drain(consumer, 4, max_records=4)
            before = consumer.group_metadata().generation_id
            consumer.enforce_rebalance("a test")
            await drain(consumer, 6, max_records=6)
            assert consumer.group_metadata().generation_id > before

    run_on(bootstrap, body)


def test_interceptors_hear_of_commits(bootstrap: str, unique: Names) -> None:
    """An observer is told what the group has accepted, however it was committed."""
    heard: list[int] = []

    class Observer:
        def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
            heard.extend(one.offset for one in offsets.values())

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("observed"))
        await topics.append_values(partition, *VALUES)
        async with member(bootstrap, unique("g"), interceptors=[Observer()]) as consumer:
            consumer.assign([partition])
            await drain(consumer, 4, max_records=4)
            await consumer.commit()
            await drain(consumer, 2, max_records=2)
        assert heard == [4, 6]

    run_on(bootstrap, body)


def test_close_ends_a_member_that_waits(bootstrap: str, unique: Names) -> None:
    """CON-1, CON-11: also in the middle of joining; the group does not wait for it."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("closing"))
        for timeout_ms in (0, 60_000):
            consumer = member(bootstrap, unique("g"))
            await consumer.start()
            consumer.subscribe([partition.topic])
            await consumer.poll(timeout_ms=timeout_ms and 500)
            polling: asyncio.Task[list[ConsumerRecord]] = asyncio.create_task(
                consumer.poll(timeout_ms=60_000)
            )
            await asyncio.sleep(0)
            await consumer.close()
            with pytest.raises(ClosedError):
                await polling

    run_on(bootstrap, body)
