"""Membership in a share group: heartbeats in the background, and joining when the program polls.

Not here: what heartbeats carry and what responses mean (`share_member.py`), when they are sent
(`consumer/group/group_session.py`), what the assignment is for (`share_fetcher.py`).

Source: KIP-932; SHR-28, CON-10 (a program that does not poll leaves).
Invariants: the member id is made once and is that of the share sessions too; errors are raised in
the program's poll.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

from barnabas_client.config.share_consumer_settings import ShareConsumerSettings
from barnabas_client.consumer.group.group_session import GroupSession
from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.errors import BarnabasError
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_client.share.acquisition import TopicIdPartition
from barnabas_client.share.share_member import ShareMember, ShareMemberState
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import uuid_to_text
from barnabas_protocol.schema import Message


class ShareMembership:
    """One share consumer's membership in its group."""

    def __init__(
        self,
        client: Client,
        settings: ShareConsumerSettings,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when the assignment may have changed, or there is an error."""
        random_bytes = client.environment.random.getrandbits(128).to_bytes(16, "big")
        #: The state machine; read it only, also in tests.
        self.member = ShareMember(
            settings.group_id,
            uuid_to_text(uuid.UUID(bytes=random_bytes, version=4).bytes),
            rack_id=settings.client_rack,
        )
        self.topics: frozenset[str] = frozenset()
        self._on_change = on_change
        self._error: BarnabasError | None = None
        self._heartbeats = _ShareHeartbeats(client, self.member, lambda: self.topics)
        self._session = GroupSession(client, settings, self._heartbeats, self._on_session_change)

    @property
    def assigned(self) -> frozenset[TopicIdPartition]:
        """The assigned partitions."""
        return self.member.assigned

    def subscribe(self, topics: frozenset[str]) -> None:
        """Have these topics from now on; the broker hears of it at once."""
        self.topics = topics
        if self.member.sends_heartbeats:
            self._session.request_heartbeat()

    def poll(self) -> None:
        """The program polls: join if that is still to be done.

        Raises: what joining again does not help against.
        """
        self._session.on_poll()
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self.member.state in (ShareMemberState.UNJOINED, ShareMemberState.FENCED):
            self.member.join()
            self._session.start()
            self._session.request_heartbeat()

    def program_waits(self) -> AbstractContextManager[None]:
        """While the program waits inside `poll`, the poll timer does not run."""
        return self._session.program_waits()

    async def leave(self, timeout_ms: int) -> None:
        """Leave the group and send no more heartbeats; in the background if it is cancelled."""
        is_member = self.member.is_member
        request = self.member.leave_request()
        try:
            await self._session.stop()
            if is_member and timeout_ms > 0:
                await self._session.leave_group(request, timeout_ms)
        except asyncio.CancelledError:
            if is_member:
                self._session.leave_group_in_background(request)
            raise
        finally:
            self.member.on_left()

    async def stop(self) -> None:
        """End what runs in the background."""
        await self._session.close()

    def _on_session_change(self, error: BarnabasError | None) -> None:
        if error is not None:
            self._error = error
        self._on_change()


class _ShareHeartbeats:
    """The `HeartbeatProtocol` of a share group."""

    def __init__(
        self, client: Client, member: ShareMember, topics: Callable[[], frozenset[str]]
    ) -> None:
        self._client = client
        self._member = member
        self._topics = topics
        self.group_id = member.group_id

    @property
    def is_member(self) -> bool:
        return self._member.is_member

    @property
    def sends_heartbeats(self) -> bool:
        return self._member.sends_heartbeats

    @property
    def interval_ms(self) -> int:
        return self._member.heartbeat_interval_ms

    @property
    def is_urgent(self) -> bool:
        return self._member.is_heartbeat_urgent(self._topics())

    @property
    def state(self) -> object:
        return self._member.state, self._member.assigned

    async def send(self) -> Reaction:
        member = self._member
        node_id = await self._client.coordinator(CoordinatorType.GROUP, self.group_id)
        version = await self._client.version(node_id, ApiKey.SHARE_GROUP_HEARTBEAT)
        sent_epoch = member.member_epoch
        request = member.heartbeat_request(self._topics())
        response = await self._client.request(node_id, request, version=version)
        return member.on_heartbeat_response(response, sent_epoch)

    def on_no_response(self) -> None:
        self._member.reset_sent_fields()

    def on_error(self, error: BarnabasError) -> BarnabasError | None:
        return error

    def leave_request(self) -> Message:
        return self._member.leave_request()

    def on_poll_timeout(self) -> None:
        if self._member.sends_heartbeats:
            self._member.fence()
