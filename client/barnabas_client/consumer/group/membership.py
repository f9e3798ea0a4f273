"""What a consumer sees of its membership in a group, whichever protocol the group speaks.

Not here: the protocols, `classic_membership.py` and `consumer_membership.py`.

`group_protocol="auto"` takes the consumer protocol (KIP-848) where it is served, else the classic
one. The choice is made at the first poll, when the coordinator is known, and stays. Settings that
only the classic protocol has (assignors, session timeout, heartbeat interval) choose that one.

Source: CON-10, CON-11; KIP-848 (a group may migrate while it runs, if
group.consumer.migration.policy allows it).
Invariants: partitions are revoked only inside the program's own calls (`poll`, `leave`, `close`):
the records that were returned before have been processed by then. Heartbeats are sent in the
background. Once a member has joined, errors of its protocol are the program's; before, a broker
that refuses the consumer protocol for this group makes it a classic one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from typing import Final, Protocol

from barnabas_client.cluster.offsets import ConsumerGroupMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.group.classic_membership import ClassicMembership
from barnabas_client.consumer.group.consumer_membership import ConsumerMembership
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import (
    BarnabasError,
    ConfigurationError,
    RetriableError,
    UnsupportedError,
)
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

_CLASSIC_SETTINGS: Final = (
    "partition_assignment_strategy",
    "session_timeout_ms",
    "heartbeat_interval_ms",
)
# The feature is off, or classic members that cannot migrate are in the group.
_REFUSALS: Final = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)


class GroupMembership(Protocol):
    """One consumer's place in its group."""

    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; called at every step of the program's poll.

        A call counts as a poll of the program: without one for max_poll_interval_ms the member
        leaves the group.
        """
        ...

    async def poll(self, deadline_ms: int) -> None:
        """Join, revoke and assign partitions, as far as that goes until the deadline.

        Returns early when nothing is left to do, or when it waits for the group while partitions
        are assigned that may be read meanwhile; the work goes on at the next call.

        Raises: what cannot be repaired by trying again, and the errors of the listener.
        """
        ...

    def metadata(self) -> ConsumerGroupMetadata:
        """What commits carry; a generation of -1 while this is no member."""
        ...

    def request_rejoin(self, reason: str) -> None:
        """Make the group rebalance, in the next poll."""
        ...

    async def leave(self, timeout_ms: int) -> None:
        """Revoke all partitions and leave; a classic static member only stops its heartbeats."""
        ...

    async def close(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Like `leave`, and end what runs in the background.

        `leave_group` decides whether the group is told (KIP-1092); by default dynamic members
        leave and static ones do not.
        """
        ...

    async def stop(self, leave_timeout_ms: int = 0) -> None:
        """End what runs in the background; leave within the time, unless that was done.

        Nothing is committed and the listener is not called: for a `close` that was cancelled.
        """
        ...


def create_membership(
    client: Client,
    settings: ConsumerSettings,
    subscription: SubscriptionState,
    committer: OffsetCommitter,
    *,
    wake: Callable[[], None] | None = None,
) -> GroupMembership:
    """The membership that `group_protocol` names; `committer` commits in its name.

    `wake` is called when something happens in the background that `poll` should see to.
    Nothing is sent before the first `poll`.

    Raises: ConfigurationError without a group id or for a wrong assignor.
    """
    if settings.group_id is None:
        raise ConfigurationError("subscribe() shares partitions within a group: set group_id")

    def woken() -> None:
        if wake is not None:
            wake()

    def classic() -> ClassicMembership:
        return ClassicMembership(client, settings, subscription, committer, woken)

    def consumer() -> ConsumerMembership:
        return ConsumerMembership(client, settings, subscription, committer, woken)

    if settings.group_protocol == "classic":
        return classic()
    if settings.group_protocol == "consumer":
        return consumer()

    def is_managed() -> bool:
        return subscription.is_group_managed

    return AutomaticMembership(client, settings, is_managed, classic, consumer)


class AutomaticMembership:
    """Chooses a protocol once, then passes every call on to its membership."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        is_managed: Callable[[], bool],
        classic: Callable[[], ClassicMembership],
        consumer: Callable[[], ConsumerMembership],
    ) -> None:
        self._client = client
        self._settings = settings
        self._is_managed = is_managed
        self._classic = classic
        self._consumer = consumer
        #: The membership of the chosen protocol; None before the first poll.
        self.chosen: ClassicMembership | ConsumerMembership | None = None
        self._may_fall_back = True
        self._choice: asyncio.Task[Callable[[], ClassicMembership | ConsumerMembership]] | None = (
            None
        )

    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; counts as a poll of the program."""
        return self._is_managed() if self.chosen is None else self.chosen.needs_poll()

    async def poll(self, deadline_ms: int) -> None:
        """Choose if that is still to be done, then poll."""
        if self.chosen is None and not await self._decide(deadline_ms):
            return
        assert self.chosen is not None
        try:
            await self.chosen.poll(deadline_ms)
        except BarnabasError as error:
            if not self._is_refusal(error):
                raise
            _log.info(
                "group %s: falling back to the classic protocol: %s", self._settings.group_id, error
            )
            await self.chosen.close(0)
            self.chosen = self._classic()
            await self.chosen.poll(deadline_ms)
        if self.chosen.metadata().generation_id >= 0:
            self._may_fall_back = False

    def metadata(self) -> ConsumerGroupMetadata:
        """What commits carry."""
        if self.chosen is None:
            return ConsumerGroupMetadata(self._settings.group_id or "")
        return self.chosen.metadata()

    def request_rejoin(self, reason: str) -> None:
        """Make the group rebalance, in the next poll."""
        if self.chosen is not None:
            self.chosen.request_rejoin(reason)

    async def leave(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Revoke all partitions and leave."""
        if self.chosen is not None:
            await self.chosen.leave(timeout_ms, leave_group=leave_group)

    async def close(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Like `leave`, and end what runs in the background."""
        if self.chosen is not None:
            await self.chosen.close(timeout_ms, leave_group=leave_group)

    async def stop(self, leave_timeout_ms: int = 0) -> None:
        """End what runs in the background; leave within the time, unless that was done."""
        choice, self._choice = self._choice, None
        if choice is not None:
            choice.cancel()
            await asyncio.gather(choice, return_exceptions=True)
        if self.chosen is not None:
            await self.chosen.stop(leave_timeout_ms)

    async def _decide(self, deadline_ms: int) -> bool:
        """Wait for the choice, which goes on between polls; False if the time is over before."""
        if self._choice is None:
            self._choice = asyncio.create_task(self._choose(), name="group protocol")
        left_ms = max(0, deadline_ms - self._client.environment.clock.monotonic_ms())
        await asyncio.wait({self._choice}, timeout=left_ms / 1000)
        if not self._choice.done():
            return False
        choice, self._choice = self._choice, None
        try:
            self.chosen = choice.result()()
        except RetriableError as error:
            _log.debug("group %s: no coordinator yet: %s", self._settings.group_id, error)
            return False
        return True

    async def _choose(self) -> Callable[[], ClassicMembership | ConsumerMembership]:
        if _has_classic_settings(self._settings):
            return self._classic
        node_id = await self._client.coordinator(
            CoordinatorType.GROUP, self._settings.group_id or ""
        )
        try:
            await self._client.version(node_id, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        except UnsupportedError:
            return self._classic
        return self._consumer

    def _is_refusal(self, error: BarnabasError) -> bool:
        return (
            self._may_fall_back
            and isinstance(self.chosen, ConsumerMembership)
            and error.code in _REFUSALS
        )


def _has_classic_settings(settings: ConsumerSettings) -> bool:
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    return any(getattr(settings, name) != defaults[name] for name in _CLASSIC_SETTINGS)
