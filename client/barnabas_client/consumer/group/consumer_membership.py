"""Membership in a consumer group of KIP-848: what happens in the program's polls.

Not here: what heartbeats carry and what responses mean (`consumer_member.py`), when they are sent
(`group_session.py`), calling the listener (`rebalance_callbacks.py`).

Source: KIP-848, CG-1 to CG-13, CON-11.
Invariants: callbacks of the listener run in `poll`, `leave` and `close` only; revoked partitions
are committed and taken away before a heartbeat says so; records of lost partitions are not returned
from the moment the loss is known. A poll that is cancelled leaves its step to the next one, which
calls a callback again that has not returned; no record is returned before. A `leave` that is
cancelled leaves all the same: nothing more is committed or waited for.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Callable
from typing import Final

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.offsets import ConsumerGroupMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.group.consumer_member import (
    ConsumerMember,
    ConsumerMemberState,
    MemberSubscription,
)
from barnabas_client.consumer.group.group_session import GroupSession
from barnabas_client.consumer.group.rebalance_callbacks import RebalanceCallbacks
from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.consumer.subscription_state import SubscriptionKind, SubscriptionState
from barnabas_client.errors import BarnabasError
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition, uuid_to_text
from barnabas_protocol.schema import Message

_log = logging.getLogger(__name__)

# What Python's patterns have and RE2, which the broker matches with, lacks: lookaround, back
# references, atomic groups, possessive quantifiers, conditions, comments.
_NOT_IN_RE2: Final = re.compile(r"\(\?[=!<>(#]|\(\?P=|\\[1-9AZ]|[*+?}]\+")
# Version 1 of ConsumerGroupHeartbeat has patterns.
_PATTERNS_SINCE: Final = 1
_INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class ConsumerMembership:
    """One consumer's membership in a consumer group."""

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
        random_bytes = client.environment.random.getrandbits(128).to_bytes(16, "big")
        #: The state machine; read it only, also in tests.
        self.member = ConsumerMember(
            settings.group_id or "",
            uuid_to_text(uuid.UUID(bytes=random_bytes, version=4).bytes),
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            group_instance_id=settings.group_instance_id,
            rack_id=settings.client_rack,
            server_assignor=settings.group_remote_assignor,
        )
        self._heartbeats = _ConsumerHeartbeats(client, settings, self.member, self._subscribed)
        self._session = GroupSession(client, settings, self._heartbeats, self._on_session_change)
        # Partitions that were not read any more when their positions were committed.
        self._committed: frozenset[TopicPartition] = frozenset()
        self._committing: frozenset[TopicPartition] = frozenset()
        # Partitions whose revocation has begun: it is finished, whatever the broker assigns
        # meanwhile.
        self._being_revoked: frozenset[TopicPartition] = frozenset()
        # Partitions that are assigned and that `on_assigned` is still to be called with; None: it
        # is not to be called.
        self._unannounced: frozenset[TopicPartition] | None = None
        # The pattern, and as the broker takes it; the version of metadata that lacks topics.
        self._pattern: tuple[re.Pattern[str] | None, str | None] = (None, None)
        self._lacking_version: int | None = None
        self._stop_watching: Callable[[], None] | None = None
        self._callbacks = RebalanceCallbacks(subscription, committer, settings)
        committer.bind(self)

    # ---- what the consumer calls -----------------------------------------------------------

    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; counts as a poll of the program."""
        self._session.on_poll()
        if not self._subscription.is_group_managed:
            return False
        if self._callbacks.error is not None:
            return True
        match self.member.state:
            case ConsumerMemberState.STABLE | ConsumerMemberState.ACKNOWLEDGING:
                return self._heartbeats.is_urgent and not self._session.is_heartbeat_pending
            case ConsumerMemberState.RECONCILING:
                has_waited = self._lacking_version != self._client.cluster.version
                return has_waited or self._unannounced is not None or bool(self._being_revoked)
        return True

    async def poll(self, deadline_ms: int) -> None:
        """Join, or reconcile, as far as that goes until the deadline."""
        self._session.on_poll()
        self._start()
        while self._subscription.is_group_managed:
            self._callbacks.raise_error()
            match self.member.state:
                case ConsumerMemberState.UNJOINED:
                    self.member.join()
                    self._session.request_heartbeat()
                case ConsumerMemberState.FENCED:
                    await self._report_lost()
                    self.member.join()
                    self._session.request_heartbeat()
                case ConsumerMemberState.JOINING:
                    with self._session.program_waits():
                        if not await self._session.wait_for_response(deadline_ms - self._now_ms()):
                            break
                case ConsumerMemberState.RECONCILING:
                    if not await self._reconcile(deadline_ms):
                        break
                case ConsumerMemberState.ACKNOWLEDGING | ConsumerMemberState.STABLE:
                    if self._heartbeats.is_urgent:
                        self._session.request_heartbeat()
                    break
        self._callbacks.raise_error()

    def metadata(self) -> ConsumerGroupMetadata:
        """What commits carry: group, member and member epoch."""
        return self.member.identity()

    def request_rejoin(self, reason: str) -> None:
        """Nothing: the broker decides by itself when partitions move."""

    async def leave(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Revoke all partitions and leave; a static member gets them again when it returns."""
        deadline_ms = self._now_ms() + timeout_ms
        # A static member leaves for a while, unless the caller says for good or not at all.
        is_for_good = self._settings.group_instance_id is None or leave_group is True
        self._being_revoked, self._unannounced = frozenset(), None
        try:
            await self._callbacks.cancel_commit()
            left_ms = deadline_ms - self._now_ms()
            await self._callbacks.revoke_all(left_ms, lambda: self.member.is_member)
            await self._session.stop()
            if self.member.is_member and leave_group is not False:
                request = self.member.leave_request(is_for_good=is_for_good)
                await self._session.leave_group(request, deadline_ms - self._now_ms())
        except asyncio.CancelledError:
            self._subscription.assign_from_group(())
            if self.member.is_member and leave_group is not False:
                request = self.member.leave_request(is_for_good=is_for_good)
                self._session.leave_group_in_background(request)
            raise
        finally:
            self.member.on_left()
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
        await self._callbacks.cancel_commit()
        await self._session.close()
        if leave_timeout_ms and self.member.is_member:
            is_for_good = self._settings.group_instance_id is None
            request = self.member.leave_request(is_for_good=is_for_good)
            await self._session.leave_group(request, leave_timeout_ms)
            self.member.on_left()

    # ---- what commits call -----------------------------------------------------------------

    def accepts_commits(self) -> bool:
        """Always: no rebalance stops the whole group."""
        return True

    def on_commit_error(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> None:
        """Have the next heartbeat find out at once."""
        self._session.request_heartbeat()

    # ---- steps -----------------------------------------------------------------------------

    def _start(self) -> None:
        self._session.start()
        if self._stop_watching is None:
            self._stop_watching = self._client.on_metadata(self._on_metadata)
            self._subscription.update_matching(self._client.cluster)

    def _subscribed(self) -> MemberSubscription:
        """The subscription as heartbeats carry it."""
        if self._subscription.kind is not SubscriptionKind.PATTERN:
            return MemberSubscription(topics=self._subscription.topics)
        pattern = self._subscription.pattern
        if self._pattern[0] is not pattern:
            is_possible = pattern is not None and not self._heartbeats.is_pattern_unsupported
            text = _as_re2(pattern, self._settings) if is_possible and pattern else None
            self._pattern = (pattern, text)
        if self._pattern[1] is None or self._heartbeats.is_pattern_unsupported:
            return MemberSubscription(topics=self._subscription.topics)
        return MemberSubscription(pattern=self._pattern[1])

    async def _reconcile(self, deadline_ms: int) -> bool:
        """Take one step towards the assignment of the broker; False if it has to wait."""
        await self._finish_revocation()
        await self._announce()
        if not self._is_reconciling():
            return True
        names = self._client.cluster.topic_names
        plan = self.member.reconciliation(names, self._subscription.assigned)
        if not plan.is_complete:
            # Topics that the broker has just found: the metadata has to catch up.
            self._client.request_refresh()
        if not plan.is_progress:
            self._lacking_version = self._client.cluster.version
            return False
        if not self._committed.issuperset(plan.change.revoked):
            self._subscription.mark_pending_revocation(plan.change.revoked)
            if not self._callbacks.is_committing:
                self._committing = frozenset(plan.change.revoked)
            self._callbacks.start_commit()
            with self._session.program_waits():
                if not await self._callbacks.finish_commit(deadline_ms - self._now_ms()):
                    return False
            # The target may have changed meanwhile: what is to go since then was read on.
            self._committed = self._committing
            return True
        self._committed = frozenset()
        self._being_revoked = frozenset(plan.change.revoked)
        await self._finish_revocation()
        if not self._is_reconciling():
            return True
        self._subscription.assign_from_group(plan.change.assigned)
        self._client.set_wanted_topics(self._subscription.metadata_topics)
        unannounced = self._unannounced or frozenset()
        self._unannounced = unannounced & {*plan.change.assigned} | {*plan.change.added}
        await self._announce()
        self.member.on_reconciled(plan)
        self._session.request_heartbeat()
        return True

    def _is_reconciling(self) -> bool:
        """Whether the member still is where it was before a callback ran."""
        return self.member.state is ConsumerMemberState.RECONCILING

    async def _finish_revocation(self) -> None:
        """Revoke partitions, also where the poll that began to was cancelled."""
        if self._being_revoked:
            await self._callbacks.revoke(tuple(sorted(self._being_revoked)), is_lost=False)
            self._being_revoked = frozenset()

    async def _announce(self) -> None:
        """Call `on_assigned`, also where the poll that did so was cancelled."""
        if self._unannounced is not None:
            await self._callbacks.call_assigned(tuple(sorted(self._unannounced)))
            self._unannounced = None

    async def _report_lost(self) -> None:
        """Report everything lost."""
        self._committed = frozenset()
        await self._callbacks.cancel_commit()
        partitions = tuple(self._subscription.assigned)
        if partitions:
            await self._callbacks.revoke(partitions, is_lost=True)
        self._being_revoked, self._unannounced = frozenset(), None

    # ---- in the background -----------------------------------------------------------------

    def _on_session_change(self, error: BarnabasError | None) -> None:
        if error is not None:
            self._callbacks.error = error
        self._lacking_version = None
        if self.member.state is ConsumerMemberState.FENCED:
            self._subscription.mark_pending_revocation(tuple(self._subscription.assigned))
        self._wake()

    def _on_metadata(self, cluster: ClusterMetadata) -> None:
        if not self._subscription.is_group_managed:
            return
        if self._subscription.update_matching(cluster):
            self._session.request_heartbeat()
        if self._lacking_version is not None:
            self._wake()

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()


class _ConsumerHeartbeats:
    """The `HeartbeatProtocol` of a consumer group (KIP-848)."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        member: ConsumerMember,
        subscription: Callable[[], MemberSubscription],
    ) -> None:
        self._client = client
        self._settings = settings
        self._member = member
        self._subscription = subscription
        self.group_id = member.group_id
        # The broker is too old for patterns, or did not accept this one: topic names are sent.
        self.is_pattern_unsupported = False

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
        return self._member.is_heartbeat_urgent(self._subscription())

    @property
    def state(self) -> object:
        return self._member.state, self._member.member_epoch

    async def send(self) -> Reaction:
        member = self._member
        node_id = await self._client.coordinator(CoordinatorType.GROUP, self.group_id)
        version = await self._client.version(node_id, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        if version < _PATTERNS_SINCE:
            self.is_pattern_unsupported = True
        sent_epoch = member.member_epoch
        request = member.heartbeat_request(self._subscription())
        response = await self._client.request(node_id, request, version=version)
        return member.on_heartbeat_response(response, sent_epoch)

    def on_no_response(self) -> None:
        self._member.reset_sent_fields()

    def on_error(self, error: BarnabasError) -> BarnabasError | None:
        """Send topic names from now on if the broker does not accept the pattern."""
        if error.code is not ErrorCode.INVALID_REGULAR_EXPRESSION or self.is_pattern_unsupported:
            return error
        _log.info("group %s: matching topics in the client: %s", self.group_id, error)
        self.is_pattern_unsupported = True
        return None

    def leave_request(self) -> Message:
        return self._member.leave_request(is_for_good=False)

    def on_poll_timeout(self) -> None:
        if self._member.sends_heartbeats:
            self._member.fence()


def _as_re2(pattern: re.Pattern[str], settings: ConsumerSettings) -> str | None:
    """The pattern in RE2 syntax; None if it might match other topics there."""
    if pattern.flags != re.UNICODE or _NOT_IN_RE2.search(pattern.pattern):
        return None
    if settings.exclude_internal_topics and any(map(pattern.fullmatch, _INTERNAL_TOPICS)):
        return None
    return pattern.pattern
