"""Calls the program's rebalance listener, and keeps what goes wrong until the step is done.

Source: CON-11 of behaviour.md, KIP-429 (lost is not revoked). Invariants: callbacks run one at a
time within the program's own calls; a rebalance goes on without one that failed, whose error is
raised when the program's call ends.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection

from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.rebalance_listener import Callback
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_protocol.ids import TopicPartition

_log = logging.getLogger(__name__)


class ListenerCalls:
    """The listener of one subscription, if it has one."""

    def __init__(
        self,
        subscription: SubscriptionState,
        committer: OffsetCommitter,
        settings: ConsumerSettings,
    ) -> None:
        self._subscription = subscription
        self._committer = committer
        self._settle_timeout_ms = settings.request_timeout_ms
        #: To be raised in the program's call: of the listener, or of what runs in the background.
        self.error: Exception | None = None

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Tell of new partitions, after every rebalance."""
        listener = self._subscription.listener
        if listener is not None:
            await self._call(listener.on_assigned, partitions)

    async def given_up(self, partitions: Collection[TopicPartition], *, is_lost: bool) -> None:
        """Tell of partitions that go, or are gone already."""
        listener = self._subscription.listener
        if listener is not None:
            await self._call(listener.on_lost if is_lost else listener.on_revoked, partitions)
            # What it commits without waiting is to count as well.
            await self._committer.settle(self._settle_timeout_ms)

    def raise_error(self) -> None:
        """Raise what went wrong since the last time."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    async def _call(self, callback: Callback, partitions: Collection[TopicPartition]) -> None:
        try:
            waiting = callback(partitions)
            if inspect.isawaitable(waiting):
                await waiting
        except Exception as error:
            _log.exception("the rebalance listener failed on %d partitions", len(partitions))
            if self.error is None:
                self.error = error
