"""The part of a classic rebalance that needs no program: JoinGroup, assigning, SyncGroup.

It runs in a task of its own, so that the rebalance goes on when the program's poll times out. Not
here: callbacks (`classic_membership.py`), decisions (`classic_member.py`).

Source: KIP-62 (the rebalance timeout is that of the program), KIP-429.
Invariants: at most one task; it ends when the member has an assignment or is out of the group, and
then calls `on_end` with the error that no retry helps against, if there was one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.assignors import GroupMember, GroupTopics
from barnabas_client.consumer.group.classic_member import ClassicMember, ClassicMemberState
from barnabas_client.consumer.group.group_leader import (
    group_assignments,
    group_members,
    topics_snapshot,
    wanted_topics,
)
from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import (
    BrokerUnreachableError,
    DisconnectedError,
    RetriableError,
    TimedOutError,
)
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_protocol.messages.sync_group import SyncGroupRequestAssignment

_log = logging.getLogger(__name__)

# What network and broker may take beyond the time that the broker waits for members.
_JOIN_EXTRA_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """The members and topics that the leader made its assignment from."""

    members: Sequence[GroupMember]
    topics: frozenset[str]
    snapshot: GroupTopics


class ClassicRebalance:
    """Takes one member from JOINING to ASSIGNED."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        member: ClassicMember,
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._member = member
        self._on_end = on_end
        self._task: asyncio.Task[None] | None = None
        self._watched: _Watched | None = None
        # The subscription of the newest JoinGroup.
        self.joined_topics: frozenset[str] = frozenset()

    @property
    def is_running(self) -> bool:
        """Whether it waits for the group."""
        return self._task is not None

    def start(self) -> None:
        """Go on from where the member is, unless that is under way."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="group rebalance")

    async def wait(self, timeout_ms: int) -> None:
        """Return when it has ended, or after the time."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=max(0, timeout_ms) / 1000)

    async def cancel(self) -> None:
        """Stop; a response that still comes is dropped."""
        task = self._task
        self._watched = None
        if task is not None:
            task.cancel()
            # Now, and not by the task: one that has not begun never gets to its `finally`.
            self._task = None
            await asyncio.gather(task, return_exceptions=True)

    def topics_changed(self, cluster: ClusterMetadata) -> bool:
        """Whether this member is the leader and has assigned by other topics than there are now."""
        watched = self._watched
        if watched is None:
            return False
        return topics_snapshot(watched.members, watched.topics, cluster) != watched.snapshot

    async def _run(self) -> None:
        error: Exception | None = None
        try:
            await self._to_the_assignment()
        except Exception as failure:
            error = failure
        self._task = None
        self._on_end(error)

    async def _to_the_assignment(self) -> None:
        member = self._member
        failures = 0
        while member.state in (ClassicMemberState.JOINING, ClassicMemberState.SYNCING):
            try:
                node_id = await self._client.coordinator(CoordinatorType.GROUP, member.group_id)
                if member.state is ClassicMemberState.JOINING:
                    reaction = await self._join(node_id)
                else:
                    reaction = await self._sync(node_id)
            except (DisconnectedError, BrokerUnreachableError, TimedOutError) as error:
                _log.info("group %s: %s; joining again", member.group_id, error)
                member.on_response_lost()
                reaction = Reaction.FIND_COORDINATOR
            except RetriableError:
                reaction = Reaction.WAIT
            if reaction is Reaction.GO_ON:
                failures = 0
                continue
            if reaction is Reaction.FIND_COORDINATOR:
                self._client.forget_coordinator(CoordinatorType.GROUP, member.group_id)
            await asyncio.sleep(self._client.backoff_ms(failures) / 1000)
            failures += 1

    async def _join(self, node_id: int) -> Reaction:
        self.joined_topics = self._subscription.topics
        request = self._member.join_request(self.joined_topics, self._subscription.assigned)
        response = await self._client.request(
            node_id,
            request,
            timeout_ms=max(
                self._settings.request_timeout_ms,
                self._settings.max_poll_interval_ms + _JOIN_EXTRA_MS,
            ),
        )
        reaction = self._member.on_join_response(response)
        if self._member.state is ClassicMemberState.SYNCING:
            _log.info(
                "group %s: generation %d as %s%s, assignor %s",
                self._member.group_id,
                self._member.generation_id,
                self._member.member_id,
                " (leader)" if self._member.is_leader else "",
                self._member.protocol_name,
            )
        return reaction

    async def _sync(self, node_id: int) -> Reaction:
        assignments: list[SyncGroupRequestAssignment] = []
        if self._member.is_leader:
            assignments = await self._lead()
        else:
            self._watched = None
            if self._subscription.group_topics:
                self._subscription.set_group_topics(())
        request = self._member.sync_request(assignments)
        return self._member.on_sync_response(await self._client.request(node_id, request))

    async def _lead(self) -> list[SyncGroupRequestAssignment]:
        """Watch the topics of the whole group from now on; assign unless the broker skips that."""
        members = group_members(self._member.members)
        topics = wanted_topics(members)
        if self._subscription.set_group_topics(topics):
            self._client.set_wanted_topics(self._subscription.metadata_topics)
            try:
                await self._client.refresh(timeout_ms=self._settings.request_timeout_ms)
            except RetriableError as error:
                _log.warning("assigning by old metadata: %s", error)
        snapshot = topics_snapshot(members, topics, self._client.cluster)
        self._watched = _Watched(members=members, topics=topics, snapshot=snapshot)
        if not self._member.must_assign:
            return []
        return group_assignments(self._member.assignor, members, snapshot)
