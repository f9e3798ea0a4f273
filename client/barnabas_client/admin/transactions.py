"""Transactions: InitProducerId (22), WriteTxnMarkers (27), DescribeProducers (61), DescribeTransactions (65), ListTransactions (66)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.transactions import (
    FencedProducer,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from barnabas_protocol.ids import TopicPartition


class Transactions:
    """`admin.transactions`."""

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
        """Transactional ids of all coordinators. Raises: what went wrong."""
        raise NotImplementedError

    async def describe(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, TransactionDescription]:
        """What transactional ids are doing."""
        raise NotImplementedError

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        node_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that partitions know, asked of the leader or of a given broker."""
        raise NotImplementedError

    async def abort(
        self, transaction: HangingTransaction, *, timeout_ms: int | None = None
    ) -> None:
        """End a transaction that is open on a partition and that its coordinator has forgotten. Raises: what went wrong."""
        raise NotImplementedError

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, FencedProducer]:
        """Shut out whoever uses the transactional ids, aborting what is open."""
        raise NotImplementedError
