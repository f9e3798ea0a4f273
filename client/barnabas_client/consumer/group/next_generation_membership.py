"""Membership in a group that the broker leads (KIP-848): the program's polls.

Not here: what heartbeats say and mean (`next_generation.py`), sending them
(`next_generation_session.py`).

Source: KIP-848, section 20 of behaviour.md, CON-11.
Invariants: callbacks of the listener run in `poll`, `leave` and `close` only; what is revoked is
committed and given up before the broker hears so; what is lost is no longer handed out from the
moment this is known. A poll that is cancelled leaves its step to the next one, which calls a
callback again that has not returned; nothing is handed out before. A `leave` that is cancelled
leaves all the same: nothing more is committed or waited for.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable
from typing import Final

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.offsets import ConsumerGroupMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.group.commit_step import CommitStep
from barnabas_client.consumer.group.listener_calls import ListenerCalls
from barnabas_client.consumer.group.next_generation import (
    NextGenerationMember,
    NextGenerationState,
    Wish,
)
from barnabas_client.consumer.group.next_generation_session import NextGenerationSession
from barnabas_client.consumer.subscription_state import SubscriptionKind, SubscriptionState
from barnabas_client.errors import BarnabasError
from barnabas_client.network.client import Client
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition, uuid_to_text

# What Python's patterns can and RE2, by which the broker matches, cannot: looking around, back
# references, atomic groups, possessive quantifiers, conditions, comments.
_NOT_IN_RE2: Final = re.compile(r"\(\?[=!<>(#]|\(\?P=|\\[1-9AZ]|[*+?}]\+")
_INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class NextGenerationMembership:
    """One consumer's place in a group of KIP-848."""

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
        self._member = NextGenerationMember(
            settings.group_id or "",
            uuid_to_text(uuid.UUID(bytes=random_bytes, version=4).bytes),
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            group_instance_id=settings.group_instance_id,
            rack_id=settings.client_rack,
            server_assignor=settings.group_remote_assignor,
        )
        self._session = NextGenerationSession(
            client, settings, self._member, self._wish, self._session_news
        )
        self._commit = CommitStep(committer, settings)
        self._is_committed = False
        # Partitions that the listener is told to give up, until it has: they go, whatever the
        # broker wants meanwhile.
        self._going: frozenset[TopicPartition] = frozenset()
        # Partitions that were assigned and that the listener is to be told of, if it is.
        self._untold: frozenset[TopicPartition] | None = None
        # The pattern as the broker is told it, and the picture of the cluster that lacks topics.
        self._pattern: tuple[re.Pattern[str] | None, str | None] = (None, None)
        self._lacking_version: int | None = None
        self._stop_watching: Callable[[], None] | None = None
        self._listener = ListenerCalls(subscription, committer, settings)
        committer.bind(self)

    # ---- what the consumer calls -----------------------------------------------------------

    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; asking is a sign of life."""
        self._session.polled()
        if not self._subscription.is_group_managed:
            return False
        if self._listener.error is not None:
            return True
        match self._member.state:
            case NextGenerationState.STABLE | NextGenerationState.ACKNOWLEDGING:
                return self._member.has_news(self._wish()) and not self._session.is_kicked
            case NextGenerationState.RECONCILING:
                has_waited = self._lacking_version != self._client.cluster.version
                return has_waited or self._untold is not None or bool(self._going)
        return True

    async def poll(self, deadline_ms: int) -> None:
        """Join, or reconcile, as far as that goes until the deadline."""
        self._session.polled()
        self._start()
        while self._subscription.is_group_managed:
            self._listener.raise_error()
            match self._member.state:
                case NextGenerationState.UNJOINED:
                    self._member.join()
                    self._session.kick()
                case NextGenerationState.FENCED:
                    await self._abandon()
                    self._member.join()
                    self._session.kick()
                case NextGenerationState.JOINING:
                    with self._session.program_waits():
                        if not await self._session.wait_for_news(deadline_ms - self._now_ms()):
                            break
                case NextGenerationState.RECONCILING:
                    if not await self._reconcile(deadline_ms):
                        break
                case NextGenerationState.ACKNOWLEDGING | NextGenerationState.STABLE:
                    if self._member.has_news(self._wish()):
                        self._session.kick()
                    break
        self._listener.raise_error()

    def metadata(self) -> ConsumerGroupMetadata:
        """Who commits."""
        return self._member.identity()

    def request_rejoin(self, reason: str) -> None:
        """Nothing: the broker sees by itself when partitions must move, as often as it must."""

    async def leave(self, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        """Give up all partitions and leave; the broker keeps those of a static member a while."""
        deadline_ms = self._now_ms() + timeout_ms
        # A static member says goodbye for now, unless it is to be for good or not at all.
        is_for_good = self._settings.group_instance_id is None or leave_group is True
        self._going, self._untold = frozenset(), None
        try:
            await self._commit.cancel()
            await self._give_up_all(deadline_ms)
            await self._session.stop()
            if self._member.is_member and leave_group is not False:
                await self._session.say_goodbye(deadline_ms, is_for_good=is_for_good)
        except asyncio.CancelledError:
            self._subscription.assign_from_group(())
            if self._member.is_member and leave_group is not False:
                self._session.leave_group_soon(is_for_good=is_for_good)
            raise
        finally:
            self._member.left()
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
        await self._commit.cancel()
        await self._session.finish()
        if goodbye_ms and self._member.is_member:
            is_for_good = self._settings.group_instance_id is None
            deadline_ms = self._now_ms() + goodbye_ms
            await self._session.say_goodbye(deadline_ms, is_for_good=is_for_good)
            self._member.left()

    # ---- what commits call -----------------------------------------------------------------

    def accepts_commits(self) -> bool:
        """Always: nobody waits for the whole group."""
        return True

    def commit_refused(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> None:
        """Have the next heartbeat find out at once."""
        self._session.kick()

    # ---- steps -----------------------------------------------------------------------------

    def _start(self) -> None:
        self._session.start()
        if self._stop_watching is None:
            self._stop_watching = self._client.on_metadata(self._cluster_changed)
            self._subscription.update_matching(self._client.cluster)

    def _wish(self) -> Wish:
        """The subscription as the broker is told it."""
        if self._subscription.kind is not SubscriptionKind.PATTERN:
            return Wish(topics=self._subscription.topics)
        pattern = self._subscription.pattern
        if self._pattern[0] is not pattern:
            is_possible = pattern is not None and not self._session.is_pattern_refused
            text = _as_re2(pattern, self._settings) if is_possible and pattern else None
            self._pattern = (pattern, text)
        if self._pattern[1] is None or self._session.is_pattern_refused:
            return Wish(topics=self._subscription.topics)
        return Wish(pattern=self._pattern[1])

    async def _reconcile(self, deadline_ms: int) -> bool:
        """Take one step towards what the broker wants; False if it has to wait."""
        await self._let_go()
        await self._tell_untold()
        if not self._is_reconciling():
            return True
        names = self._client.cluster.topic_names
        plan = self._member.reconciliation(names, self._subscription.assigned)
        if not plan.is_complete:
            # Topics that the broker has just found: the metadata has to catch up.
            self._client.request_refresh()
        if not plan.is_progress:
            self._lacking_version = self._client.cluster.version
            return False
        if plan.change.revoked and not self._is_committed:
            self._subscription.mark_pending_revocation(plan.change.revoked)
            self._commit.start()
            with self._session.program_waits():
                if not await self._commit.finish(deadline_ms - self._now_ms()):
                    return False
            # The target may have changed meanwhile.
            self._is_committed = True
            return True
        self._is_committed = False
        self._going = frozenset(plan.change.revoked)
        await self._let_go()
        if not self._is_reconciling():
            return True
        self._subscription.assign_from_group(plan.change.assigned)
        self._client.set_wanted_topics(self._subscription.metadata_topics)
        untold = self._untold or frozenset()
        self._untold = untold & {*plan.change.assigned} | {*plan.change.added}
        await self._tell_untold()
        self._member.reconciled(plan)
        self._session.kick()
        return True

    def _is_reconciling(self) -> bool:
        """Whether the member still is where it was before a callback ran."""
        return self._member.state is NextGenerationState.RECONCILING

    async def _let_go(self) -> None:
        """Give partitions up, also where the poll that told the listener so was cancelled."""
        if self._going:
            await self._listener.given_up(tuple(sorted(self._going)), is_lost=False)
            self._subscription.assign_from_group(
                [one for one in self._subscription.assigned if one not in self._going]
            )
            self._going = frozenset()

    async def _tell_untold(self) -> None:
        """Tell the listener what it was not told, also where the poll that did so was cancelled."""
        if self._untold is not None:
            await self._listener.assigned(tuple(sorted(self._untold)))
            self._untold = None

    async def _abandon(self) -> None:
        """Report everything lost."""
        self._is_committed = False
        await self._commit.cancel()
        partitions = tuple(self._subscription.assigned)
        if partitions:
            await self._listener.given_up(partitions, is_lost=True)
            self._subscription.assign_from_group(())
        self._going, self._untold = frozenset(), None

    async def _give_up_all(self, deadline_ms: int) -> None:
        partitions = tuple(self._subscription.assigned)
        if not partitions or not self._subscription.is_group_managed:
            return
        self._subscription.mark_pending_revocation(partitions)
        if self._member.is_member:
            left_ms = max(1, deadline_ms - self._now_ms())
            await self._committer.commit_before_rebalance(left_ms)
        await self._listener.given_up(partitions, is_lost=not self._member.is_member)
        self._subscription.assign_from_group(())

    # ---- in the background -----------------------------------------------------------------

    def _session_news(self, error: BarnabasError | None) -> None:
        if error is not None:
            self._listener.error = error
        self._lacking_version = None
        if self._member.state is NextGenerationState.FENCED:
            self._subscription.mark_pending_revocation(tuple(self._subscription.assigned))
        self._wake()

    def _cluster_changed(self, cluster: ClusterMetadata) -> None:
        if not self._subscription.is_group_managed:
            return
        if self._subscription.update_matching(cluster):
            self._session.kick()
        if self._lacking_version is not None:
            self._wake()

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()


def _as_re2(pattern: re.Pattern[str], settings: ConsumerSettings) -> str | None:
    """The pattern as the broker understands it; None if it might mean something else there."""
    if pattern.flags != re.UNICODE or _NOT_IN_RE2.search(pattern.pattern):
        return None
    if settings.exclude_internal_topics and any(map(pattern.fullmatch, _INTERNAL_TOPICS)):
        return None
    return pattern.pattern
