"""The sender against a broker that loses, refuses, delays and throttles (PRD-6, PRD-8)."""

import asyncio
import logging

import pytest

from barnabas_client.env import SystemClock
from barnabas_client.errors import (
    AuthorizationError,
    BarnabasError,
    BufferFullError,
    ClosedError,
    FencedError,
    NotFoundError,
    RetriableError,
    TimedOutError,
    UnsupportedError,
)
from barnabas_client.producer import Delivery, Producer, ProducerIdentity
from barnabas_client.producer import producer as producer_module
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.metadata import (
    MetadataResponseTopic,
)
from barnabas_protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
)
from tests.client.producer.one_broker import (
    QUICK,
    TOPIC,
    cluster,
    lead,
)
from tests.support.in_process_broker import eventually
from tests.support.scripted_broker import CLOSE, SILENCE, Received


def test_a_lost_reply_is_asked_for_again_with_the_same_number() -> None:
    """The connection closes in mid-request: disconnected counts as retriable."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.next_answers = [CLOSE, CLOSE]
            metadata = await producer.send(TOPIC, b"1")
            assert metadata.offset == 1
            assert node.values == [b"0", b"1"]
            assert node.sequences[-1] == (0, 1)

    asyncio.run(run())


def test_a_silent_broker_is_left_after_the_request_timeout() -> None:
    """CLI-5: a request that is not answered counts as a lost connection, and is repeated."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, request_timeout_ms=100, **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.next_answers = [SILENCE]
            assert (await producer.send(TOPIC, b"1")).offset == 1

    asyncio.run(run())


@pytest.mark.parametrize("tells_leader", [True, False])
def test_records_follow_the_leader(tells_leader: bool) -> None:
    """NOT_LEADER: by the hint of KIP-951 at once, else by new metadata."""

    async def run() -> None:
        async with (
            cluster(2) as (first, second),
            Producer(first.broker.bootstrap, **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"0")
            answer = PartitionProduceResponse(index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if tells_leader:
                answer.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
            else:
                lead(second, [first, second], leader_epoch=9)
            first.next_answers = [answer] * 1000
            await producer.send(TOPIC, b"1")
            assert second.values == [b"1"]
            assert second.sequences == [(0, 1)]

    asyncio.run(run())


def test_retriable_refusals_are_repeated_until_the_delivery_timeout() -> None:
    """PRD-8: and then the error says what to look at; the number is used up (KIP-360)."""

    async def run() -> None:
        settings = {"request_timeout_ms": 50, "delivery_timeout_ms": 150}
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK, **settings) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.next_answers = [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 1000
            told = "delivery_timeout_ms=150|NOT_ENOUGH_REPLICAS_AFTER_APPEND"  # or it is late
            with pytest.raises((TimedOutError, RetriableError), match=told):
                await producer.send(TOPIC, b"1")
            assert node.broker.count(ApiKey.PRODUCE) > 3
            node.next_answers = []
            await producer.send(TOPIC, b"2")
            # On a slow machine the last attempt may be looked at only now, and be taken after all.
            was_taken = node.values[:-1] == [b"0", b"1"]
            expected = (0, 2) if was_taken else (1, 0)  # a new epoch begins at 0
            assert node.sequences[-1] == expected

    asyncio.run(run())


def test_a_refusal_after_a_lost_answer_leaves_doubt_and_begins_a_new_epoch() -> None:
    """The first attempt may have written the record: its number is never another one's."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.next_answers = [CLOSE, ErrorCode.INVALID_RECORD]
            with pytest.raises(BarnabasError, match="may be in the log all the same") as raised:
                await producer.send(TOPIC, b"1")
            assert raised.value.is_in_doubt
            await producer.send(TOPIC, b"2")
            assert node.sequences[-1] == (1, 0)
            node.next_answers = [ErrorCode.INVALID_RECORD]
            with pytest.raises(BarnabasError) as raised:
                await producer.send(TOPIC, b"3")
            assert not raised.value.is_in_doubt, "its only attempt was refused"
            await producer.send(TOPIC, b"4")
            assert node.sequences[-1] == (1, 1)

    asyncio.run(run())


@pytest.mark.parametrize("is_in_doubt", [True, False])
def test_a_batch_in_doubt_is_not_split(is_in_doubt: bool) -> None:
    """Its halves would be written beside the whole."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **{**QUICK, "linger_ms": 20}) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.values.clear()
            node.next_answers = [CLOSE] * is_in_doubt + [ErrorCode.MESSAGE_TOO_LARGE]
            deliveries = [producer.send(TOPIC, b"%d" % number) for number in range(4)]
            found = await asyncio.gather(*deliveries, return_exceptions=True)
            if is_in_doubt:
                assert all(isinstance(one, BarnabasError) and one.is_in_doubt for one in found)
                assert node.values == []
            else:
                assert node.values == [b"0", b"1", b"2", b"3"]

    asyncio.run(run())


def test_a_cancelled_gather_of_deliveries_ends() -> None:
    """`gather` asks a cancelled child for its error as it asks asyncio's own futures."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK, request_timeout_ms=500) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.next_answers = [SILENCE]
            deliveries = [producer.send(TOPIC, b"%d" % number) for number in range(3)]
            waiting = asyncio.ensure_future(asyncio.gather(*deliveries))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(waiting, 5)

    asyncio.run(run())


def test_a_program_that_ends_with_a_producer_in_a_task_ends() -> None:
    """`asyncio.run` cancels the sender, too: records that nobody sends any more must fail."""
    ended: list[BaseException | None] = []

    async def run() -> None:
        async def keep(bootstrap: str) -> None:
            async with Producer(bootstrap, **{**QUICK, "linger_ms": 100_000}) as producer:
                delivery = producer.send(TOPIC, b"0")
                delivery.add_done_callback(lambda done: ended.append(done.exception()))
                is_sent.set()
                await asyncio.Event().wait()

        is_sent = asyncio.Event()
        async with cluster() as (node,):
            before = asyncio.all_tasks()
            task = asyncio.create_task(keep(node.broker.bootstrap))
            await asyncio.wait_for(is_sent.wait(), 5)
            for other in asyncio.all_tasks() - before:
                other.cancel()
            await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 5)

    asyncio.run(run())
    assert len(ended) == 1
    assert isinstance(ended[0], ClosedError)


def test_a_duplicate_is_a_success() -> None:
    """PRD-9: the record is in the log, only where is not known."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            node.next_answers = [
                ErrorCode.REQUEST_TIMED_OUT,
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            ]
            assert (await producer.send(TOPIC, b"0")).offset == -1

    asyncio.run(run())


def test_what_cannot_be_there_is_no_duplicate() -> None:
    """A log made anew that took a later number first calls earlier ones duplicates: not written."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.next_answers = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
            assert (await producer.send(TOPIC, b"1")).offset >= 0
            assert node.sequences[-1][-1] == 0, "it was numbered anew, under another epoch"

    asyncio.run(run())


def test_a_lost_identity_is_replaced() -> None:
    """INVALID_PRODUCER_EPOCH without transactions: another producer id, numbers from 0."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.next_answers = [ErrorCode.INVALID_PRODUCER_EPOCH]
            await producer.send(TOPIC, b"1")
            assert node.broker.count(ApiKey.INIT_PRODUCER_ID) == 2
            assert node.sequences[-1] == (0, 0)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, FencedError),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, BarnabasError),
    ],
)
def test_a_given_identity_is_never_replaced(code: ErrorCode, kind: type[Exception]) -> None:
    """Whoever counts its epochs must hear that another one writes; with a new id both would."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, identity=ProducerIdentity(5, 3), **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"0")
            node.next_answers = [code]
            with pytest.raises(kind):
                await producer.send(TOPIC, b"1")
            assert node.broker.count(ApiKey.INIT_PRODUCER_ID) == 0

    asyncio.run(run())


def test_a_refusal_for_good_fails_the_record_and_nothing_else() -> None:
    """The type says what to do; the message names the topic."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            node.next_answers = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            with pytest.raises(AuthorizationError, match="t-0"):
                await producer.send(TOPIC, b"0")
            assert (await producer.send(TOPIC, b"1")).offset == 0

    asyncio.run(run())


def test_a_failure_that_nobody_asks_about_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As asyncio does for its futures; one line for a batch, however many records."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            node.next_answers = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
            await producer.partitions_for(TOPIC)
            for _ in range(3):
                producer.send(TOPIC, b"v")
            await producer.flush()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert "3 records for t-0 were not delivered" in messages[0]


def test_a_throttled_producer_waits() -> None:
    """KIP-219: nothing goes out before the time is over."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            clock = SystemClock()
            node.throttle_time_ms = 150
            await producer.send(TOPIC, b"0")
            node.throttle_time_ms = 0
            before_ms = clock.monotonic_ms()
            await producer.send(TOPIC, b"1")
            assert clock.monotonic_ms() - before_ms >= 100

    asyncio.run(run())


def test_a_topic_that_does_not_appear_fails_after_max_block() -> None:
    """PRD-1: the wait for metadata is bounded, and other topics do not wait with it."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, max_block_ms=100, **QUICK) as producer,
        ):
            missing = MetadataResponseTopic(
                name="missing", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            node.broker.topics = [*node.broker.topics, missing]
            lost = producer.send("missing", b"v")
            assert (await producer.send(TOPIC, b"v")).offset == 0
            with pytest.raises(NotFoundError, match="create it"):
                await lost

    asyncio.run(run())


def test_a_full_buffer_fails_records_in_line_and_then_send_itself() -> None:
    """PRD-2: after `max_block_ms` the promise fails; a line as long as the buffer refuses more."""

    async def run() -> None:
        settings = {"buffer_memory": 3000, "batch_size": 1000, "max_block_ms": 100}
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, request_timeout_ms=500, **QUICK, **settings) as p,
        ):
            await p.send(TOPIC, b"0")
            node.next_answers = [SILENCE] * 6
            sent: list[Delivery] = []
            with pytest.raises(BufferFullError, match="drain"):
                sent.extend(p.send(TOPIC, b"v" * 400) for _ in range(100))
            await asyncio.sleep(0)
            with pytest.raises(BufferFullError, match="max_block_ms=100"):
                await sent[-1]
            node.next_answers = []
            await p.flush()
            assert sent[0].result().offset == 1

    asyncio.run(run())


def test_close_with_a_timeout_fails_what_is_left() -> None:
    """PRD-11: the records may still be in the log, and the error says that it is our doing."""

    async def run() -> None:
        async with cluster() as (node,):
            producer = Producer(node.broker.bootstrap, **QUICK)
            await producer.start()
            await producer.send(TOPIC, b"0")
            node.next_answers = [SILENCE] * 10
            left = producer.send(TOPIC, b"1")
            await producer.close(timeout_ms=50)
            with pytest.raises(ClosedError):
                await left
            assert producer.buffered_bytes == 0

    asyncio.run(run())


def test_at_most_five_requests_are_in_flight_and_they_stay_in_order() -> None:
    """PRD-8: the sixth waits for an answer."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"first")
            held: list[tuple[Received, object]] = []

            def hold(received: Received) -> object:
                held.append((received, node.produce(received)))
                return SILENCE

            node.broker.script[ApiKey.PRODUCE] = hold
            sent = []

            async def has_sent(count: int) -> bool:
                return len(held) == count

            for number in range(8):
                sent.append(producer.send(TOPIC, b"%d" % number))
                await eventually(lambda: has_sent(min(len(sent), 5)))
            node.broker.script[ApiKey.PRODUCE] = node.produce
            for received, answer in held:
                received.connection.answer(received, answer)  # type: ignore[arg-type]
            await producer.flush()
            assert node.values == [b"first", *(b"%d" % number for number in range(8))]
            assert [delivery.result().offset for delivery in sent] == list(range(1, 9))

    asyncio.run(run())


def test_an_answer_for_a_topic_that_was_made_anew_meanwhile_still_counts() -> None:
    """Answers name topics by id; the request's ids decide, not the newest metadata."""

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK) as producer,
        ):
            await producer.send(TOPIC, b"0")
            held: list[tuple[Received, object]] = []

            def hold(received: Received) -> object:
                held.append((received, node.produce(received)))
                return SILENCE

            async def is_held() -> bool:
                return bool(held)

            node.broker.script[ApiKey.PRODUCE] = hold
            delivery = producer.send(TOPIC, b"1")
            await eventually(is_held)
            # As new metadata would, which come on another connection.
            producer.internals.admission.topics[TOPIC].topic_id = b"j" * 16
            received, answer = held[0]
            received.connection.answer(received, answer)  # type: ignore[arg-type]
            assert (await delivery).offset == 1
            node.broker.script[ApiKey.PRODUCE] = node.produce
            await producer.send(TOPIC, b"2")
            assert node.broker.received[-1].message.topic_data[0].topic_id == b"j" * 16

    asyncio.run(run())


def test_a_topic_that_is_idle_is_not_asked_for_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was deleted would be asked for as long as the program lives."""
    monkeypatch.setattr(producer_module, "METADATA_IDLE_MS", -1)

    async def run() -> None:
        async with (
            cluster() as (node,),
            Producer(node.broker.bootstrap, **QUICK, metadata_max_age_ms=20) as producer,
        ):
            await producer.send(TOPIC, b"0")

            async def is_forgotten() -> bool:
                asked = [one for one in node.broker.received if one.api == ApiKey.METADATA]
                return asked[-1].message.topics == []

            await eventually(is_forgotten)
            await producer.send(TOPIC, b"1")
            assert node.values == [b"0", b"1"]
            assert node.sequences == [(0, 0), (0, 1)]

    asyncio.run(run())


def test_transactions_fail_at_once_where_no_broker_serves_them() -> None:
    """Instead of looking for a coordinator until `max_block_ms` is over."""

    async def run() -> None:
        async with cluster() as (node,):
            del node.broker.versions[ApiKey.END_TXN]
            settings = {**QUICK, "transactional_id": "t"}
            async with Producer(node.broker.bootstrap, **settings) as producer:
                with pytest.raises(UnsupportedError, match="END_TXN"):
                    await producer.init_transactions()

    asyncio.run(run())
