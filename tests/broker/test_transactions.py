"""Transactions of both versions through a whole broker, request by request."""

import asyncio

import pytest

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    describe_producers,
    describe_transactions,
    fetch,
    list_transactions,
    produce,
    write_txn_markers,
)
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient
from tests.support.transactional_client import (
    V1,
    V2,
    TransactionalClient,
    committed,
    make_topic,
    read,
)

TOPIC, GROUP = "orders", "billing"
versions = pytest.mark.parametrize("version", [V1, V2])


def with_producer(tmp_path, version, work, **properties):
    """Run against a broker with a producer that has begun."""

    async def scenario():
        async with (
            running_broker(tmp_path, **properties) as server,
            await RawClient.connect(server.port) as client,
        ):
            await make_topic(client, TOPIC)
            producer = TransactionalClient(client, "tx-1", version)
            await producer.find_coordinator()
            assert await producer.init() == ErrorCode.NONE
            await work(server, client, producer)

    asyncio.run(scenario())


@pytest.mark.parametrize("replica_id", [-2, -3, -(2**31)])
def test_no_client_reads_what_is_not_committed(tmp_path, replica_id):
    """TXL-7: whoever is no broker is a consumer, whatever it calls itself."""

    async def work(server, client, producer):
        await producer.add(TOPIC, 0)
        assert await producer.write(TOPIC, b"open") == ErrorCode.NONE
        partition = fetch.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        request = fetch.FetchRequest(
            replica_id=replica_id,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[fetch.FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        response = await client.call(ApiKey.FETCH, 12, request)
        (data,) = response.responses[0].partitions
        assert (data.error_code, data.last_stable_offset) == (0, 0)
        assert not bytes(data.records or b"")
        assert await producer.end(commits=False) == ErrorCode.NONE

    with_producer(tmp_path, V1, work)


async def ends_visibly(producer, client, *, commits):
    """End, and wait for the markers: readers see the outcome a moment after the response."""
    assert await producer.end(commits=commits) == ErrorCode.NONE

    async def is_stable():
        _, everything = await read(client, TOPIC, isolation_level=0)
        _, stable = await read(client, TOPIC)
        return stable == everything or await no_open_transaction(client)

    await eventually(is_stable)


async def describe(client, transactional_id):
    response = await client.call(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        describe_transactions.DescribeTransactionsRequest(transactional_ids=[transactional_id]),
    )
    return response.transaction_states[0]


async def no_open_transaction(client):
    response = await client.call(
        ApiKey.LIST_TRANSACTIONS, 0, list_transactions.ListTransactionsRequest()
    )
    return all(
        one.transaction_state in ("Empty", "CompleteCommit", "CompleteAbort")
        for one in response.transaction_states
    )


@versions
def test_committed_records_show_and_aborted_ones_do_not(tmp_path, version):
    """TXN-9, TXL-5, TXL-7."""

    async def work(server, client, producer):
        assert await producer.write(TOPIC, b"one", b"two") == ErrorCode.NONE
        assert (await read(client, TOPIC))[0] == []
        assert (await read(client, TOPIC, isolation_level=0))[0] == [b"one", b"two"]
        await ends_visibly(producer, client, commits=True)
        assert (await read(client, TOPIC))[0] == [b"one", b"two"]
        assert await producer.write(TOPIC, b"never") == ErrorCode.NONE
        await ends_visibly(producer, client, commits=False)
        assert await producer.write(TOPIC, b"three") == ErrorCode.NONE
        await ends_visibly(producer, client, commits=True)
        assert (await read(client, TOPIC))[0] == [b"one", b"two", b"three"]

    with_producer(tmp_path, version, work)


def test_next_transaction_waits_for_the_end_of_the_one_before_and_no_longer(tmp_path):
    """TXL-11: where the coordinator is the same broker, its backoff is only the longest wait."""

    async def work(server, client, producer):
        async with asyncio.timeout(30):
            for number in range(20):
                assert await producer.write(TOPIC, b"%d" % number) == ErrorCode.NONE
                assert await producer.end(commits=True) == ErrorCode.NONE

    backoff = {f"add.partitions.to.txn.retry.backoff{end}.ms": "60000" for end in ("", ".max")}
    with_producer(tmp_path, V2, work, **backoff)


@versions
def test_offsets_show_when_their_transaction_commits(tmp_path, version):
    """TXN-4, TXN-12: and until then who wants stable ones is asked to wait (88)."""

    async def work(server, client, producer):
        await make_topic(client, "__consumer_offsets")
        assert await producer.commit_offsets(GROUP, TOPIC, 7) == ErrorCode.NONE
        assert await committed(client, GROUP, TOPIC) == (-1, ErrorCode.NONE)
        unstable = -1, ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert await committed(client, GROUP, TOPIC, require_stable=True) == unstable
        await ends_visibly(producer, client, commits=True)
        assert await committed(client, GROUP, TOPIC, require_stable=True) == (7, 0)
        assert await producer.commit_offsets(GROUP, TOPIC, 9) == ErrorCode.NONE
        await ends_visibly(producer, client, commits=False)
        assert await committed(client, GROUP, TOPIC, require_stable=True) == (7, 0)

    with_producer(tmp_path, version, work)


@versions
def test_offsets_of_a_transaction_outlive_a_restart_of_the_coordinator(tmp_path, version):
    """TXN-12: pending ones stay pending, and the marker that comes later decides."""

    async def begin(server, client, producer):
        await make_topic(client, "__consumer_offsets")
        assert await producer.commit_offsets(GROUP, TOPIC, 7) == ErrorCode.NONE
        begun.append((producer.producer_id, producer.producer_epoch))

    async def go_on():
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            producer = TransactionalClient(client, "tx-1", version)
            await producer.find_coordinator()
            ((producer.producer_id, producer.producer_epoch),) = begun

            async def is_ended():
                return await producer.end(commits=True) == ErrorCode.NONE

            await eventually(is_ended)

            async def is_committed():
                return await committed(client, GROUP, TOPIC, require_stable=True) == (7, 0)

            await eventually(is_committed)

    begun = []
    with_producer(tmp_path, version, begin)
    asyncio.run(go_on())


def test_batch_of_a_partition_that_was_not_added_is_refused(tmp_path):
    """TXL-9, TXL-11: nothing may be written that no marker will ever end."""

    async def work(server, client, producer):
        assert await producer.send(TOPIC, b"stray") == ErrorCode.TRANSACTION_ABORTABLE
        assert (await read(client, TOPIC, isolation_level=0))[0] == []

    with_producer(tmp_path, V1, work)


def test_no_transaction_has_an_internal_partition_because_somebody_wrote_to_it(tmp_path):
    """TXN-3: the batch is refused, and no marker is to be written there."""

    async def work(server, client, producer):
        refused = await producer.send("__transaction_state", b"stray", partition=0)
        assert refused == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert (await describe(client, "tx-1")).transaction_state == "Empty"

    with_producer(tmp_path, V2, work)


def test_refusal_of_a_request_that_wants_no_response_ends_the_connection(tmp_path):
    """REQ-2: with acks=0 a response would be taken for that of the next request."""

    async def work(server, client, producer):
        batches = [
            encode_batch(
                [Record(0, 1_000, None, b"x")],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            for producer_id in (producer.producer_id, producer.producer_id + 1)
        ]
        request = produce.ProduceRequest(
            transactional_id="tx-1",
            acks=0,
            timeout_ms=5_000,
            topic_data=[
                produce.TopicProduceData(
                    name=TOPIC,
                    partition_data=[
                        produce.PartitionProduceData(index=0, records=batch) for batch in batches
                    ],
                )
            ],
        )
        async with await RawClient.connect(server.port) as other:
            with pytest.raises(asyncio.IncompleteReadError):
                await other.call(ApiKey.PRODUCE, 12, request)

    with_producer(tmp_path, V2, work)


@versions
def test_late_batch_of_an_ended_transaction_is_refused(tmp_path, version):
    """TXL-9, TXL-10: the hole that KIP-890 closes: what comes late would hang for ever."""

    async def work(server, client, producer):
        assert await producer.write(TOPIC, b"one") == ErrorCode.NONE
        old = producer.producer_epoch
        await ends_visibly(producer, client, commits=True)
        late = TransactionalClient(client, "tx-1", version)
        late.producer_id, late.producer_epoch = producer.producer_id, old
        assert await late.send(TOPIC, b"late", sequence=1) in (
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        )
        assert (await read(client, TOPIC))[0] == [b"one"]

    with_producer(tmp_path, version, work)


def test_late_addition_of_an_earlier_transaction_is_fenced_in_version_2(tmp_path):
    """TXN-13: in version 1 it would get into the next one, which nobody can tell apart."""

    async def work(server, client, producer):
        assert await producer.write(TOPIC, b"one") == ErrorCode.NONE
        old = producer.producer_epoch
        await ends_visibly(producer, client, commits=True)
        late = TransactionalClient(client, "tx-1", V1)
        late.producer_id, late.producer_epoch = producer.producer_id, old
        assert await late.add(TOPIC, 0) == [ErrorCode.PRODUCER_FENCED]
        assert await producer.end(commits=True, producer_epoch=old) == ErrorCode.NONE

    with_producer(tmp_path, V2, work)


@versions
def test_second_producer_fences_the_first_and_aborts_what_it_had_open(tmp_path, version):
    """TXN-2."""

    async def work(server, client, producer):
        assert await producer.write(TOPIC, b"zombie") == ErrorCode.NONE
        second = TransactionalClient(client, "tx-1", version)
        assert await second.init() == ErrorCode.NONE
        assert second.producer_epoch > producer.producer_epoch
        assert await producer.send(TOPIC, b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.end(commits=True) == ErrorCode.PRODUCER_FENCED
        assert await second.write(TOPIC, b"alive") == ErrorCode.NONE
        await ends_visibly(second, client, commits=True)
        assert (await read(client, TOPIC))[0] == [b"alive"]

    with_producer(tmp_path, version, work)


@versions
def test_transaction_whose_producer_is_gone_is_aborted_after_its_time(tmp_path, version):
    """TXN-7."""

    async def work(server, client, producer):
        # Long enough for the write on a busy machine.
        assert await producer.init(timeout_ms=2_000) == ErrorCode.NONE
        assert await producer.write(TOPIC, b"forgotten") == ErrorCode.NONE

        async def is_aborted():
            return await no_open_transaction(client)

        await eventually(is_aborted)
        values, stable = await read(client, TOPIC)
        assert (values, stable) == ([], 2)
        refused = ErrorCode.PRODUCER_FENCED if version == V1 else ErrorCode.INVALID_TXN_STATE
        assert await producer.end(commits=True) == refused

    with_producer(
        tmp_path,
        version,
        work,
        transaction_abort_timed_out_transaction_cleanup_interval_ms="50",
    )


@pytest.mark.parametrize("code", ["unknown", "internal"])
def test_partitions_are_added_all_or_none(tmp_path, code):
    """TXN-3."""

    async def work(server, client, producer):
        if code == "unknown":
            unknown, other = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
            assert await producer.add(TOPIC, 0, 99) == [other, unknown]
        else:
            assert await producer.add("__transaction_state", 0) == [
                ErrorCode.TOPIC_AUTHORIZATION_FAILED
            ]
        assert await producer.end(commits=True) == ErrorCode.INVALID_TXN_STATE

    with_producer(tmp_path, V1, work)


def test_who_has_not_begun_a_transaction_counts_as_open_for_ever(tmp_path):
    """TXN-10: as in Apache Kafka, which takes "no time" for a moment long ago."""

    async def work(server, client, producer):
        for least_ms, found in ((-1, ["tx-1"]), (3_600_000, ["tx-1"])):
            request = list_transactions.ListTransactionsRequest(duration_filter=least_ms)
            listed = await client.call(ApiKey.LIST_TRANSACTIONS, 2, request)
            assert [one.transactional_id for one in listed.transaction_states] == found

    with_producer(tmp_path, V2, work)


def test_transactions_are_described_and_listed_as_tools_want_it(tmp_path):
    """TXN-10."""

    async def work(server, client, producer):
        assert await producer.write(TOPIC, b"one") == ErrorCode.NONE
        described = await client.call(
            ApiKey.DESCRIBE_TRANSACTIONS,
            0,
            describe_transactions.DescribeTransactionsRequest(
                transactional_ids=["tx-1", "nobody", ""]
            ),
        )
        known, unknown, empty = described.transaction_states
        assert (known.transaction_state, known.producer_id) == ("Ongoing", producer.producer_id)
        assert [(topic.topic, topic.partitions) for topic in known.topics] == [(TOPIC, [0])]
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_REQUEST
        for request, found in (
            ({}, ["tx-1"]),
            ({"state_filters": ["Ongoing", "Nonsense"]}, ["tx-1"]),
            ({"state_filters": ["Empty"]}, []),
            ({"producer_id_filters": [producer.producer_id + 1]}, []),
            ({"duration_filter": 3_600_000}, []),
            ({"transactional_id_pattern": "tx-[0-9]"}, ["tx-1"]),
            ({"transactional_id_pattern": "x"}, []),
        ):
            listed = await client.call(
                ApiKey.LIST_TRANSACTIONS, 2, list_transactions.ListTransactionsRequest(**request)
            )
            assert [one.transactional_id for one in listed.transaction_states] == found, request
        listed = await client.call(
            ApiKey.LIST_TRANSACTIONS,
            2,
            list_transactions.ListTransactionsRequest(
                state_filters=["Nonsense", "Dead"], transactional_id_pattern=None
            ),
        )
        assert listed.unknown_state_filters == ["Nonsense"]
        # The last two took the loop for 0.2 s.
        for pattern in ("(", "a" * 1_001, r"(\pL|\pN|\pS){100}" * 3, r"\pL" * 330):
            bad = await client.call(
                ApiKey.LIST_TRANSACTIONS,
                2,
                list_transactions.ListTransactionsRequest(transactional_id_pattern=pattern),
            )
            assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    with_producer(tmp_path, V2, work)


def test_hanging_transaction_is_found_and_aborted_by_its_marker(tmp_path):
    """TXN-10: what `kafka-transactions find-hanging` and `abort` do."""

    async def work(server, client, producer):
        assert await producer.write(TOPIC, b"hangs") == ErrorCode.NONE
        request = describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0, 9])]
        )
        response = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request)
        found, absent = response.topics[0].partitions
        assert absent.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (state,) = found.active_producers
        assert (state.producer_id, state.current_txn_start_offset) == (producer.producer_id, 0)
        assert (state.last_sequence, state.coordinator_epoch) == (0, -1)
        markers = await client.call(
            ApiKey.WRITE_TXN_MARKERS,
            1,
            write_txn_markers.WriteTxnMarkersRequest(
                markers=[
                    write_txn_markers.WritableTxnMarker(
                        producer_id=state.producer_id,
                        producer_epoch=state.producer_epoch,
                        transaction_result=False,
                        coordinator_epoch=state.coordinator_epoch,
                        topics=[
                            write_txn_markers.WritableTxnMarkerTopic(
                                name=TOPIC, partition_indexes=[0, 9]
                            )
                        ],
                    )
                ]
            ),
        )
        codes = [one.error_code for one in markers.markers[0].topics[0].partitions]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await read(client, TOPIC) == ([], 2)

    with_producer(tmp_path, V2, work)
