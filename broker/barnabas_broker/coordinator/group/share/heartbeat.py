"""ShareGroupHeartbeat: everything that a member of a share group does.

Source: KIP-932, SHR-28; texts of refusals are Kafka's. Not here: epochs and targets
(`membership.py`), the state of partitions (`partition_work.py`).

    epoch 0     join, or begin anew, with the topics
    epoch > 0   stay; null fields are unchanged
    epoch -1    leave

A member that waits for its partitions is to come again soon (`ShareMembership`).

Invariant: the response carries an assignment only on epoch 0, with topics in the request, or when
it has changed, which a member at its former epoch has not heard of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.group_memory import MEMBER_BYTES
from barnabas_broker.coordinator.group.share.changes import ShareGroupChanges
from barnabas_broker.coordinator.group.share.member import JOIN_EPOCH, LEAVE_EPOCH, ShareMember
from barnabas_broker.coordinator.group.share.membership import ShareMembership
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.runtime.shard import Instant, Result, with_reply
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

# Clients make member ids: UUIDs as text.
MEMBER_ID_CHARS_MAX = 36
# Records of one heartbeat that share a batch whatever comes.
BATCH_BYTES_MAX = 512 * 1024

# Gives the group that a member joins, made for it if need be. Raises: KafkaError 69, 81.
GroupForJoin = Callable[[str, str, Instant], ShareGroup]


class Beat(NamedTuple):
    """The response, and whether the state of partitions is to be looked after."""

    response: ShareGroupHeartbeatResponse
    has_work: bool = False


class ShareHeartbeats:
    """Takes the heartbeats for the share groups of one shard."""

    def __init__(self, membership: ShareMembership, group_for_join: GroupForJoin) -> None:
        self._membership = membership
        self._groups = membership.groups
        self._settings = membership.settings
        self._group_for_join = group_for_join

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext, now: Instant
    ) -> Result[Beat]:
        """Take one heartbeat. Raises: KafkaError."""
        self._membership.metrics.heartbeat_count += 1
        _check(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request)
        if request.member_epoch == JOIN_EPOCH:
            group = self._group_for_join(request.group_id, context.client_host, now)
            self._check_room(group, request.member_id)
        else:
            group = self._group(request.group_id, "Share group")
        before = self._member(group, request)
        changes = self._groups.changes(group)
        updated = self._update(changes, before, request, context)
        is_due = group.group_epoch == 0 or updated.topics != before.topics
        self._membership.refresh_epoch(changes, is_due=is_due)
        self._membership.update_targets(changes, now)
        member = self._membership.reconcile(changes, updated)
        self._membership.touch(group, member, now)
        names_topics = request.subscribed_topic_names is not None
        response = ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._membership.heartbeat_interval_ms(group, member, now),
            assignment=_assignment(member)
            if request.member_epoch != before.member_epoch
            or names_topics
            or member.assigned != before.assigned
            else None,
        )
        size_bytes = sum(record.size_bytes for record in changes.records)
        return Result(
            reply=Beat(response, group.has_work and now.monotonic_ms >= group.retry_ms),
            records=changes.records,
            # What it shows may be on its way into the log still.
            waits_for_commit=True,
            # The targets of very many members need not be in one batch: their epoch comes last.
            is_atomic=size_bytes < BATCH_BYTES_MAX,
        )

    def _group(self, group_id: str, kind: str = "Group") -> ShareGroup:
        """Return a group that must be there. Raises: KafkaError 69."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        return group

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        size_max = self._settings.group_size_max
        if len(group.members) >= size_max and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {size_max} members.",
            )

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        """Return the member as it was before the request; a new one is not in the group yet."""
        member = group.members.get(request.member_id)
        if request.member_epoch == JOIN_EPOCH:
            # One that is known begins anew.
            return member or ShareMember(member_id=request.member_id)
        if member is None:
            raise _unknown_member(group, request.member_id)
        check_epoch(member, request.member_epoch)
        return member

    def _update(
        self,
        changes: ShareGroupChanges,
        before: ShareMember,
        request: ShareGroupHeartbeatRequest,
        context: RequestContext,
    ) -> ShareMember:
        """Take over what the member says about itself. Raises: KafkaError 81."""
        group, names = changes.group, request.subscribed_topic_names
        updated = replace(
            before,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            topics=before.topics if names is None else frozenset(names),
            client_id=context.client_id,
            client_host=context.client_host,
        )
        is_known = before.member_id in group.members
        if is_known and updated == before:
            return before
        self._check_metadata(group, before if is_known else None, updated)
        changes.member(updated)
        return updated

    def _check_metadata(
        self, group: ShareGroup, before: ShareMember | None, updated: ShareMember
    ) -> None:
        """Refuse a member that says more about itself than it did, and too much.

        Raises: KafkaError 81.
        """
        settings = self._settings
        known = ShareMember(member_id="") if before is None else before
        more = updated.metadata_bytes - known.metadata_bytes
        more_names = len(updated.topics) - len(known.topics)
        if (
            more > 0
            and (
                updated.metadata_bytes > settings.member_metadata_bytes_max
                or group.metadata_bytes + more > settings.group_metadata_bytes_max
            )
        ) or (
            more_names > 0
            and group.subscription_count + more_names > settings.group_subscriptions_max
        ):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if before is None:
            more += MEMBER_BYTES
        if more > 0 and not self._groups.quota.memory.has_room(group.owner_host, more):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _leave(self, request: ShareGroupHeartbeatRequest) -> Result[Beat]:
        group = self._group(request.group_id)
        member = group.members.get(request.member_id)
        if member is None:
            raise _unknown_member(group, request.member_id)
        self._membership.metrics.leave_count += 1
        response = ShareGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )
        return with_reply(self._membership.fence(group, member), Beat(response))


def check_epoch(member: ShareMember, received: int) -> None:
    """Refuse another epoch than the member's own, unless its last response was lost.

    Raises: KafkaError 110.
    """
    if received in (member.member_epoch, member.previous_member_epoch):
        return
    relation = "greater" if received > member.member_epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {relation} member epoch ({received}) than the one known by "
        f"the group coordinator ({member.member_epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def _unknown_member(group: ShareGroup, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Refuse what no group could take. Raises: KafkaError 42."""
    _refuse_if(request.group_id == "", "GroupId can't be empty.")
    _refuse_if(request.member_id == "", "MemberId can't be empty.")
    _refuse_if(
        len(request.member_id) > MEMBER_ID_CHARS_MAX,
        f"MemberId can't have more than {MEMBER_ID_CHARS_MAX} characters.",
    )
    _refuse_if(request.rack_id == "", "RackId can't be empty.")
    _refuse_if(request.member_epoch < LEAVE_EPOCH, "MemberEpoch is invalid.")
    _refuse_if(
        request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names,
        "SubscribedTopicNames must be set in first request.",
    )


def _refuse_if(is_wrong: bool, reason: str) -> None:
    if is_wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _assignment(member: ShareMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )
