"""What an application calls around a transaction: begin, offsets, commit, abort.

Not here: the state (`transactions.py`), the requests (`transaction_coordinator.py`).

Invariants: before EndTxn every record of the transaction is acknowledged or given up, so that the
marker comes behind all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from barnabas_client.cluster.offsets import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    checked_offsets,
)
from barnabas_client.errors import BarnabasError
from barnabas_client.producer.transaction_coordinator import TransactionCoordinator
from barnabas_client.producer.transactions import TransactionState, TransactionStatus
from barnabas_protocol.ids import TopicPartition

_ABORTED_AT_THE_END: Final = (
    TransactionStatus.OPEN,
    TransactionStatus.FAILED,
    TransactionStatus.ABORTING,
)


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
        # Ends a transaction whose caller was cancelled and does not wait for it.
        self._ending: asyncio.Task[None] | None = None

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
        await self.has_ended()
        self.state.move(TransactionStatus.COMMITTING)
        await self._flush()
        # A record may have failed meanwhile; then this raises.
        self.state.move(TransactionStatus.COMMITTING)
        await self._coordinator.end(is_committed=True)

    async def abort(self) -> None:
        """See `Producer.abort_transaction`."""
        if await self.has_ended():
            return
        await self._abort()

    async def _abort(self) -> None:
        self.state.move(TransactionStatus.ABORTING)
        await self._flush()
        await self._coordinator.end(is_committed=False)

    async def close(self) -> None:
        """End what is open, so that readers need not wait for the transaction's timeout."""
        if not await self.has_ended():
            await self._end_if_open()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """See `Producer.transaction`."""
        if self.state.status is TransactionStatus.UNINITIALIZED:
            await self.initialize()
        await self.has_ended()
        self.begin()
        try:
            yield
            await self.commit()
        except asyncio.CancelledError:
            # Who was cancelled must not be kept; whoever comes next waits for the end.
            self._ending = asyncio.create_task(self._end_if_open())
            raise
        except BaseException:
            await self._end_if_open()
            raise

    async def has_ended(self) -> bool:
        """Wait for the end of a transaction whose caller was cancelled; whether it came to one."""
        if self._ending is None:
            return False
        await asyncio.wait([self._ending])
        self._ending = None
        return self.state.status is TransactionStatus.READY

    async def _end_if_open(self) -> None:
        """Abort what is open; a commit or an abort that was asked for already is asked for again.

        The reason to do so says more than an error of the end.
        """
        state = self.state
        with contextlib.suppress(BarnabasError):
            if state.status is TransactionStatus.COMMITTING and state.is_end_sent:
                await self._coordinator.end(is_committed=True)
            elif state.is_undecided or state.status in _ABORTED_AT_THE_END:
                await self._abort()


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
        calls = self._transactional()
        await calls.has_ended()
        calls.begin()

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
