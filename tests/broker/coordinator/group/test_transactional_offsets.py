"""Offsets in transactions while the coordinator's writes wait for one another."""

import asyncio

import pytest

from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.control import ControlType, TransactionMarker
from tests.broker.coordinator.group.coordinator_world import (
    GROUP,
    PARTITION,
    World,
    context,
    virtually,
)

PRODUCER_ID, PRODUCER_EPOCH = 9, 4


class TransactionalWorld(World):
    """A coordinator, and what its log says of one producer's transaction."""

    def is_open(self) -> bool:
        batches = self.writer.log(TopicPartition("__consumer_offsets", PARTITION)).batches
        headers = [read_header(batch) for _, batch in batches]
        of_producer = [header for header in headers if header.producer_id == PRODUCER_ID]
        return bool(of_producer) and not of_producer[-1].is_control

    async def commit_in_transaction(self, offset: int, *, needs_open: bool) -> ErrorCode:
        def check() -> None:
            if needs_open and not self.is_open():
                raise KafkaError(ErrorCode.INVALID_TXN_STATE)

        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=GROUP,
            producer_id=PRODUCER_ID,
            producer_epoch=PRODUCER_EPOCH,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                    ],
                )
            ],
        )
        response = await self.groups.txn_offset_commit(request, context(4), check)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def end(self, control_type: ControlType, *, needs_closed: bool = False) -> None:
        def check() -> None:
            if needs_closed and self.is_open():
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

        marker = TransactionMarker(control_type, 1)
        await self.groups.end_transaction(
            PARTITION, PRODUCER_ID, PRODUCER_EPOCH, marker, check, lambda: None
        )

    def shown(self) -> int | None:
        (_, shard), *_ = self.groups.runtime.shards()
        committed = shard.offsets.of_group(GROUP).get(("t", 0))
        return None if committed is None else committed.offset

    def is_pending(self) -> bool:
        (_, shard), *_ = self.groups.runtime.shards()
        return shard.offsets.has_pending_of(GROUP)


def test_offsets_do_not_follow_the_marker_that_waits_to_end_their_transaction() -> None:
    """TXL-10, TXN-12: they would open another transaction, which nobody ends."""

    async def scenario() -> None:
        world = TransactionalWorld()
        await world.start()
        assert await world.commit_in_transaction(5, needs_open=False) is ErrorCode.NONE
        world.writer.pause()
        plain = asyncio.ensure_future(world.commit(1))
        await asyncio.sleep(0.1)
        marker = asyncio.ensure_future(world.end(ControlType.ABORT))
        await asyncio.sleep(0.1)
        assert world.is_open()
        late = asyncio.ensure_future(world.commit_in_transaction(6, needs_open=True))
        await asyncio.sleep(0.1)
        world.writer.resume()
        await marker
        assert await late is ErrorCode.INVALID_TXN_STATE
        assert await plain is ErrorCode.NONE
        assert not world.is_open()
        assert not world.is_pending()
        assert world.shown() == 1
        await world.groups.runtime.close()

    virtually(scenario())


def test_late_marker_does_not_publish_offsets_that_wait_to_be_written() -> None:
    """TXN-12, TXL-3: they are the next transaction's, as the log says when it has them."""

    async def scenario() -> None:
        world = TransactionalWorld()
        await world.start()
        world.writer.pause()
        plain = asyncio.ensure_future(world.commit(1))
        await asyncio.sleep(0.1)
        offsets = asyncio.ensure_future(world.commit_in_transaction(7, needs_open=False))
        await asyncio.sleep(0.1)
        late = asyncio.ensure_future(world.end(ControlType.COMMIT, needs_closed=True))
        await asyncio.sleep(0.1)
        world.writer.resume()
        with pytest.raises(KafkaError) as caught:
            await late
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await plain, await offsets) == (ErrorCode.NONE, ErrorCode.NONE)
        assert world.is_pending()
        assert world.shown() == 1
        await world.end(ControlType.COMMIT)
        assert world.shown() == 7
        await world.groups.runtime.close()

    virtually(scenario())
