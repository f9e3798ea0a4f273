"""`group_protocol="auto"`: the protocol of KIP-848 where it is served, else the classic one.

The choice is made at the first poll, when the coordinator is known, and stays. Settings that only
the classic protocol has (assignors, session timeout, heartbeat interval) choose that one.

Source: KIP-848 (a group may migrate while it runs, if group.consumer.migration.policy allows it).
Invariants: once a member has joined, errors of its protocol are the program's; before, a broker
that refuses the new protocol for this group makes it the classic one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from typing import Final

from barnabas_client.cluster.offsets import ConsumerGroupMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.group.classic_membership import ClassicMembership
from barnabas_client.consumer.group.next_generation_membership import NextGenerationMembership
from barnabas_client.errors import BarnabasError, RetriableError, UnsupportedError
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


class AutomaticMembership:
    """Decides once, then passes everything on."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        is_managed: Callable[[], bool],
        classic: Callable[[], ClassicMembership],
        next_generation: Callable[[], NextGenerationMembership],
    ) -> None:
        self._client = client
        self._settings = settings
        self._is_managed = is_managed
        self._classic = classic
        self._next_generation = next_generation
        self._chosen: ClassicMembership | NextGenerationMembership | None = None
        self._may_fall_back = True
        self._choice: (
            asyncio.Task[Callable[[], ClassicMembership | NextGenerationMembership]] | None
        ) = None

    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; asking is a sign of life."""
        return self._is_managed() if self._chosen is None else self._chosen.needs_poll()

    async def poll(self, deadline_ms: int) -> None:
        """Choose if that is still to be done, then poll."""
        if self._chosen is None and not await self._decide(deadline_ms):
            return
        assert self._chosen is not None
        try:
            await self._chosen.poll(deadline_ms)
        except BarnabasError as error:
            if not self._is_refusal(error):
                raise
            _log.info(
                "group %s: going on with the classic protocol: %s", self._settings.group_id, error
            )
            await self._chosen.close(0)
            self._chosen = self._classic()
            await self._chosen.poll(deadline_ms)
        if self._chosen.metadata().generation_id >= 0:
            self._may_fall_back = False

    def metadata(self) -> ConsumerGroupMetadata:
        """Who commits."""
        if self._chosen is None:
            return ConsumerGroupMetadata(self._settings.group_id or "")
        return self._chosen.metadata()

    def request_rejoin(self, reason: str) -> None:
        """Make the group rebalance, in the next poll."""
        if self._chosen is not None:
            self._chosen.request_rejoin(reason)

    async def leave(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Give up all partitions and leave."""
        if self._chosen is not None:
            await self._chosen.leave(timeout_ms, leave_group=leave_group)

    async def close(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Like `leave`, and end what runs in the background."""
        if self._chosen is not None:
            await self._chosen.close(timeout_ms, leave_group=leave_group)

    async def stop(self, goodbye_ms: int = 0) -> None:
        """End what runs in the background; a member that did not leave says so within the time."""
        choice, self._choice = self._choice, None
        if choice is not None:
            choice.cancel()
            await asyncio.gather(choice, return_exceptions=True)
        if self._chosen is not None:
            await self._chosen.stop(goodbye_ms)

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
            self._chosen = choice.result()()
        except RetriableError as error:
            _log.debug("group %s: no coordinator yet: %s", self._settings.group_id, error)
            return False
        return True

    async def _choose(self) -> Callable[[], ClassicMembership | NextGenerationMembership]:
        if _has_classic_settings(self._settings):
            return self._classic
        node_id = await self._client.coordinator(
            CoordinatorType.GROUP, self._settings.group_id or ""
        )
        try:
            await self._client.version(node_id, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        except UnsupportedError:
            return self._classic
        return self._next_generation

    def _is_refusal(self, error: BarnabasError) -> bool:
        return (
            self._may_fall_back
            and isinstance(self._chosen, NextGenerationMembership)
            and error.code in _REFUSALS
        )


def _has_classic_settings(settings: ConsumerSettings) -> bool:
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    return any(getattr(settings, name) != defaults[name] for name in _CLASSIC_SETTINGS)
