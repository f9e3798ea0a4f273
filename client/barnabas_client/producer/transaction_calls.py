"""The calls of an application about transactions: begin, offsets, commit, abort.

Not here: the state (`transactions.py`), the requests (`transaction_manager.py`).

Invariants: before EndTxn every record of the transaction is acknowledged or has failed, so that the
marker comes behind all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from barnabas_client.cluster.offsets import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    checked_offsets,
)
from barnabas_client.errors import BarnabasError
from barnabas_client.producer.transaction_manager import TransactionManager
from barnabas_client.producer.transactions import ProducerTransaction, TransactionStatus
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
        state: ProducerTransaction,
        coordinator: TransactionManager,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self.state = state
        self._coordinator = coordinator
        # Also wakes the sender, which aborts what may not be sent any more.
        self._flush = flush
        # Ends a transaction whose caller was cancelled.
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
        """End an open transaction, so that readers need not wait for its timeout."""
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
            # A cancelled caller must not be kept waiting; the next call waits for the end.
            self._ending = asyncio.create_task(self._end_if_open())
            raise
        except BaseException:
            await self._end_if_open()
            raise

    async def has_ended(self) -> bool:
        """Wait for the end of a transaction whose caller was cancelled; return whether it ended."""
        if self._ending is None:
            return False
        await asyncio.wait([self._ending])
        self._ending = None
        return self.state.status is TransactionStatus.READY

    async def _end_if_open(self) -> None:
        """Abort an open transaction; repeat a commit or an abort that was sent already.

        Errors are dropped: the caller raises the reason for the end.
        """
        state = self.state
        with contextlib.suppress(BarnabasError):
            if state.status is TransactionStatus.COMMITTING and state.is_end_sent:
                await self._coordinator.end(is_committed=True)
            elif state.is_undecided or state.status in _ABORTED_AT_THE_END:
                await self._abort()
