"""Commits and fetches the offsets of the consumer's group.

Not here: which offsets (`SubscriptionState.positions`), who is a member of the group (`group/`),
one request and what its response means (`group_offset_requests.py`).

Commits are sent one at a time and in order: callbacks are called in that order, and a commit that
is waited for starts when those before it have ended. `commit` repeats until it succeeds or
cannot; `commit_soon` tries once.

Source: CON-8, CON-9, CG-6, GRP-19.
Invariants: at most `PENDING_MAX` commits wait. A commit says which member and generation it comes
from, read when it is sent: it never counts for a membership that began later than the call unless
the same member still owns the partition. Partitions that were revoked between the call and
the sending fail with MembershipLostError instead: by then another member may have committed them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from barnabas_client.cluster.offsets import OffsetAndMetadata, checked_offsets
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.group_offset_requests import CommittingMember, GroupOffsetRequests
from barnabas_client.consumer.partition_state import PartitionState
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import (
    BarnabasError,
    BufferFullError,
    ClientBrokenError,
    ClosedError,
    MembershipLostError,
    RetriableError,
    TimedOutError,
)
from barnabas_client.network.client import Client
from barnabas_client.network.retrying import retrying
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition

_log = logging.getLogger(__name__)

# A program that commits faster than the coordinator responds gets an error.
PENDING_MAX: Final = 1000

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
# The assignment under which a commit was requested, without partitions that were not assigned.
Owned: TypeAlias = Mapping[TopicPartition, PartitionState]
CommitCallback: TypeAlias = Callable[[Offsets, BarnabasError | None], None]


class OffsetCommitter:
    """All commits and offset fetches of one consumer."""

    def __init__(
        self, client: Client, settings: ConsumerSettings, subscription: SubscriptionState
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._requests = GroupOffsetRequests(client, settings, subscription)
        self._waiting: deque[tuple[Offsets, Owned, CommitCallback | None]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._is_auto_committing = False
        self._next_auto_commit_ms: int | None = None
        # For interceptors: called with what was committed.
        self.on_committed: Callable[[Offsets], None] | None = None

    def bind(self, member: CommittingMember) -> None:
        """Commit as this member from now on."""
        self._requests.member = member

    # ---- commits ---------------------------------------------------------------------------

    async def commit(self, offsets: Offsets, *, timeout_ms: int | None = None) -> None:
        """Return when these offsets are committed, and all that were to be committed before.

        Raises: CommitFailedError or MembershipLostError if the partitions may be another member's;
        the last RetriableError after `timeout_ms` (default_api_timeout_ms); what `error_for` gives
        for codes that no retry helps against.
        """
        checked = checked_offsets(offsets)
        owned = self._owned(checked)
        timeout_ms = self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._now_ms() + timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._settle()
                await self._turn.acquire()
        except TimeoutError:
            raise TimedOutError(
                f"earlier commits are still under way after {timeout_ms} ms: commit again"
            ) from None
        try:
            if checked:
                left_ms = max(0, deadline_ms - self._now_ms())
                await retrying(self._client, lambda: self._send(checked, owned), timeout_ms=left_ms)
                self._notify_committed(checked)
        finally:
            self._turn.release()

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """Commit once, after the commits before; `callback(offsets, error or None)` is called.

        Raises: ClosedError; BufferFullError if `PENDING_MAX` commits wait already.
        """
        if self._is_closed:
            raise ClosedError("the consumer is closed")
        if len(self._waiting) >= PENDING_MAX:
            raise BufferFullError(
                f"{PENDING_MAX} commits wait for the coordinator: commit less often, or wait for"
                " commit()"
            )
        checked = checked_offsets(offsets)
        self._waiting.append((checked, self._owned(checked), callback))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="commits")

    def auto_commit_due(self, now_ms: int) -> bool:
        """Whether an automatic commit is due."""
        if not self._settings.enable_auto_commit or self._settings.group_id is None:
            return False
        if self._next_auto_commit_ms is None:
            self._next_auto_commit_ms = now_ms + self._settings.auto_commit_interval_ms
        if now_ms < self._next_auto_commit_ms or self._is_auto_committing:
            return False
        member = self._requests.member
        return member is None or member.accepts_commits()

    def auto_commit(self, now_ms: int) -> None:
        """Commit the positions in the background; call it when it is due (CON-8)."""
        self._next_auto_commit_ms = now_ms + self._settings.auto_commit_interval_ms
        offsets = self._subscription.positions()
        if not offsets or self._is_closed or len(self._waiting) >= PENDING_MAX:
            return
        self._is_auto_committing = True
        self.commit_soon(offsets, self._auto_commit_ended)

    async def commit_before_rebalance(self, timeout_ms: int) -> None:
        """Commit the positions with enable_auto_commit; a failure is logged, not raised."""
        if not self._settings.enable_auto_commit or self._settings.group_id is None:
            return
        self._next_auto_commit_ms = self._now_ms() + self._settings.auto_commit_interval_ms
        offsets = self._subscription.positions()
        try:
            await self.commit(offsets, timeout_ms=timeout_ms)
        except BarnabasError as error:
            _log.warning("the commit before a revocation failed: %s", error)

    async def settle(self, timeout_ms: int) -> None:
        """Wait for the commits of `commit_soon`, within the time."""
        if self._worker is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._settle()

    async def close(self, timeout_ms: int) -> None:
        """End the commits that wait, within the time; then refuse new ones."""
        await self.settle(timeout_ms)
        self._is_closed = True
        worker = self._worker
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        while self._waiting:
            offsets, _, callback = self._waiting.popleft()
            self._complete(offsets, callback, ClosedError("the consumer was closed"))

    # ---- committed offsets -----------------------------------------------------------------

    async def fetch_committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offset of each partition; None where nothing was committed.

        Waits for transactions that are about to commit offsets of these partitions (KIP-447).
        """
        wanted = list(dict.fromkeys(partitions))
        if not wanted:
            return {}
        timeout_ms = self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return await retrying(
            self._client, lambda: self._requests.fetch(wanted), timeout_ms=timeout_ms
        )

    # ---- inside ----------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Wait until no commit of `commit_soon` is left."""
        while self._worker is not None:
            await asyncio.shield(self._worker)

    def _owned(self, offsets: Offsets) -> Owned:
        """The assignment under which a commit is requested now."""
        if not self._subscription.is_group_managed:
            return {}
        found = {partition: self._subscription.find(partition) for partition in offsets}
        return {partition: state for partition, state in found.items() if state is not None}

    async def _send(self, offsets: Offsets, owned: Owned) -> None:
        """Commit once the partitions that this member still has.

        Raises: as `GroupOffsetRequests.commit`; MembershipLostError if some were revoked since.
        """
        find = self._subscription.find
        lost = [partition for partition, state in owned.items() if find(partition) is not state]
        kept = {key: offset for key, offset in offsets.items() if key not in lost}
        if kept:
            await self._requests.commit(kept)
        if lost:
            names = ", ".join(f"{topic}-{number}" for topic, number in lost)
            raise MembershipLostError(
                f"{names}: revoked before the commit could be sent; the new owner starts from what"
                " was committed before",
                ErrorCode.REBALANCE_IN_PROGRESS,
            )

    async def _work(self) -> None:
        """Send the waiting commits one after the other; end when none is left."""
        try:
            while self._waiting:
                offsets, owned, callback = self._waiting.popleft()
                error: BarnabasError | None = None
                try:
                    async with self._turn:
                        if offsets:
                            await self._send(offsets, owned)
                except BarnabasError as failure:
                    error = failure
                except asyncio.CancelledError:
                    self._complete(offsets, callback, ClosedError("the consumer was closed"))
                    raise
                except Exception as failure:  # the commits behind it must not wait forever
                    _log.exception("a commit failed")
                    error = ClientBrokenError(f"the commit failed: {failure!r}")
                self._complete(offsets, callback, error)
        finally:
            self._worker = None

    def _complete(
        self, offsets: Offsets, callback: CommitCallback | None, error: BarnabasError | None
    ) -> None:
        if error is None:
            self._notify_committed(offsets)
        if callback is not None:
            try:
                callback(offsets, error)
            except Exception:
                _log.exception("the callback of a commit failed")

    def _notify_committed(self, offsets: Offsets) -> None:
        if self.on_committed is not None:
            self.on_committed(offsets)

    def _auto_commit_ended(self, offsets: Offsets, error: BarnabasError | None) -> None:
        self._is_auto_committing = False
        if error is None:
            return
        may_pass = isinstance(error, RetriableError | MembershipLostError)
        level = logging.INFO if may_pass else logging.WARNING
        _log.log(level, "automatic commit of %d offsets failed: %s", len(offsets), error)
        if isinstance(error, RetriableError) and self._next_auto_commit_ms is not None:
            soon_ms = self._now_ms() + self._settings.retry_backoff_ms
            self._next_auto_commit_ms = min(self._next_auto_commit_ms, soon_ms)

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()
