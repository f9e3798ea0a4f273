"""What an application calls around a transaction: begin, offsets, commit, abort.

Not here: the state (`transactions.py`), the requests (`transaction_coordinator.py`).

Invariants: before EndTxn every record of the transaction is acknowledged or given up, so that the
marker comes behind all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from barnabas_client.cluster.offsets import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    checked_offsets,
)
from barnabas_client.errors import BarnabasError
from barnabas_client.producer.transaction_coordinator import TransactionCoordinator
from barnabas_client.producer.transactions import TransactionState, TransactionStatus
from barnabas_protocol.ids import TopicPartition


class TransactionCalls:
    """The transactional half of a producer."""

    def __init__(
        self,
        state: TransactionState,
        coordinator: TransactionCoordinator,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self.state = state
        self._coordinator = coordinator
        # Also wakes the sender, which gives up what may not go out any more.
        self._flush = flush

    async def initialize(self) -> None:
        """See `Producer.init_transactions`."""
        await self._coordinator.initialize()

    def begin(self) -> None:
        """See `Producer.begin_transaction`."""
        self.state.begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """See `Producer.send_offsets`."""
        self.state.check_can_send()
        checked = checked_offsets(offsets)
        if checked:
            await self._coordinator.send_offsets(checked, group)

    async def commit(self) -> None:
        """See `Producer.commit_transaction`."""
        self.state.move(TransactionStatus.COMMITTING)
        await self._flush()
        # A record may have failed meanwhile; then this raises.
        self.state.move(TransactionStatus.COMMITTING)
        await self._coordinator.end(is_committed=True)

    async def abort(self) -> None:
        """See `Producer.abort_transaction`."""
        self.state.move(TransactionStatus.ABORTING)
        await self._flush()
        await self._coordinator.end(is_committed=False)

    async def close(self) -> None:
        """Abort what is open, so that readers need not wait for the transaction's timeout."""
        await self._abort_if_open()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """See `Producer.transaction`."""
        if self.state.status is TransactionStatus.UNINITIALIZED:
            await self.initialize()
        self.begin()
        try:
            yield
            await self.commit()
        except BaseException:
            await self._abort_if_open()
            raise

    async def _abort_if_open(self) -> None:
        """Abort what can be aborted; the reason to do so says more than an error of the abort."""
        if self.state.status in (TransactionStatus.OPEN, TransactionStatus.FAILED):
            with contextlib.suppress(BarnabasError):
                await self.abort()


class TransactionMethods:
    """The part of `Producer` that needs the setting `transactional_id`."""

    def _transactional(self) -> TransactionCalls:
        raise NotImplementedError

    async def init_transactions(self) -> None:
        """Become the only producer with this `transactional_id`; once, after `start`.

        What a former instance left open is aborted.
        Raises: TimedOutError after `max_block_ms`: call it again; what the coordinator refuses.
        """
        await self._transactional().initialize()

    async def begin_transaction(self) -> None:
        """Open a transaction: every record from here on belongs to it.

        Raises: IllegalStateError; FencedError if another producer has taken over.
        """
        self._transactional().begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer's offsets with the transaction, or not at all.

        Raises: CommitFailedError if the consumer lost its membership: abort; TimedOutError.
        """
        await self._transactional().send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Flush, then make all of the transaction visible at once.

        Raises: AbortableError if a record failed: abort; TimedOutError after `max_block_ms`: call
        it again; FencedError.
        """
        await self._transactional().commit()

    async def abort_transaction(self) -> None:
        """Give up all of the transaction; what was not sent yet fails with AbortableError.

        Raises: TimedOutError after `max_block_ms`: call it again; FencedError.
        """
        await self._transactional().abort()

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """`async with producer.transaction():` begins, then commits, or aborts on an exception.

        Calls `init_transactions` the first time if that was not done.
        """
        return self._transactional().transaction()
