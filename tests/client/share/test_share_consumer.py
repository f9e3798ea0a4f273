"""The share consumer against model brokers on virtual time."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas_client.errors import (
    AuthorizationError,
    ClosedError,
    DisconnectedError,
    IllegalStateError,
    SerializationError,
    TimedOutError,
    UnsupportedError,
    UsageError,
)
from barnabas_client.share.records import AcknowledgementResult, AcknowledgeType, ShareRecord
from barnabas_client.share.share_consumer import ShareConsumer
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from barnabas_protocol.messages.share_fetch import ShareFetchRequest
from tests.client.share.model_share_cluster import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    ModelShareCluster,
)
from tests.support.virtual_loop import run_virtual

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
EXPLICIT = {"share_acknowledgement_mode": "explicit"}


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run on virtual time; a task that is left behind fails."""

    async def run_and_look() -> None:
        await work
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, others

    run_virtual(run_and_look())


async def poll(consumer: ShareConsumer, **options: Any) -> list[ShareRecord]:
    """Poll until there are records."""
    async with asyncio.timeout(120):
        while not (records := await consumer.poll(timeout_ms=1000, **options)):
            pass
    return records


def seen(records: list[ShareRecord]) -> list[tuple[int, int]]:
    """Offsets and delivery counts."""
    return [(record.offset, record.delivery_count) for record in records]


# ---- acknowledgement -----------------------------------------------------------------------


def test_the_next_poll_accepts_what_the_last_one_returned() -> None:
    """SHR-40: with the fetch that it sends anyway."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a", b"b")
        async with model.consumer() as consumer:
            assert seen(await poll(consumer)) == [(0, 1), (1, 1)]
            assert model.states() == [ACQUIRED, ACQUIRED]
            assert await consumer.poll(timeout_ms=1000) == []
            assert model.states() == [ACKNOWLEDGED, ACKNOWLEDGED]
            assert model.sent(ShareAcknowledgeRequest) == []

    run(work())


def test_records_are_accepted_released_or_rejected_one_by_one() -> None:
    """SHR-40: released ones come again with a higher count, the others never."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a", b"b", b"c")
        async with model.consumer(**EXPLICIT) as consumer:
            first, second, third = await poll(consumer)
            consumer.acknowledge(first)
            consumer.acknowledge(second, AcknowledgeType.RELEASE)
            with pytest.raises(IllegalStateError, match="1 records of the last poll are open"):
                await consumer.poll()
            consumer.acknowledge(third, AcknowledgeType.REJECT)
            (again,) = await poll(consumer)
            assert seen([again]) == [(1, 2)]
            with pytest.raises(IllegalStateError, match="not open"):
                consumer.acknowledge(first)
            consumer.acknowledge(again)
            assert await consumer.commit() == {T0: None}
            assert model.states() == [ACKNOWLEDGED, ACKNOWLEDGED, ARCHIVED]

    run(work())


def test_a_commit_sends_acknowledgements_alone_and_tells_what_became_of_them() -> None:
    """SHR-40, SHR-41: by partition; an error is the broker's."""

    async def work() -> None:
        model = ModelShareCluster(2)
        model[0].append(b"a")
        model[1].append(b"b")
        async with model.consumer() as consumer:
            assert len(await poll(consumer)) == 2
            model.acknowledge_errors[T1] = deque([ErrorCode.INVALID_RECORD_STATE])
            results = await consumer.commit()
            assert results[T0] is None
            error = results[T1]
            assert error is not None
            assert error.code is ErrorCode.INVALID_RECORD_STATE
            assert len(model.sent(ShareAcknowledgeRequest)) == 1
            assert await consumer.commit() == {}

    run(work())


def test_acknowledging_needs_the_explicit_mode() -> None:
    """SHR-40: otherwise a record would be acknowledged twice."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        async with model.consumer() as consumer:
            (record,) = await poll(consumer)
            with pytest.raises(IllegalStateError, match="share_acknowledgement_mode=explicit"):
                consumer.acknowledge(record)

    run(work())


def test_holes_are_acknowledged_as_gaps() -> None:
    """SHR-41: nobody else would ever make them final."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a", None, None, b"d")
        async with model.consumer() as consumer:
            assert seen(await poll(consumer)) == [(0, 1), (3, 1)]
            await consumer.commit()
            assert model.states() == [ACKNOWLEDGED, ARCHIVED, ARCHIVED, ACKNOWLEDGED]

    run(work())


def test_a_state_that_cannot_be_written_now_is_acknowledged_again() -> None:
    """SHR-41, SHR-17: the lock still holds."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        async with model.consumer() as consumer:
            await poll(consumer)
            model.acknowledge_errors[T0] = deque(
                [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
            )
            assert await consumer.commit() == {T0: None}
            assert model.states() == [ACKNOWLEDGED]

    run(work())


def test_a_commit_that_takes_too_long_says_so_for_each_partition() -> None:
    """SHR-40: the acknowledgement goes on, and may hold later."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        async with model.consumer() as consumer:
            await poll(consumer)
            model.acknowledge_errors[T0] = deque([ErrorCode.COORDINATOR_NOT_AVAILABLE] * 4)
            results = await consumer.commit(timeout_ms=300)
            assert isinstance(results[T0], TimedOutError)
            assert await consumer.commit() == {T0: None}

    run(work())


def test_the_callback_gets_every_result_and_may_fail() -> None:
    """SHR-40: also of acknowledgements that ride on fetches."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a", b"b")
        results: list[AcknowledgementResult] = []

        def take(result: AcknowledgementResult) -> None:
            results.append(result)
            raise RuntimeError("of the program")

        async with model.consumer(acknowledgement_callback=take) as consumer:
            await poll(consumer, max_records=1)
            model.acknowledge_errors[T0] = deque([ErrorCode.INVALID_RECORD_STATE])
            await poll(consumer)
            await asyncio.sleep(0.1)
            await consumer.poll(timeout_ms=1000)
        told = [(one.ranges[0][:2], one.error is None) for one in results]
        assert told == [((0, 0), False), ((1, 1), True)]

    run(work())


def test_cancelled_calls_leave_a_consumer_that_works() -> None:
    """SHR-40: a commit goes on in the background; a close that is cancelled closes all the same."""

    async def work() -> None:
        model = ModelShareCluster(1)
        for step in range(12):
            model[0].append(b"x")
            consumer = model.consumer()
            await consumer.start()
            await poll(consumer)
            for call in (consumer.commit, consumer.close):
                task = asyncio.create_task(call())
                await asyncio.sleep(step * 0.0005)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                if call == consumer.commit:
                    assert set((await consumer.commit()).values()) <= {None}
                    assert model.states()[-1] == ACKNOWLEDGED
            await consumer.close()
            assert model.members == {}

    run(work())


# ---- locks ---------------------------------------------------------------------------------


def test_records_whose_lock_ran_out_before_delivery_are_dropped() -> None:
    """SHR-41: another member may have them; here they come again with a higher count."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a", b"b")
        async with model.consumer() as consumer:
            assert seen(await poll(consumer, max_records=1)) == [(0, 1)]
            await consumer.commit()
            await asyncio.sleep(31)
            assert seen(await poll(consumer)) == [(1, 2)]

    run(work())


def test_an_acknowledgement_behind_its_lock_takes_no_other_with_it() -> None:
    """SHR-41, SHR-16: it is not sent at all, and its result says why."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        results: list[AcknowledgementResult] = []
        async with model.consumer(**EXPLICIT, acknowledgement_callback=results.append) as consumer:
            (late,) = await poll(consumer)
            await asyncio.sleep(31)
            consumer.acknowledge(late)
            (again,) = await poll(consumer)
            assert seen([again]) == [(0, 2)]
            assert not [
                one
                for fetch in model.sent(ShareFetchRequest)
                for topic in fetch.topics
                for one in topic.partitions
                if one.acknowledgement_batches
            ]
            consumer.acknowledge(again)
            assert await consumer.commit() == {T0: None}
        failed, held = results
        assert failed.error is not None
        assert failed.error.code is ErrorCode.INVALID_RECORD_STATE
        assert held.error is None
        assert model.states() == [ACKNOWLEDGED]

    run(work())


def test_a_renewed_lock_holds_longer_and_the_record_stays_open() -> None:
    """SHR-40, SHR-19."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        async with model.consumer(**EXPLICIT) as consumer:
            (record,) = await poll(consumer)
            for _ in range(3):
                await asyncio.sleep(20)
                consumer.acknowledge(record, AcknowledgeType.RENEW)
                assert await consumer.commit() == {T0: None}
            consumer.acknowledge(record)
            assert await consumer.commit() == {T0: None}
            assert model.states() == [ACKNOWLEDGED]
            assert model[0].states[0].delivery_count == 1

    run(work())


def test_a_broker_without_renewals_is_not_asked_for_one() -> None:
    """SHR-15: version 2 has them; the other acknowledgements go out."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model.versions[ApiKey.SHARE_ACKNOWLEDGE] = 1
        model[0].append(b"a")
        async with model.consumer(**EXPLICIT) as consumer:
            (record,) = await poll(consumer)
            consumer.acknowledge(record, AcknowledgeType.RENEW)
            results = await consumer.commit()
            assert isinstance(results[T0], UnsupportedError)
            consumer.acknowledge(record)
            assert await consumer.commit() == {T0: None}

    run(work())


# ---- sessions ------------------------------------------------------------------------------


def test_each_leader_has_a_session_with_one_request_in_flight() -> None:
    """SHR-41: the model checks epochs and requests in flight."""

    async def work() -> None:
        model = ModelShareCluster(4)
        model.move(1, 2)
        model.move(3, 2)
        async with model.consumer() as consumer:
            total = 0
            for turn in range(5):
                for number in range(4):
                    model[number].append(b"%d" % turn)
                while total < 4 * (turn + 1):
                    total += len(await poll(consumer))
        first = [one for node_id, one in model.requests if node_id == 1]
        assert [one.share_session_epoch for one in first] == [*range(len(first) - 1), -1]
        opening = first[0]
        assert {one.partition_index for one in opening.topics[0].partitions} == {0, 2}
        assert all(model.states(number) == [ACKNOWLEDGED] * 5 for number in range(4))

    run(work())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ],
)
def test_a_session_that_is_refused_is_opened_anew(code: ErrorCode) -> None:
    """SHR-41: acknowledgements of the request failed, and records are delivered again."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        async with model.consumer() as consumer:
            await poll(consumer)
            model.refusals[1] = deque([code])
            results = await consumer.commit()
            error = results[T0]
            assert error is not None
            assert error.code is code
            model[0].append(b"b")
            fetched = len(model.requests)
            records: list[ShareRecord] = []
            while len({record.offset for record in records}) < 2:
                records += await poll(consumer)
            opening = model.requests[fetched][1]
            assert isinstance(opening, ShareFetchRequest)
            assert opening.share_session_epoch == 0
            assert await consumer.commit() == {T0: None}
            assert model.states() == [ACKNOWLEDGED, ACKNOWLEDGED]

    run(work())


def test_a_lost_connection_loses_locks_and_nothing_else() -> None:
    """SHR-41, SHR-21: what was fetched ahead is dropped, and what was sent is in doubt."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a", b"b", b"c")
        async with model.consumer() as consumer:
            assert seen(await poll(consumer, max_records=1)) == [(0, 1)]
            model.cut.append(1)
            results = await consumer.commit()
            assert isinstance(results[T0], DisconnectedError)
            # The acknowledgement was carried out; the locks of the others went with the session.
            assert model.states() == [ACKNOWLEDGED, AVAILABLE, AVAILABLE]
            assert seen(await poll(consumer)) == [(1, 2), (2, 2)]

    run(work())


def test_a_session_without_room_is_asked_for_again_later() -> None:
    """SHR-21: 133 on every attempt to open costs a pause, not an error."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        model.refusals[1] = deque([ErrorCode.SHARE_SESSION_LIMIT_REACHED] * 5)
        async with model.consumer() as consumer:
            assert seen(await poll(consumer)) == [(0, 1)]
            assert len(model.requests) == 6

    run(work())


# ---- leaders and assignment ----------------------------------------------------------------


def test_records_come_from_the_new_leader_that_a_response_names() -> None:
    """SHR-33: without a look at metadata; what the old one locked is delivered again."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        async with model.consumer() as consumer:
            assert seen(await poll(consumer)) == [(0, 1)]
            model.move(0, 2, is_told=False)
            results = await consumer.commit()
            error = results[T0]
            assert error is not None
            assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert seen(await poll(consumer)) == [(0, 2)]
            assert await consumer.commit() == {T0: None}
            assert {node_id for node_id, _ in model.requests} == {1, 2}

    run(work())


def test_a_partition_in_trouble_does_not_keep_the_others() -> None:
    """SHR-41: it is tried again, and what may not be read is an error of the poll."""

    async def work() -> None:
        model = ModelShareCluster(2)
        model[1].append(b"b")
        model.fetch_errors[T0] = deque([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3)
        async with model.consumer() as consumer:
            assert [record.partition for record in await poll(consumer)] == [1]
            await consumer.poll(timeout_ms=5000)
            assert not model.fetch_errors[T0]
            model.fetch_errors[T0] = deque([ErrorCode.TOPIC_AUTHORIZATION_FAILED])
            with pytest.raises(AuthorizationError):
                await consumer.poll(timeout_ms=5000)
            model[0].append(b"a")
            assert [record.partition for record in await poll(consumer)] == [0]

    run(work())


def test_what_was_fetched_of_a_revoked_partition_is_released() -> None:
    """SHR-41: alone; the records that the program has stay open."""

    async def work() -> None:
        model = ModelShareCluster(2)
        model[0].append(b"a", b"b", b"c")
        async with model.consumer(**EXPLICIT) as consumer:
            (record,) = await poll(consumer, max_records=1)
            model.assigned = [T1]
            await asyncio.sleep(2)
            consumer.acknowledge(record)
            assert await consumer.poll(timeout_ms=1000) == []
            assert consumer.assignment() == {T1}
            assert model.states() == [ACKNOWLEDGED, AVAILABLE, AVAILABLE]
            fetches = model.sent(ShareFetchRequest)
            assert fetches[-1].forgotten_topics_data or fetches[-2].forgotten_topics_data

    run(work())


def test_a_member_that_the_group_has_forgotten_joins_again() -> None:
    """SHR-28: in the background, under its id."""

    async def work() -> None:
        model = ModelShareCluster(1)
        async with model.consumer() as consumer:
            await consumer.poll(timeout_ms=2000)
            (member_id,) = model.members
            model.members.clear()
            await asyncio.sleep(3)
            assert list(model.members) == [member_id]
            model[0].append(b"a")
            assert seen(await poll(consumer)) == [(0, 1)]

    run(work())


def test_a_program_that_does_not_poll_leaves_the_group_until_it_does() -> None:
    """SHR-28, CON-10: its session and locks are not touched by that."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        async with model.consumer(max_poll_interval_ms=10_000) as consumer:
            await poll(consumer)
            await asyncio.sleep(12)
            assert not model.members
            assert await consumer.commit() == {T0: None}
            model[0].append(b"b")
            assert seen(await poll(consumer)) == [(1, 1)]
            assert model.members

    run(work())


def test_unsubscribing_leaves_the_group_and_subscribing_joins_again() -> None:
    """SHR-40."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        async with model.consumer() as consumer:
            await poll(consumer)
            await consumer.unsubscribe()
            assert (model.members, consumer.assignment()) == ({}, frozenset())
            assert await consumer.commit() == {T0: None}
            with pytest.raises(IllegalStateError, match="subscribe"):
                await consumer.poll()
            consumer.subscribe("t")
            model[0].append(b"b")
            assert seen(await poll(consumer)) == [(1, 1)]

    run(work())


# ---- end -----------------------------------------------------------------------------------


def test_close_releases_what_is_open_and_sends_what_was_acknowledged() -> None:
    """SHR-41: with the last request of the session."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a", b"b", b"c")
        consumer = model.consumer(**EXPLICIT)
        await consumer.start()
        first, _ = await poll(consumer, max_records=2)
        consumer.acknowledge(first)
        await consumer.close()
        assert model.states() == [ACKNOWLEDGED, AVAILABLE, AVAILABLE]
        assert (model.sessions, model.members) == ({}, {})
        with pytest.raises(ClosedError):
            await consumer.poll()
        await consumer.close()

    run(work())


def test_leaving_the_block_accepts_unless_by_an_exception() -> None:
    """SHR-40: as a consumer counts the last record of an iteration."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        with pytest.raises(RuntimeError):
            async with model.consumer() as consumer:
                await poll(consumer)
                raise RuntimeError("of the program")
        assert model.states() == [AVAILABLE]
        async with model.consumer() as consumer:
            assert seen(await poll(consumer)) == [(0, 2)]
        assert model.states() == [ACKNOWLEDGED]

    run(work())


def test_close_does_not_wait_for_a_broker_that_is_away() -> None:
    """SHR-41: acknowledgements that are left fail, with a result."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(b"a")
        results: list[AcknowledgementResult] = []
        consumer = model.consumer(**EXPLICIT, acknowledgement_callback=results.append)
        await consumer.start()
        (record,) = await poll(consumer)
        consumer.acknowledge(record)
        model.clients[0].is_unreachable = True
        await consumer.close(timeout_ms=1000)
        (result,) = results
        assert isinstance(result.error, DisconnectedError)

    run(work())


def test_close_does_not_wait_for_a_connection_that_nothing_needs() -> None:
    """SHR-41: there is no session to end and no acknowledgement to send."""

    async def work() -> None:
        model = ModelShareCluster(1)
        consumer = model.consumer()
        await consumer.start()
        model.clients[0].is_connecting = True
        assert await consumer.poll(timeout_ms=2000) == []
        began = model.loop.time()
        await consumer.close()
        assert model.loop.time() - began < 1
        assert not model.members

    run(work())


def test_close_ends_a_poll_and_an_iteration_of_another_task() -> None:
    """SHR-40."""

    async def work() -> None:
        model = ModelShareCluster(1)
        for is_iteration in (False, True):
            consumer = model.consumer()
            await consumer.start()

            async def read(consumer: ShareConsumer, *, is_iteration: bool) -> str:
                if is_iteration:
                    async for _ in consumer:
                        pass
                    return "ended"
                with pytest.raises(ClosedError):
                    await consumer.poll(timeout_ms=60_000)
                return "raised"

            task = asyncio.create_task(read(consumer, is_iteration=is_iteration))
            await asyncio.sleep(1)
            with pytest.raises(IllegalStateError, match="in use by"):
                await consumer.poll()
            await consumer.close()
            assert await task == ("ended" if is_iteration else "raised")

    run(work())


def test_wakeup_ends_a_poll_without_records() -> None:
    """SHR-40: the one that waits, or the next."""

    async def work() -> None:
        model = ModelShareCluster(1)
        async with model.consumer() as consumer:
            asyncio.get_running_loop().call_later(2, consumer.wakeup)
            began = model.loop.time()
            assert await consumer.poll(timeout_ms=60_000) == []
            assert model.loop.time() - began == pytest.approx(2, abs=0.1)
            consumer.wakeup()
            assert await consumer.poll(timeout_ms=60_000) == []
            model[0].append(b"a")
            assert seen(await poll(consumer)) == [(0, 1)]

    run(work())


def test_a_cancelled_poll_loses_no_record() -> None:
    """SHR-41: at whatever await it was cancelled."""

    async def work() -> None:
        model = ModelShareCluster(1, delivery_limit=1)
        async with model.consumer() as consumer:
            got: list[ShareRecord] = []
            for number in range(40):
                model[0].append(b"%d" % number)
                task = asyncio.create_task(consumer.poll(timeout_ms=1000))
                await asyncio.sleep(number / 10_000)
                task.cancel()
                for done in await asyncio.gather(task, return_exceptions=True):
                    got += done if isinstance(done, list) else []
            while len(got) < 40:
                got += await poll(consumer)
            assert seen(got) == [(number, 1) for number in range(40)]

    run(work())


# ---- iteration, errors ---------------------------------------------------------------------


def test_an_iteration_accepts_a_record_when_the_next_one_is_requested() -> None:
    """SHR-40: what it did not come to is given back."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(*[b"%d" % number for number in range(5)])
        with pytest.raises(RuntimeError):
            async with model.consumer() as consumer:
                async for record in consumer:
                    if record.offset == 2:
                        raise RuntimeError("of the program")
        assert model.states() == [ACKNOWLEDGED] * 2 + [AVAILABLE] * 3

    run(work())


def test_a_slow_iteration_sends_its_acknowledgements_in_time() -> None:
    """SHR-41: before the locks of what it has done run out."""

    async def work() -> None:
        model = ModelShareCluster(1, lock_ms=10_000)
        model[0].append(*[b"%d" % number for number in range(8)])
        async with model.consumer() as consumer:
            async for record in consumer:
                await asyncio.sleep(1.1)
                if record.offset == 7:
                    break
        assert model.states() == [ACKNOWLEDGED] * 8
        assert {one.delivery_count for one in model[0].states} == {1}

    run(work())


def test_a_record_that_cannot_be_deserialized_is_released() -> None:
    """SHR-41: the limit of deliveries ends that."""

    async def work() -> None:
        model = ModelShareCluster(1, delivery_limit=2)
        model[0].append(b"1", b"no", b"3")
        async with model.consumer(value_deserializer=int) as consumer:
            assert [record.value for record in await poll(consumer)] == [1]
            for _ in range(2):
                with pytest.raises(SerializationError):
                    await consumer.poll(timeout_ms=5000)
                await consumer.poll(timeout_ms=1000)
            assert await consumer.poll(timeout_ms=1000) == []
            assert model.states() == [ACKNOWLEDGED, ARCHIVED, ACKNOWLEDGED]

    run(work())


def test_what_a_broker_does_not_serve_is_an_error_of_the_poll() -> None:
    """SHR-40: no share groups at all, or none with a limit of records."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model.versions[ApiKey.SHARE_FETCH] = 1
        async with model.consumer(share_acquire_mode="record_limit") as consumer:
            with pytest.raises(UnsupportedError, match="record_limit"):
                await consumer.poll(timeout_ms=5000)
        del model.versions[ApiKey.SHARE_GROUP_HEARTBEAT]
        async with model.consumer() as consumer:
            with pytest.raises(UnsupportedError):
                await consumer.poll(timeout_ms=5000)

    run(work())


def test_a_record_limit_is_asked_for() -> None:
    """SHR-10: and a poll returns no more than it was asked for."""

    async def work() -> None:
        model = ModelShareCluster(1)
        model[0].append(*[b"x"] * 7)
        async with model.consumer(
            share_acquire_mode="record_limit", max_poll_records=4
        ) as consumer:
            assert [len(await poll(consumer)) for _ in range(2)] == [4, 3]
            fetch = model.sent(ShareFetchRequest)[-1]
            assert (fetch.share_acquire_mode, fetch.max_records) == (1, 4)

    run(work())


def test_calls_that_cannot_be_meant_are_refused() -> None:
    """SHR-40."""

    async def work() -> None:
        model = ModelShareCluster(1)
        consumer = model.consumer()
        with pytest.raises(IllegalStateError, match="start"):
            await consumer.poll()
        async with consumer:
            for call in (consumer.poll(timeout_ms=-1), consumer.poll(max_records=0)):
                with pytest.raises(UsageError):
                    await call
            for topics in ([], ["a b"]):
                with pytest.raises(UsageError):
                    consumer.subscribe(topics)
        with pytest.raises(ClosedError):
            await consumer.start()

    run(work())
