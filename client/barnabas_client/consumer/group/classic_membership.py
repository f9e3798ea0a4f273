"""Membership in a classic group: what happens in the program's polls.

Not here: decisions (`classic_member.py`), joining and assigning (`classic_rebalance.py`), when
heartbeats are sent (`group_session.py`), calling the listener (`rebalance_callbacks.py`).

Source: GRP-1 to GRP-22, CON-1 to CON-12; KIP-62, KIP-345, KIP-429, KIP-1092.
Invariants: callbacks of the listener run in `poll`, `leave` and `close` only. Records of lost
partitions are not returned from then on; the next poll reports the partitions lost. A poll that is
cancelled leaves its step to the next one, which calls a callback again that has not returned; no
record is returned before. A `leave` that is cancelled leaves all the same: nothing more is
committed or waited for. A static member whose program does not poll stops its heartbeats instead of
leaving, so that another process with its instance id may come back within the session timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.offsets import ConsumerGroupMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.assignors import NO_GENERATION, assignors_for
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.group.classic_member import (
    ClassicMember,
    ClassicMemberState,
    Revocation,
)
from barnabas_client.consumer.group.classic_rebalance import ClassicRebalance
from barnabas_client.consumer.group.group_session import GroupSession
from barnabas_client.consumer.group.rebalance_callbacks import RebalanceCallbacks
from barnabas_client.consumer.group.rebalance_steps import AssignmentChange, Reaction
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import BarnabasError
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.schema import Message


class ClassicMembership:
    """One consumer's place in a classic group."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        committer: OffsetCommitter,
        wake: Callable[[], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._committer = committer
        self._wake = wake
        #: The state machine; read it only, also in tests.
        self.member = ClassicMember(
            settings.group_id or "",
            assignors_for(settings.partition_assignment_strategy),
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            group_instance_id=settings.group_instance_id,
            rack_id=settings.client_rack,
        )
        #: The background part of a rebalance; read it only, also in tests.
        self.rebalance = ClassicRebalance(
            client, settings, subscription, self.member, self._on_rebalance_end
        )
        heartbeats = _ClassicHeartbeats(client, settings, self.member)
        self._session = GroupSession(client, settings, heartbeats, self._on_session_change)
        self._stop_watching: Callable[[], None] | None = None
        # Between the beginning of a rebalance and the callbacks for it.
        self._revocation: Revocation | None = None
        # An assignment that has come and that the listener has not been called for.
        self._change: AssignmentChange | None = None
        self._callbacks = RebalanceCallbacks(subscription, committer, settings)
        committer.bind(self)

    # ---- what the consumer calls -----------------------------------------------------------

    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; counts as a poll of the program."""
        self._session.on_poll()
        if not self._subscription.is_group_managed:
            return False
        if self._callbacks.error is not None or self._change is not None:
            return True
        match self.member.state:
            case ClassicMemberState.STABLE:
                return (
                    self.member.rejoin_reason is not None
                    or self.rebalance.joined_topics != self._subscription.topics
                )
            case ClassicMemberState.JOINING | ClassicMemberState.SYNCING:
                return not self.rebalance.is_running or not self._subscription.assigned
        return True

    async def poll(self, deadline_ms: int) -> None:
        """Go on with the rebalance, if there is one, until the deadline."""
        self._session.on_poll()
        self._start()
        while self._subscription.is_group_managed:
            self._callbacks.raise_error()
            if self._change is not None:
                await self._finish_change()
                continue
            self._notice_subscription()
            match self.member.state:
                case ClassicMemberState.UNJOINED | ClassicMemberState.PREPARING:
                    if not await self._prepare(deadline_ms):
                        break
                case ClassicMemberState.JOINING | ClassicMemberState.SYNCING:
                    self.rebalance.start()
                    if self._subscription.assigned or not await self._wait(deadline_ms):
                        break
                case ClassicMemberState.ASSIGNED:
                    await self._apply()
                case ClassicMemberState.STABLE:
                    if not self.member.is_rebalance_due or not await self._prepare(deadline_ms):
                        break
        self._callbacks.raise_error()

    def metadata(self) -> ConsumerGroupMetadata:
        """What commits carry: group, member and generation."""
        return self.member.identity()

    def request_rejoin(self, reason: str) -> None:
        """Make the group rebalance, in the next poll."""
        self.member.request_rejoin(reason)
        self._wake()

    async def leave(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Revoke all partitions and leave; a static member only stops its heartbeats."""
        deadline_ms = self._now_ms() + timeout_ms
        was_joining = self.rebalance.is_running
        if leave_group is None:
            leave_group = self._settings.group_instance_id is None
        try:
            await self.rebalance.cancel()
            await self._callbacks.cancel_commit()
            self._revocation = self._change = None
            await self._callbacks.revoke_all(deadline_ms - self._now_ms(), self._has_generation)
            if leave_group and self.member.member_id:
                request = self.member.leave_request("the consumer leaves")
                left_ms = deadline_ms - self._now_ms()
                await self._session.leave_group(request, left_ms, is_joining=was_joining)
        except asyncio.CancelledError:
            self._revocation = self._change = None
            self._subscription.assign_from_group(())
            if leave_group and self.member.member_id:
                request = self.member.leave_request("the consumer leaves")
                self._session.leave_group_in_background(request, is_joining=was_joining)
            raise
        finally:
            self.member.on_left("the consumer left")
        self._callbacks.raise_error()

    async def close(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Like `leave`, and end what runs in the background."""
        try:
            await self.leave(timeout_ms, leave_group=leave_group)
        finally:
            await self.stop()

    async def stop(self, leave_timeout_ms: int = 0) -> None:
        """End what runs in the background; leave within the time, unless that was done."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        was_joining = self.rebalance.is_running
        await self.rebalance.cancel()
        await self._callbacks.cancel_commit()
        await self._session.close()
        is_static = self._settings.group_instance_id is not None
        if leave_timeout_ms and self.member.member_id and not is_static:
            request = self.member.leave_request("the consumer ends")
            await self._session.leave_group(request, leave_timeout_ms, is_joining=was_joining)
            self.member.on_left("the consumer ended")

    # ---- what commits call -----------------------------------------------------------------

    def accepts_commits(self) -> bool:
        """Whether the coordinator would take a commit now."""
        return self.member.accepts_commits

    def on_commit_error(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> None:
        """Handle the error of a commit like that of a heartbeat."""
        try:
            self.member.on_error_code(code, sent_as)
        except BarnabasError as error:
            self._callbacks.error = error
        self._after_change()

    # ---- steps of a rebalance --------------------------------------------------------------

    def _start(self) -> None:
        self._session.start()
        if self._stop_watching is None:
            self._stop_watching = self._client.on_metadata(self._on_metadata)
            self._subscription.update_matching(self._client.cluster)

    def _notice_subscription(self) -> None:
        if (
            self.member.state is ClassicMemberState.STABLE
            and self.rebalance.joined_topics != self._subscription.topics
        ):
            self.member.request_rejoin("the subscription has changed")

    async def _prepare(self, deadline_ms: int) -> bool:
        """Commit, and revoke what the protocol demands; False if the time is over before."""
        if self._revocation is None:
            self._revocation = self.member.begin_rebalance(
                self._subscription.assigned, self._subscription.topics
            )
            self._subscription.mark_pending_revocation(self._revocation.partitions)
            if not self._revocation.is_lost:
                self._callbacks.start_commit()
        if self._callbacks.is_committing:
            with self._session.program_waits():
                if not await self._callbacks.finish_commit(deadline_ms - self._now_ms()):
                    return False
        revocation = self._revocation
        if revocation.partitions:
            is_lost = revocation.is_lost or not self._has_generation()
            await self._callbacks.revoke(revocation.partitions, is_lost=is_lost)
        self._revocation = None
        self.member.on_revoked()
        return True

    async def _wait(self, deadline_ms: int) -> bool:
        """Wait for the group; False if the time is over before."""
        with self._session.program_waits():
            await self.rebalance.wait(deadline_ms - self._now_ms())
        return not self.rebalance.is_running

    async def _apply(self) -> None:
        self._change = self.member.apply(self._subscription.assigned, self._subscription.topics)
        await self._finish_change()

    async def _finish_change(self) -> None:
        """Revoke and assign partitions, from where a cancelled poll left off."""
        change = self._change
        assert change is not None
        if change.revoked:
            self._subscription.mark_pending_revocation(change.revoked)
            await self._committer.commit_before_rebalance(self._settings.request_timeout_ms)
            is_lost = not self._has_generation()
            await self._callbacks.call_revoked(change.revoked, is_lost=is_lost)
            change = self._change = replace(change, revoked=())
        self._subscription.assign_from_group(change.assigned)
        self._client.set_wanted_topics(self._subscription.metadata_topics)
        await self._callbacks.call_assigned(change.added)
        self._change = None
        if self.member.state is ClassicMemberState.UNJOINED:
            # Lost while the callbacks ran.
            self._subscription.mark_pending_revocation(change.assigned)

    def _has_generation(self) -> bool:
        return self.member.generation_id != NO_GENERATION

    # ---- in the background -----------------------------------------------------------------

    def _on_rebalance_end(self, error: Exception | None) -> None:
        if error is not None:
            self._callbacks.error = error
        self._session.restart()
        self._after_change()

    def _on_session_change(self, error: BarnabasError | None) -> None:
        if error is not None:
            self._callbacks.error = error
        self._after_change()

    def _after_change(self) -> None:
        """Return no more records of lost partitions, and wake the program's poll."""
        if self.member.state is ClassicMemberState.UNJOINED:
            self._subscription.mark_pending_revocation(tuple(self._subscription.assigned))
        self._wake()

    def _on_metadata(self, cluster: ClusterMetadata) -> None:
        if not self._subscription.is_group_managed:
            return
        if self._subscription.update_matching(cluster):
            self._wake()
        if self.rebalance.topics_changed(cluster):
            self.request_rejoin("the partitions of the group's topics have changed")

    # ---- shared ----------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()


class _ClassicHeartbeats:
    """The `HeartbeatProtocol` of a classic group."""

    is_urgent = False

    def __init__(self, client: Client, settings: ConsumerSettings, member: ClassicMember) -> None:
        self._client = client
        self._settings = settings
        self._member = member
        self._left_as: ConsumerGroupMetadata | None = None
        self.group_id = member.group_id
        self.interval_ms = settings.heartbeat_interval_ms

    @property
    def is_member(self) -> bool:
        return self._member.generation_id != NO_GENERATION

    @property
    def sends_heartbeats(self) -> bool:
        return self._member.sends_heartbeats

    @property
    def state(self) -> object:
        return self._member.state, self._member.rejoin_reason

    async def send(self) -> Reaction:
        sent_as = self._member.identity()
        session_ms = self._settings.session_timeout_ms
        node_id = await self._client.coordinator(
            CoordinatorType.GROUP, self.group_id, timeout_ms=session_ms
        )
        response = await self._client.request(
            node_id,
            self._member.heartbeat_request(),
            timeout_ms=min(self._settings.request_timeout_ms, session_ms),
        )
        return self._member.on_error_code(response.error_code, sent_as)

    def on_no_response(self) -> None:
        """A heartbeat carries nothing that would be missing."""

    def on_error(self, error: BarnabasError) -> BarnabasError:
        return error

    def leave_request(self) -> Message | None:
        self._left_as = self._member.identity()
        if self._settings.group_instance_id is not None:
            return None
        return self._member.leave_request("no poll within max_poll_interval_ms")

    def on_poll_timeout(self) -> None:
        if self._member.identity() == self._left_as:
            self._member.on_left("the program did not poll in time")
