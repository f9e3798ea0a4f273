"""The consumer against real brokers: reading, positions and everything the program can call."""

import asyncio
import time
from collections.abc import Callable, Mapping

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.errors import (
    ClosedError,
    ConfigurationError,
    IllegalStateError,
    NoOffsetError,
    SerializationError,
    UsageError,
)
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.record import Record, encode_batch
from tests.client.consumer.raw_topic import RawTopic, records
from tests.client.consumer.reading import drain, reader, run_on
from tests.support.in_process_broker import eventually

Names = Callable[[str], str]


@pytest.mark.parametrize("compression", list(Compression))
def test_every_codec_and_every_field_comes_back(
    bootstrap: str, unique: Names, compression: Compression
) -> None:
    """CON-4, CON-7: null keys, values and headers included; the checksum is verified."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("codec"))
        now_ms = time.time_ns() // 1_000_000
        sent = [
            Record(0, now_ms, None, None),
            Record(1, now_ms + 1, b"", b"", (("h", None), ("h", b"2"), ("", b""))),
            Record(2, now_ms + 2, b"key", b"v" * 5000, (("ä", b"\xff"),)),
        ]
        await topics.append(partition, *sent, compression=compression)
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            got = await drain(consumer, 3)
        assert [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in got] == [
            tuple(record) for record in sent
        ]
        assert all(record.timestamp_type == 0 and record.leader_epoch >= 0 for record in got)

    run_on(bootstrap, body)


def test_seek_pause_and_resume(bootstrap: str, unique: Names) -> None:
    """CON-5, CON-6: positions move as told, paused partitions stand still and lose nothing."""

    async def body(topics: RawTopic) -> None:
        one, two = await topics.create(unique("seek"), 2)
        for partition in (one, two):
            await topics.append_values(partition, *(b"%d" % number for number in range(10)))
        async with reader(bootstrap) as consumer:
            consumer.assign([one, two])
            consumer.pause([two])
            assert {r.partition for r in await drain(consumer, 10)} == {0}
            assert consumer.paused() == {two}
            assert await consumer.position(one) == 10
            consumer.resume([two])
            assert {r.partition for r in await drain(consumer, 10)} == {1}
            consumer.seek(one, 7)
            assert [r.offset for r in await drain(consumer, 3)] == [7, 8, 9]
            consumer.seek_to_beginning([two])
            assert [r.offset for r in await drain(consumer, 10)] == list(range(10))
            consumer.seek_to_end()
            assert await consumer.position(one) == await consumer.position(two) == 10
            assert await consumer.poll(timeout_ms=0) == []

    run_on(bootstrap, body)


def test_a_topic_made_anew_is_read_from_where_the_policy_says(
    bootstrap: str, unique: Names
) -> None:
    """CON-5: the position in the log that was says nothing of the one that is there now."""

    async def body(topics: RawTopic) -> None:
        name = unique("anew")
        (partition,) = await topics.create(name)
        await topics.append_values(partition, b"0", b"1", b"2")
        async with (
            reader(bootstrap, allow_auto_create_topics=False) as consumer,
            Admin(bootstrap) as admin,
        ):
            consumer.assign([partition])
            await drain(consumer, 3)
            (await admin.topics.delete([name])).unwrap()
            await topics.create(name)
            await topics.append_values(partition, *(b"new-%d" % number for number in range(5)))
            found = await drain(consumer, 5)
            assert [(one.offset, one.value) for one in found] == [
                (number, b"new-%d" % number) for number in range(5)
            ]
            consumer.seek(partition, 4)
            assert [one.offset for one in await drain(consumer, 1)] == [4]

    run_on(bootstrap, body)


def test_offsets_of_the_log_and_of_times(bootstrap: str, unique: Names) -> None:
    """CON-5: first, last and by time; None where all records are older."""

    async def body(topics: RawTopic) -> None:
        one, two = await topics.create(unique("times"), 2)
        now_ms = time.time_ns() // 1_000_000
        for number in range(3):
            await topics.append(one, Record(0, now_ms + 1000 * number, None, b"x"))
        async with reader(bootstrap) as consumer:
            assert await consumer.beginning_offsets([one, two]) == {one: 0, two: 0}
            assert await consumer.end_offsets([one, two]) == {one: 3, two: 0}
            found = await consumer.offsets_for_times({one: now_ms + 500, two: now_ms})
            assert found[two] is None
            assert found[one] is not None
            assert (found[one].offset, found[one].timestamp_ms) == (1, now_ms + 1000)
            consumer.assign([one, two])
            consumer.seek_to_timestamp(now_ms + 1500)
            assert [r.offset for r in await drain(consumer, 1)] == [2]
            assert await consumer.position(two) == 0
            assert await consumer.lag() == {one: 0, two: 0}
            consumer.seek(one, 1)
            assert (await consumer.lag())[one] == 2

    run_on(bootstrap, body)


def test_the_reset_policies(bootstrap: str, unique: Names) -> None:
    """CON-5, KIP-1106: latest, earliest, none, and what is younger than a duration."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("reset"))
        now_ms = time.time_ns() // 1_000_000
        await topics.append(partition, Record(0, now_ms - 7_200_000, None, b"old"))
        await topics.append(partition, Record(0, now_ms - 1000, None, b"young"))
        for policy, position in (("earliest", 0), ("latest", 2), ("by_duration:PT1H", 1)):
            async with reader(bootstrap, auto_offset_reset=policy) as consumer:
                consumer.assign([partition])
                assert await consumer.position(partition) == position, policy
        async with reader(bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            with pytest.raises(NoOffsetError) as raised:
                await consumer.poll(timeout_ms=5000)
            assert raised.value.positions == {partition: None}
            consumer.seek(partition, 1)
            assert [r.value for r in await drain(consumer, 1)] == [b"young"]

    run_on(bootstrap, body)


def test_a_record_above_all_limits_arrives(bootstrap: str, unique: Names) -> None:
    """CON-12: the first batch comes however large it is."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("large"), max_message_bytes="4000000")
        await topics.append_values(partition, b"x" * 2_000_000)
        await topics.append_values(partition, b"y")
        async with reader(
            bootstrap,
            max_partition_fetch_bytes=1000,
            fetch_max_bytes=1000,
            prefetch_bytes_max=1000,
        ) as consumer:
            consumer.assign([partition])
            assert [len(r.value) for r in await drain(consumer, 2)] == [2_000_000, 1]

    run_on(bootstrap, body)


def test_a_position_inside_of_a_batch_hands_out_its_rest(bootstrap: str, unique: Names) -> None:
    """CON-6: brokers send the batch that holds the position; what comes before it is skipped."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("inside"))
        await topics.append_values(partition, *(b"%d" % number for number in range(100)))
        await topics.append_values(partition, b"last")
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 42)
            assert (await drain(consumer, 1, max_records=1))[0].offset == 42
            assert await consumer.position(partition) == 43
            rest = await drain(consumer, 58)
            assert [r.offset for r in rest] == list(range(43, 101))

    run_on(bootstrap, body)


def test_whole_batches_and_columns(bootstrap: str, unique: Names) -> None:
    """The batch that holds the position comes whole and says which of its records are new."""
    pytest.importorskip("pyarrow")

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("batches"))
        for _ in range(3):
            await topics.append_values(partition, b"a", b"b", b"c")
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 1)
            batches = []
            while sum(len(batch.records()) for batch in batches) < 8:
                batches += await consumer.poll_batches(timeout_ms=5000)
            assert [batch.first_offset for batch in batches] == [1, 3, 6]
            assert [r.offset for b in batches for r in b.records()] == list(range(1, 9))
            assert await consumer.position(partition) == 9
            consumer.seek(partition, 2)
            columns = await consumer.poll_columns(timeout_ms=5000)
            assert [x for c in columns for x in c.offsets.to_pylist()] == list(range(2, 9))
            assert await consumer.position(partition) == 9

    run_on(bootstrap, body)


def test_iteration_moves_the_position_with_each_record(bootstrap: str, unique: Names) -> None:
    """CON-8: leaving the loop loses nothing, and a later loop or poll goes on behind it."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("iterate"))
        await topics.append_values(partition, *(b"%d" % number for number in range(10)))
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            seen = []
            async for record in consumer:
                seen.append(record.offset)
                assert await consumer.position(partition) == record.offset + 1
                if record.offset == 2:
                    break
            async for record in consumer:
                seen.append(record.offset)
                if record.offset == 4:
                    consumer.seek(partition, 6)
                if record.offset == 7:
                    break
            assert seen == [0, 1, 2, 3, 4, 6, 7]
            assert [r.offset for r in await drain(consumer, 2)] == [8, 9]

    run_on(bootstrap, body)


def test_iteration_commits_and_heartbeats_between_two_records(
    bootstrap: str, unique: Names
) -> None:
    """A body that computes and never waits must not keep the group waiting for a whole portion."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("busy"))
        await topics.append_values(partition, *(b"%d" % number for number in range(500)))
        committed: list[int] = []

        class Commits:
            def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
                committed.append(offsets[partition].offset)

        async with Consumer(
            bootstrap,
            group_id=unique("busy"),
            auto_offset_reset="earliest",
            auto_commit_interval_ms=10,
            interceptors=[Commits()],
        ) as consumer:
            consumer.subscribe([partition.topic])
            seen = -1
            async for record in consumer:
                seen = record.offset
                until = time.monotonic() + 0.002
                while time.monotonic() < until:
                    pass
                if committed:
                    break
        assert seen < 499, "nothing was committed before the portion was over"
        assert committed[0] <= seen, "what the program has not done with is not committed"

    run_on(bootstrap, body)


def test_deserializers_give_objects_and_name_the_record_that_fails(
    bootstrap: str, unique: Names
) -> None:
    """A record that cannot be deserialized is not passed over silently: seek behind it."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("deserialize"))
        await topics.append_values(partition, b"1", b"2", b"no number", b"4", None)
        async with reader(bootstrap, value_deserializer=int, key_deserializer=str) as consumer:
            consumer.assign([partition])
            assert [r.value for r in await drain(consumer, 2)] == [1, 2]
            for _ in range(2):
                with pytest.raises(SerializationError, match="value of") as raised:
                    await drain(consumer, 1)
                assert raised.value.position == (*partition, 2)
                assert await consumer.position(partition) == 2
            consumer.seek(partition, 3)
            assert [r.value for r in await drain(consumer, 2)] == [4, None]

    run_on(bootstrap, body)


def test_wakeup_ends_a_poll_and_an_iteration(bootstrap: str, unique: Names) -> None:
    """CON-1: the one call besides close that another task may make."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("wakeup"))
        async with Consumer(bootstrap) as consumer:
            consumer.assign([partition])
            polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
            await asyncio.sleep(0)
            with pytest.raises(IllegalStateError, match="in use"):
                await consumer.poll()
            with pytest.raises(IllegalStateError, match="in use"):
                consumer.seek(partition, 0)
            consumer.wakeup()
            assert await polling == []

            async def iterate() -> list[ConsumerRecord]:
                return [record async for record in consumer]

            iterating = asyncio.create_task(iterate())
            await asyncio.sleep(0)
            consumer.wakeup()
            assert await iterating == []
            consumer.wakeup()
            assert await consumer.poll(timeout_ms=60_000) == [], "the next poll, if none waits"

    run_on(bootstrap, body)


def test_close_ends_the_poll_that_waits(bootstrap: str, unique: Names) -> None:
    """CON-1: shutting down needs no cancelling: poll raises ClosedError, an iteration ends."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("close"))
        for is_iterating in (False, True):
            consumer = Consumer(bootstrap)
            await consumer.start()
            consumer.assign([partition])

            async def iterate(consumer: Consumer = consumer) -> list[ConsumerRecord]:
                return [record async for record in consumer]

            work = iterate() if is_iterating else consumer.poll(timeout_ms=60_000)
            task = asyncio.create_task(work)
            await asyncio.sleep(0)
            await consumer.close()
            if is_iterating:
                assert await task == []
            else:
                with pytest.raises(ClosedError):
                    await task
            await consumer.close()
            with pytest.raises(ClosedError):
                await consumer.start()

    run_on(bootstrap, body)


def test_calls_that_do_not_fit_the_state_are_refused(bootstrap: str) -> None:
    """CON-2, CON-3, CON-4: each says what to do instead."""
    with pytest.raises(ConfigurationError):
        Consumer(bootstrap, auto_offset_reset="sometime")

    async def body(_: RawTopic) -> None:
        consumer = Consumer(bootstrap)
        with pytest.raises(IllegalStateError, match="not started"):
            await consumer.poll()
        async with consumer:
            with pytest.raises(IllegalStateError, match="subscribe"):
                await consumer.poll()
            with pytest.raises(IllegalStateError, match="group_id"):
                consumer.subscribe(["t"])
            with pytest.raises(IllegalStateError, match="group_id"):
                await consumer.commit()
            with pytest.raises(IllegalStateError, match="not assigned"):
                consumer.seek(TopicPartition("t", 0), 0)
            with pytest.raises(UsageError, match="negative"):
                await consumer.poll(timeout_ms=-1)
        async with Consumer(bootstrap, group_id="g") as consumer:
            with pytest.raises(UsageError, match="unsubscribe"):
                consumer.subscribe([])
            with pytest.raises(UsageError, match="no topic can be called"):
                consumer.subscribe([" "])
            with pytest.raises(UsageError, match="several"):
                consumer.subscribe("topic")
            consumer.subscribe(["t"])
            with pytest.raises(IllegalStateError, match="exclude"):
                consumer.assign([TopicPartition("t", 0)])

    run_on(bootstrap, body)


def test_a_topic_that_appears_later_is_read(bootstrap: str, unique: Names) -> None:
    """CLI-7: partitions may be assigned before their topic exists."""

    async def body(topics: RawTopic) -> None:
        name = unique("later")
        async with reader(
            bootstrap,
            allow_auto_create_topics=False,
            retry_backoff_max_ms=200,
        ) as consumer:
            consumer.assign([TopicPartition(name, 0)])
            assert await consumer.poll(timeout_ms=50) == []
            (partition,) = await topics.create(name)
            await topics.append_values(partition, b"x")
            assert [r.value for r in await drain(consumer, 1)] == [b"x"]

    run_on(bootstrap, body)


def test_many_partitions_are_all_read(bootstrap: str, unique: Names) -> None:
    """CON-6: with answers that hold few of them, none starves and none is read twice."""

    async def body(topics: RawTopic) -> None:
        partitions = await topics.create(unique("many"), 30)
        batch = encode_batch(records(*(b"x" * 1000 for _ in range(10))))
        for partition in partitions:
            await topics.append_batch(partition, batch)
        async with reader(
            bootstrap,
            fetch_max_bytes=50_000,
            max_partition_fetch_bytes=5000,
            max_poll_records=7,
        ) as consumer:
            consumer.assign(partitions)
            got = await drain(consumer, 300)
            assert len({(r.partition, r.offset) for r in got}) == len(got) == 300

            async def has_caught_up() -> bool:
                return set((await consumer.lag()).values()) == {0}

            await eventually(has_caught_up)

    run_on(bootstrap, body)
