"""Membership in a classic group: what happens in the program's polls.

Not here: decisions (`classic.py`), joining and assigning (`classic_rebalance.py`), heartbeats
(`classic_session.py`).

Source: sections 19 and 24 of behaviour.md; KIP-62, KIP-345, KIP-429, KIP-1092.
Invariants: callbacks of the listener run in `poll`, `leave` and `close` only. What is lost is no
longer handed out from then on, and reported lost by the next poll. A poll that is cancelled leaves
its step to the next one, which calls a callback again that has not returned; nothing is handed out
before. A `leave` that is cancelled leaves all the same: nothing more is committed or waited for.
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
from barnabas_client.consumer.group.classic import ClassicMember
from barnabas_client.consumer.group.classic_rebalance import ClassicRebalance
from barnabas_client.consumer.group.classic_session import ClassicSession
from barnabas_client.consumer.group.commit_step import CommitStep
from barnabas_client.consumer.group.listener_calls import ListenerCalls
from barnabas_client.consumer.group.rebalance_steps import AssignmentChange, GivenUp, MemberState
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import BarnabasError
from barnabas_client.network.client import Client
from barnabas_protocol.errors import ErrorCode


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
        self._member = ClassicMember(
            settings.group_id or "",
            assignors_for(settings.partition_assignment_strategy),
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            group_instance_id=settings.group_instance_id,
            rack_id=settings.client_rack,
        )
        self._rebalance = ClassicRebalance(
            client, settings, subscription, self._member, self._rebalance_ended
        )
        self._session = ClassicSession(client, settings, self._member, self._session_news)
        self._stop_watching: Callable[[], None] | None = None
        # Between the beginning of a rebalance and the callbacks for it.
        self._given_up: GivenUp | None = None
        # An assignment that has come and has not been told the listener.
        self._change: AssignmentChange | None = None
        self._commit = CommitStep(committer, settings)
        self._listener = ListenerCalls(subscription, committer, settings)
        committer.bind(self)

    # ---- what the consumer calls -----------------------------------------------------------

    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; asking is a sign of life."""
        self._session.polled()
        if not self._subscription.is_group_managed:
            return False
        if self._listener.error is not None or self._change is not None:
            return True
        match self._member.state:
            case MemberState.STABLE:
                return (
                    self._member.rejoin_reason is not None
                    or self._rebalance.joined_topics != self._subscription.topics
                )
            case MemberState.JOINING | MemberState.SYNCING:
                return not self._rebalance.is_running or not self._subscription.assigned
        return True

    async def poll(self, deadline_ms: int) -> None:
        """Go on with the rebalance, if there is one, until the deadline."""
        self._session.polled()
        self._start()
        while self._subscription.is_group_managed:
            self._listener.raise_error()
            if self._change is not None:
                await self._finish_change()
                continue
            self._notice_subscription()
            match self._member.state:
                case MemberState.UNJOINED | MemberState.PREPARING:
                    if not await self._prepare(deadline_ms):
                        break
                case MemberState.JOINING | MemberState.SYNCING:
                    self._rebalance.start()
                    if self._subscription.assigned or not await self._wait(deadline_ms):
                        break
                case MemberState.ASSIGNED:
                    await self._apply()
                case MemberState.STABLE:
                    if not self._member.is_rebalance_due or not await self._prepare(deadline_ms):
                        break
        self._listener.raise_error()

    def metadata(self) -> ConsumerGroupMetadata:
        """Who commits."""
        return self._member.identity()

    def request_rejoin(self, reason: str) -> None:
        """Make the group rebalance, in the next poll."""
        self._member.request_rejoin(reason)
        self._wake()

    async def leave(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Give up all partitions and leave; a static member just falls silent."""
        deadline_ms = self._now_ms() + timeout_ms
        was_joining = self._rebalance.is_running
        if leave_group is None:
            leave_group = self._settings.group_instance_id is None
        try:
            await self._rebalance.cancel()
            await self._commit.cancel()
            self._given_up = self._change = None
            await self._give_up_all(deadline_ms)
            if leave_group and self._member.member_id:
                await self._session.say_goodbye("the consumer leaves", deadline_ms, was_joining)
        except asyncio.CancelledError:
            self._given_up = self._change = None
            self._subscription.assign_from_group(())
            if leave_group and self._member.member_id:
                self._session.leave_group_soon("the consumer leaves", was_joining)
            raise
        finally:
            self._member.left("the consumer left")
        self._listener.raise_error()

    async def close(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Like `leave`, and end what runs in the background."""
        try:
            await self.leave(timeout_ms, leave_group=leave_group)
        finally:
            await self.stop()

    async def stop(self, goodbye_ms: int = 0) -> None:
        """End what runs in the background; a member that did not leave says so within the time."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        was_joining = self._rebalance.is_running
        await self._rebalance.cancel()
        await self._commit.cancel()
        await self._session.close()
        if goodbye_ms and self._member.member_id and self._settings.group_instance_id is None:
            deadline_ms = self._now_ms() + goodbye_ms
            await self._session.say_goodbye("the consumer ends", deadline_ms, was_joining)
            self._member.left("the consumer ended")

    # ---- what commits call -----------------------------------------------------------------

    def accepts_commits(self) -> bool:
        """Whether the coordinator would take a commit now."""
        return self._member.accepts_commits

    def commit_refused(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> None:
        """Take the error of a commit like that of a heartbeat."""
        try:
            self._member.heard(code, sent_as)
        except BarnabasError as error:
            self._listener.error = error
        self._after_news()

    # ---- steps of a rebalance --------------------------------------------------------------

    def _start(self) -> None:
        self._session.start()
        if self._stop_watching is None:
            self._stop_watching = self._client.on_metadata(self._cluster_changed)
            self._subscription.update_matching(self._client.cluster)

    def _notice_subscription(self) -> None:
        if (
            self._member.state is MemberState.STABLE
            and self._rebalance.joined_topics != self._subscription.topics
        ):
            self._member.request_rejoin("the subscription has changed")

    async def _prepare(self, deadline_ms: int) -> bool:
        """Commit, and give up what the protocol asks for; False if the time is over before."""
        if self._given_up is None:
            self._given_up = self._member.begin_rebalance(
                self._subscription.assigned, self._subscription.topics
            )
            self._subscription.mark_pending_revocation(self._given_up.partitions)
            if not self._given_up.is_lost:
                self._commit.start()
        if self._commit.is_under_way:
            with self._session.program_waits():
                if not await self._commit.finish(deadline_ms - self._now_ms()):
                    return False
        given_up = self._given_up
        if given_up.partitions:
            is_lost = given_up.is_lost or self._member.generation_id == NO_GENERATION
            await self._listener.given_up(given_up.partitions, is_lost=is_lost)
            gone = set(given_up.partitions)
            self._subscription.assign_from_group(
                [partition for partition in self._subscription.assigned if partition not in gone]
            )
        self._given_up = None
        self._member.prepared()
        return True

    async def _wait(self, deadline_ms: int) -> bool:
        """Wait for the group; False if the time is over before."""
        with self._session.program_waits():
            await self._rebalance.wait(deadline_ms - self._now_ms())
        return not self._rebalance.is_running

    async def _apply(self) -> None:
        self._change = self._member.apply(self._subscription.assigned, self._subscription.topics)
        await self._finish_change()

    async def _finish_change(self) -> None:
        """Give up, take and tell what the assignment says, from where a cancelled poll left it."""
        change = self._change
        assert change is not None
        if change.revoked:
            self._subscription.mark_pending_revocation(change.revoked)
            await self._committer.commit_before_rebalance(self._settings.request_timeout_ms)
            is_lost = self._member.generation_id == NO_GENERATION
            await self._listener.given_up(change.revoked, is_lost=is_lost)
            change = self._change = replace(change, revoked=())
        self._subscription.assign_from_group(change.assigned)
        self._client.set_wanted_topics(self._subscription.metadata_topics)
        await self._listener.assigned(change.added)
        self._change = None
        if self._member.state is MemberState.UNJOINED:
            # Lost while the callbacks ran.
            self._subscription.mark_pending_revocation(change.assigned)

    async def _give_up_all(self, deadline_ms: int) -> None:
        partitions = tuple(self._subscription.assigned)
        if not partitions or not self._subscription.is_group_managed:
            return
        self._subscription.mark_pending_revocation(partitions)
        if self._member.generation_id != NO_GENERATION:
            left_ms = max(1, deadline_ms - self._now_ms())
            await self._committer.commit_before_rebalance(left_ms)
        is_lost = self._member.generation_id == NO_GENERATION
        await self._listener.given_up(partitions, is_lost=is_lost)
        self._subscription.assign_from_group(())

    # ---- in the background -----------------------------------------------------------------

    def _rebalance_ended(self, error: Exception | None) -> None:
        if error is not None:
            self._listener.error = error
        self._session.begin()
        self._after_news()

    def _session_news(self, error: BarnabasError | None) -> None:
        if error is not None:
            self._listener.error = error
        self._after_news()

    def _after_news(self) -> None:
        """Stop handing out what is lost, and have the program's poll look."""
        if self._member.state is MemberState.UNJOINED:
            self._subscription.mark_pending_revocation(tuple(self._subscription.assigned))
        self._wake()

    def _cluster_changed(self, cluster: ClusterMetadata) -> None:
        if not self._subscription.is_group_managed:
            return
        if self._subscription.update_matching(cluster):
            self._wake()
        if self._rebalance.topics_changed(cluster):
            self.request_rejoin("the partitions of the group's topics have changed")

    # ---- shared ----------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()
