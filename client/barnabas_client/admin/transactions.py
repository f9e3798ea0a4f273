"""`admin.transactions`: ListTransactions (66), DescribeTransactions (65), DescribeProducers (61),
WriteTxnMarkers (27) to abort, InitProducerId (22) to fence.

Transactional ids are sent to their coordinators, producers and hanging transactions of partition
leaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from barnabas_client.admin.api_errors import ApiError, error_of
from barnabas_client.admin.lookup_strategies import (
    TRANSACTION,
    CoordinatorStrategy,
    LookupStrategy,
    PartitionLeaderStrategy,
    StaticBrokerStrategy,
)
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext
from barnabas_client.admin.values.transactions import (
    FencedProducer,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from barnabas_client.cluster.partitions import by_topic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas_protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas_protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas_protocol.messages.list_transactions import ListTransactionsRequest
from barnabas_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

# The first versions of ListTransactions that select by duration and by pattern.
_DURATION_VERSION: Final = 1
_PATTERN_VERSION: Final = 2
# From version 2 on markers say which form of transactions they end; that is for coordinators.
_MARKERS_MAX: Final = 1
# Version 6 of InitProducerId belongs to two-phase commit, which is not stable.
_INIT_PRODUCER_ID_MAX: Final = 5


class Transactions:
    """What can be done about transactions."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self,
        *,
        states: Collection[TransactionState] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: int | None = None,
    ) -> tuple[TransactionListing, ...]:
        """The transactional ids of all coordinators, by name; what is given narrows the list.

        The pattern is a regular expression as RE2 reads it.

        Raises: UnsupportedError if a broker cannot select like that; TimedOutError, or what a
        broker says.
        """
        version_min = 0 if longer_than_ms is None else _DURATION_VERSION
        if transactional_id_pattern is not None:
            version_min = _PATTERN_VERSION

        def call(to: LookupStrategy[int]) -> Call[int, tuple[TransactionListing, ...]]:
            return Call(
                action="list transactions of broker",
                api=ApiKey.LIST_TRANSACTIONS,
                to=to,
                build=lambda context: ListTransactionsRequest(
                    state_filters=[state.value for state in states],
                    producer_id_filters=[*producer_ids],
                    duration_filter=-1 if longer_than_ms is None else longer_than_ms,
                    transactional_id_pattern=transactional_id_pattern,
                ),
                read=lambda response, context: {
                    context.node_id: error_of(response) or _listings(response)
                },
                version_min=version_min,
            )

        by_broker = (await self._routing.every_broker(call, timeout_ms)).unwrap()
        listings = [one for some in by_broker.values() for one in some]
        return tuple(sorted(listings, key=lambda one: one.transactional_id))

    async def describe(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, TransactionDescription]:
        """What transactional ids are doing, and which partitions their transactions touch."""
        call = Call[str, TransactionDescription](
            action="describe transaction",
            api=ApiKey.DESCRIBE_TRANSACTIONS,
            to=CoordinatorStrategy(TRANSACTION, str),
            build=lambda context: DescribeTransactionsRequest(transactional_ids=[*context.keys]),
            read=lambda response, context: {
                one.transactional_id: error_of(one) or _described(one, context.node_id)
                for one in response.transaction_states
            },
        )
        return await self._routing.each(transactional_ids, call, timeout_ms)

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        node_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that partitions know; sent to the leaders unless a broker is named."""
        to: LookupStrategy[TopicPartition] = PartitionLeaderStrategy(lambda partition: partition)
        if node_id is not None:
            named = node_id
            to = StaticBrokerStrategy(lambda _: named)
        call = Call[TopicPartition, tuple[ProducerState, ...]](
            action="describe producers of",
            api=ApiKey.DESCRIBE_PRODUCERS,
            to=to,
            build=lambda context: DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=[one.partition for one in some])
                    for topic, some in by_topic(context.keys).items()
                ]
            ),
            read=lambda response, context: {
                TopicPartition(topic.name, one.partition_index): error_of(one)
                or tuple(_producer(producer) for producer in one.active_producers)
                for topic in response.topics
                for one in topic.partitions
            },
        )
        return await self._routing.each(partitions, call, timeout_ms)

    async def find_hanging(
        self,
        partitions: Iterable[TopicPartition],
        *,
        written_before_ms: int,
        timeout_ms: int | None = None,
    ) -> tuple[HangingTransaction, ...]:
        """The transactions that are open on partitions and that no coordinator is going to end.

        Only those whose newest record is older than a point in time in Unix milliseconds: a
        younger one may be on its way to its coordinator. Choose one longer ago than any
        transaction may last (`transaction.max.timeout.ms`).

        Raises: TimedOutError, or what a broker says.
        """
        known = (await self.describe_producers(partitions, timeout_ms=timeout_ms)).unwrap()
        found = [
            HangingTransaction(
                partition=partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=(
                    -1 if producer.coordinator_epoch is None else producer.coordinator_epoch
                ),
                start_offset=producer.transaction_start_offset,
                last_timestamp_ms=producer.last_timestamp_ms,
            )
            for partition, producers in known.items()
            for producer in producers
            if producer.transaction_start_offset is not None
            and (producer.last_timestamp_ms or 0) < written_before_ms
        ]
        if not found:
            return ()
        listed = await self.list(
            producer_ids={one.producer_id for one in found}, timeout_ms=timeout_ms
        )
        names = [one.transactional_id for one in listed]
        described = await self.describe(names, timeout_ms=timeout_ms)
        open_places = {
            (one.producer_id, partition)
            for one in described.successes.values()
            for partition in one.partitions
        }
        return tuple(one for one in found if (one.producer_id, one.partition) not in open_places)

    async def abort(
        self, transaction: HangingTransaction, *, timeout_ms: int | None = None
    ) -> None:
        """End a transaction that is open on a partition and that its coordinator has forgotten.

        Records of a transaction that is not forgotten are lost by this, too: look first.

        Raises: FencedError if the producer has moved on; TimedOutError, or what the broker says.
        """
        call = Call[TopicPartition, None](
            action=f"abort the transaction of producer {transaction.producer_id} on",
            api=ApiKey.WRITE_TXN_MARKERS,
            to=PartitionLeaderStrategy(lambda partition: partition),
            build=lambda context: _abort_marker(transaction),
            read=_aborted,
            is_change=True,
            # The producer may have begun its next transaction there.
            is_repeatable=False,
            version_max=_MARKERS_MAX,
        )
        outcomes = await self._routing.each([transaction.partition], call, timeout_ms)
        outcomes[transaction.partition].unwrap()

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, FencedProducer]:
        """Shut out whoever uses the transactional ids; what they have open is aborted."""
        call = Call[str, FencedProducer](
            action="fence the producer",
            api=ApiKey.INIT_PRODUCER_ID,
            to=CoordinatorStrategy(TRANSACTION, str),
            build=lambda context: InitProducerIdRequest(
                transactional_id=context.keys[0], transaction_timeout_ms=context.timeout_ms
            ),
            read=lambda response, context: {
                context.keys[0]: error_of(response)
                or FencedProducer(
                    producer_id=response.producer_id, producer_epoch=response.producer_epoch
                )
            },
            is_change=True,
            version_max=_INIT_PRODUCER_ID_MAX,
            items_per_request=lambda _: 1,
        )
        return await self._routing.each(transactional_ids, call, timeout_ms)


def _listings(response: Any) -> tuple[TransactionListing, ...] | ApiError:
    if response.unknown_state_filters:
        unknown = ", ".join(response.unknown_state_filters)
        return ApiError(ErrorCode.INVALID_REQUEST, f"it does not know the states {unknown}")
    return tuple(
        TransactionListing(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            state=TransactionState(one.transaction_state),
        )
        for one in response.transaction_states
    )


def _described(one: Any, coordinator_id: int) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=one.transactional_id,
        coordinator_id=coordinator_id,
        state=TransactionState(one.transaction_state),
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        timeout_ms=one.transaction_timeout_ms,
        started_at_ms=_known(one.transaction_start_time_ms),
        partitions=tuple(
            TopicPartition(topic.topic, partition)
            for topic in one.topics
            for partition in topic.partitions
        ),
    )


def _producer(one: Any) -> ProducerState:
    return ProducerState(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        last_sequence=_known(one.last_sequence),
        last_timestamp_ms=_known(one.last_timestamp),
        coordinator_epoch=_known(one.coordinator_epoch),
        transaction_start_offset=_known(one.current_txn_start_offset),
    )


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _abort_marker(transaction: HangingTransaction) -> WriteTxnMarkersRequest:
    partition = transaction.partition
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(
                        name=partition.topic, partition_indexes=[partition.partition]
                    )
                ],
                coordinator_epoch=transaction.coordinator_epoch,
            )
        ]
    )


def _aborted(
    response: Any, _: RequestContext[TopicPartition]
) -> dict[TopicPartition, ApiError | None]:
    return {
        TopicPartition(topic.name, one.partition_index): error_of(one)
        for marker in response.markers
        for topic in marker.topics
        for one in topic.partitions
    }
