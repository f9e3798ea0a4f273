"""What the program sees of a rebalance: commits before partitions go, and its listener's calls.

The same for both protocols. Not here: when partitions are revoked or assigned (the memberships).

Source: CON-11, KIP-429 (lost is not revoked).
Invariants: callbacks run one at a time within the program's own calls; a rebalance goes on without
one that failed, whose error is raised when the program's call ends. A commit before a revocation
goes on when the program's poll times out.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection

from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.rebalance_listener import Callback
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_protocol.ids import TopicPartition

_log = logging.getLogger(__name__)


class RebalanceCallbacks:
    """Revokes and assigns partitions of one subscription, with commits and callbacks."""

    def __init__(
        self,
        subscription: SubscriptionState,
        committer: OffsetCommitter,
        settings: ConsumerSettings,
    ) -> None:
        self._subscription = subscription
        self._committer = committer
        self._settle_timeout_ms = settings.request_timeout_ms
        # Other members wait for this one: no longer than the group would.
        self._commit_timeout_ms = min(
            settings.max_poll_interval_ms, settings.default_api_timeout_ms
        )
        self._commit: asyncio.Task[None] | None = None
        #: To be raised in the program's call: of the listener, or of what runs in the background.
        self.error: Exception | None = None

    def raise_error(self) -> None:
        """Raise what went wrong since the last time."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    # ---- the commit before partitions go ---------------------------------------------------

    @property
    def is_committing(self) -> bool:
        """Whether `start_commit` was called and `finish_commit` has not returned True since."""
        return self._commit is not None

    def start_commit(self) -> None:
        """Commit the positions in the background, if the settings say so."""
        if self._commit is None:
            self._commit = asyncio.create_task(
                self._committer.commit_before_rebalance(self._commit_timeout_ms),
                name="commit before rebalance",
            )

    async def finish_commit(self, timeout_ms: int) -> bool:
        """Wait for the commit; False if the time is over before."""
        if self._commit is None:
            return True
        await asyncio.wait({self._commit}, timeout=max(0, timeout_ms) / 1000)
        if not self._commit.done():
            return False
        self._commit = None
        return True

    async def cancel_commit(self) -> None:
        """Stop the commit, if one is under way."""
        task, self._commit = self._commit, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ---- the listener ----------------------------------------------------------------------

    async def call_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Call `on_assigned`, which follows every rebalance."""
        listener = self._subscription.listener
        if listener is not None:
            await self._call(listener.on_assigned, partitions)

    async def call_revoked(self, partitions: Collection[TopicPartition], *, is_lost: bool) -> None:
        """Call `on_revoked`, or `on_lost` where the group has given the partitions to others."""
        listener = self._subscription.listener
        if listener is not None:
            await self._call(listener.on_lost if is_lost else listener.on_revoked, partitions)
            # What it commits without waiting is to count as well.
            await self._committer.settle(self._settle_timeout_ms)

    async def revoke(self, partitions: Collection[TopicPartition], *, is_lost: bool) -> None:
        """Call the listener, then take the partitions away."""
        await self.call_revoked(partitions, is_lost=is_lost)
        revoked = set(partitions)
        self._subscription.assign_from_group(
            [partition for partition in self._subscription.assigned if partition not in revoked]
        )

    async def revoke_all(self, timeout_ms: int, is_member: Callable[[], bool]) -> None:
        """Take all partitions away; a member commits first.

        `is_member` is called again after the commit: the member may be fenced by then.
        """
        partitions = tuple(self._subscription.assigned)
        if not partitions or not self._subscription.is_group_managed:
            return
        self._subscription.mark_pending_revocation(partitions)
        if is_member():
            await self._committer.commit_before_rebalance(max(1, timeout_ms))
        await self.call_revoked(partitions, is_lost=not is_member())
        self._subscription.assign_from_group(())

    async def _call(self, callback: Callback, partitions: Collection[TopicPartition]) -> None:
        try:
            waiting = callback(partitions)
            if inspect.isawaitable(waiting):
                await waiting
        except Exception as error:
            _log.exception("the rebalance listener failed on %d partitions", len(partitions))
            if self.error is None:
                self.error = error
