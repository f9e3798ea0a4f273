"""How a member gets from what it has to its target: revoke first, then take what is free.

Pure. Source: KIP-848, "Member assignment reconciliation"; behaviour.md CG-4.

    Stable      -> Unrevoked    the target lacks partitions that the member may still consume
                -> Unreleased   somebody else still has partitions of the target
                -> Stable       at the epoch of the target, with all of it
    Unrevoked   -> the same     until the member reports that it has let them go
                -> as from Stable
    Unreleased  -> as from Stable, with every heartbeat
    Unknown     -> as from Stable, when the member reports that it has nothing; else it is fenced

Invariants: the member epoch stays while partitions are being revoked; a partition is given only
when nobody holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import assert_never

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment
from barnabas_broker.coordinator.group.consumer.member import (
    NOTHING_OWNED,
    ConsumerMember,
    MemberState,
    Owned,
)
from barnabas_protocol.errors import ErrorCode, KafkaError

# What a member reports that it has; None if the request says nothing of it.
Reported = Mapping[bytes, Collection[int]] | None
IsFree = Callable[[bytes, int], bool]


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    is_free: IsFree,
    reported: Reported,
    subscribed: Collection[bytes] | None = None,
) -> ConsumerMember:
    """Return the member after one step; the same object if there is nothing to do.

    `subscribed` has the ids of the topics that the member wants where its target is older than
    that: the others are revoked without waiting for the next target.
    Raises: KafkaError 110 if it has to begin anew.
    """
    if subscribed is not None:
        target = {topic_id: each for topic_id, each in target.items() if topic_id in subscribed}
    step = _Step(member, target_epoch, target, is_free, reported)
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch != target_epoch:
                return step.towards_target(member.member_epoch)
            if subscribed is not None and not member.assigned.keys() <= set(subscribed):
                return step.without_unsubscribed(subscribed)
            return member
        case MemberState.UNREVOKED_PARTITIONS:
            if step.may_have(member.revoking):
                return member
            return step.towards_target(min(member.member_epoch + 1, target_epoch))
        case MemberState.UNRELEASED_PARTITIONS:
            return step.towards_target(member.member_epoch)
        case MemberState.UNKNOWN:
            if reported is None or any(reported.values()):
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return step.towards_target(target_epoch)
        case _:
            assert_never(member.state)


class _Step:
    def __init__(
        self,
        member: ConsumerMember,
        target_epoch: int,
        target: Assignment,
        is_free: IsFree,
        reported: Reported,
    ) -> None:
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._is_free = is_free
        self._reported = reported

    def may_have(self, partitions: Owned) -> bool:
        """Whether the member may still consume one of them."""
        if self._reported is None:
            return True
        return any(
            partition in partitions.get(topic_id, ())
            for topic_id, reported in self._reported.items()
            for partition in reported
        )

    def towards_target(self, revoking_epoch: int) -> ConsumerMember:
        """Keep what is in the target; revoke the rest, or take what is free."""
        target = self._target
        kept: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        for topic_id, partitions in self._member.assigned.items():
            wanted = target.get(topic_id, frozenset())
            for partition, since in partitions.items():
                side = kept if partition in wanted else revoking
                side.setdefault(topic_id, {})[partition] = since
        if revoking and self.may_have(revoking):
            return self._moved(MemberState.UNREVOKED_PARTITIONS, revoking_epoch, kept, revoking)
        state = MemberState.STABLE
        for topic_id, wanted in target.items():
            has = kept.get(topic_id, {})
            for partition in wanted:
                if partition in has:
                    continue
                if self._is_free(topic_id, partition):
                    kept.setdefault(topic_id, {})[partition] = self._target_epoch
                else:
                    state = MemberState.UNRELEASED_PARTITIONS
        return self._moved(state, self._target_epoch, kept, NOTHING_OWNED)

    def without_unsubscribed(self, subscribed: Collection[bytes]) -> ConsumerMember:
        """Revoke the topics that the member does not want any more; its epoch stays."""
        member = self._member
        kept = {key: each for key, each in member.assigned.items() if key in subscribed}
        revoking = {key: each for key, each in member.assigned.items() if key not in subscribed}
        if self.may_have(revoking):
            state = MemberState.UNREVOKED_PARTITIONS
            return self._moved(state, member.member_epoch, kept, revoking)
        return self._moved(MemberState.STABLE, member.member_epoch, kept, NOTHING_OWNED)

    def _moved(
        self, state: MemberState, member_epoch: int, assigned: Owned, revoking: Owned
    ) -> ConsumerMember:
        member = self._member
        if (
            state is member.state
            and member_epoch == member.member_epoch
            and assigned == member.assigned
            and revoking == member.revoking
        ):
            return member
        return replace(
            member,
            state=state,
            member_epoch=member_epoch,
            # The response that tells the new epoch may be lost: then the member comes with this.
            previous_member_epoch=member.member_epoch,
            assigned=assigned,
            revoking=revoking,
        )
