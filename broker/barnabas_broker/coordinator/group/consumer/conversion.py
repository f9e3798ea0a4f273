"""Classic groups become consumer groups, and the other way.

Source: CG-7; KIP-848, "Migration". Not here: what classic members do in a consumer group
(`classic_requests.py`). Invariants: a group id is a classic group's or a consumer group's;
tombstones of the one and records of the other are in one batch, and undone together.

    up      the first member of the consumer protocol joins: the generation becomes group epoch and
            member epoch, what the leader assigned becomes target and current assignment; whoever
            waits for a join or a sync is told to join again
    down    the last member of the consumer protocol goes: the group epoch becomes the generation,
            what members have is what the leader assigned; a rebalance starts
    empty   either way, at the first join; offsets stay
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.consumer.changes import GroupChanges
from barnabas_broker.coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    ConsumerGroupState,
)
from barnabas_broker.coordinator.group.consumer.member import (
    NOTHING_OWNED,
    ClassicSide,
    ConsumerMember,
    Owned,
)
from barnabas_broker.coordinator.group.consumer.membership import Membership
from barnabas_broker.coordinator.group.consumer.records import (
    AssignmentEpochValue,
    GroupEpochValue,
)
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.groups import Groups
from barnabas_broker.coordinator.group.members import ClassicMember
from barnabas_broker.coordinator.group.rebalance import Rebalancer
from barnabas_broker.coordinator.group.records import group_record, group_tombstone
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.shard import Instant, Result, no_change
from barnabas_protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Partitions,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from barnabas_protocol.consumer_protocol import Assignment as ClassicAssignment
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError

logger = logging.getLogger(__name__)


class Conversions:
    """Turns the groups of a shard into groups of the other kind."""

    def __init__(
        self, membership: Membership, classic_groups: Groups, rebalancer: Rebalancer
    ) -> None:
        self._membership = membership
        self._groups = membership.groups
        self._topics = membership.topics
        self._classic_groups = classic_groups
        self._rebalancer = rebalancer

    # ---- up ------------------------------------------------------------------------------------

    def group_for_join(self, group_id: str, context: RequestContext, now: Instant) -> GroupChanges:
        """Return the consumer group that a member joins; it is made if there is none.

        Raises: KafkaError 69 for a classic group that has to stay one, 81 without room.
        """
        group = self._groups.get(group_id)
        if group is not None:
            return self._groups.changes(group)
        classic = self._classic_groups.get(group_id)
        if classic is None:
            if not self._classic_groups.quota.has_room(context.client_host):
                self._rebalancer.make_room(now)
                raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
            made = self._groups.create(ConsumerGroup(group_id, context.client_host))
            return self._groups.changes(made)
        members = [] if classic.is_empty else self._upgraded_members(classic)
        self._classic_groups.set_aside(classic)
        made = self._groups.create(ConsumerGroup(group_id, classic.owner_host))
        changes = self._groups.changes(made)
        changes.records.append(group_tombstone(group_id))
        changes.accepted = lambda: self._upgrade_accepted(classic, changes.group, now)
        changes.refused = lambda then: self._upgrade_refused(classic, then)
        if members:
            self._take_over(changes, classic.generation_id, members, now)
        return changes

    def _upgraded_members(self, classic: ClassicGroup) -> list[ConsumerMember]:
        """Return the members as they will be. Raises: KafkaError 69 if that cannot be."""
        settings = self._membership.settings
        group_id = classic.group_id
        if (
            not settings.migration_policy.allows_upgrade
            or classic.protocol_type != PROTOCOL_TYPE
            or len(classic.members) > settings.group_size_max
        ):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )
        try:
            subscriptions = {
                member_id: _subscription(classic, member)
                for member_id, member in classic.members.items()
            }
            assigned = self._assigned(classic, subscriptions)
        except ParseError:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade classic group {group_id} to consumer group because the embedded "
                "consumer protocol is malformed.",
            ) from None
        return [
            _upgraded(member, subscriptions[member_id], assigned[member_id], classic.generation_id)
            for member_id, member in classic.members.items()
        ]

    def _assigned(
        self, classic: ClassicGroup, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Owned]:
        """Return what each member has: a partition that exists, and each only once.

        That is what the leader assigned, and what a member had when it joined last, unless another
        one got that: it may not have let it go yet, and will say so when it joins again.
        Raises: KafkaError 69 for a custom assignor; ParseError.
        """
        holdings = _Holdings(self._topics, classic.generation_id)
        for member_id, member in classic.members.items():
            assignment = decode_assignment(member.assignment)
            if assignment.user_data:
                raise KafkaError(
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    f"Cannot upgrade classic group {classic.group_id} to consumer group because "
                    "an unsupported custom assignor is in use.",
                )
            holdings.give(member_id, assignment.partitions)
        # Of two that claim a partition, it is the one of the later generation that has it.
        for member_id, subscription in sorted(
            subscriptions.items(), key=lambda each: -each[1].generation_id
        ):
            holdings.give(member_id, subscription.owned_partitions or {})
        return {member_id: holdings.of(member_id) for member_id in classic.members}

    def _take_over(
        self,
        changes: GroupChanges,
        generation_id: int,
        members: Sequence[ConsumerMember],
        now: Instant,
    ) -> None:
        for member in members:
            changes.member(member)
        changes.group_epoch(GroupEpochValue(generation_id, 0))
        for member in members:
            target = {key: frozenset(each) for key, each in member.assigned.items()}
            changes.target(member.member_id, target)
        changes.assignment_epoch(AssignmentEpochValue(generation_id, 0))
        for member in members:
            changes.current(member)

    def _upgrade_accepted(self, classic: ClassicGroup, group: ConsumerGroup, now: Instant) -> None:
        """Have the classic members join again; not for a member that is not taken after all."""
        classic.answer_all(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalancer.cancel_timers(classic)
        self._membership.start_all(group, now)
        logger.info("group %s is a consumer group now", group.group_id)

    def _upgrade_refused(self, classic: ClassicGroup, now: Instant) -> None:
        """Go on with a classic group that is back."""
        if self._classic_groups.get(classic.group_id) is classic:
            self._rebalancer.resume(classic, now)

    # ---- down ----------------------------------------------------------------------------------

    def downgrade(
        self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now: Instant
    ) -> Result[None] | None:
        """Make a classic group of those who stay, if none of them speaks the newer protocol."""
        gone = {member.member_id for member in leaving}
        staying = [each for each in group.members.values() if each.member_id not in gone]
        if not staying or not self._may_be_classic(staying):
            return None
        if all(member.classic is not None for member in leaving):
            # It is no consumer group because of anybody who goes now.
            return None
        return self._to_classic(group, staying, now, is_settled=False)

    def downgrade_if_classic(self, group: ConsumerGroup, now: Instant) -> Result[None] | None:
        """Make a classic group of one whose last consumer member a classic one has replaced.

        It goes on without a rebalance if every member has what it is to have: a member that does
        not would never hear of the rest.
        """
        if not self._may_be_classic(list(group.members.values())):
            return None
        is_settled = group.state is ConsumerGroupState.STABLE
        return self._to_classic(group, list(group.members.values()), now, is_settled=is_settled)

    def _may_be_classic(self, members: Sequence[ConsumerMember]) -> bool:
        return (
            self._membership.settings.migration_policy.allows_downgrade
            and len(members) <= self._rebalancer.settings.group_size_max
            and all(member.classic is not None for member in members)
        )

    def _to_classic(
        self,
        group: ConsumerGroup,
        staying: Sequence[ConsumerMember],
        now: Instant,
        *,
        is_settled: bool,
    ) -> Result[None]:
        """Make it a classic group, in which members have what they have now.

        If it is not settled it rebalances. It has no leader then, by which the next coordinator
        knows that nobody has assigned what the record says.
        """
        group_id = group.group_id
        classic = ClassicGroup(group_id, group.owner_host)
        for member in staying:
            classic.add(_classic_member(member, self._topics), PROTOCOL_TYPE)
        classic.generation_id = group.group_epoch
        classic.assigned_generation_id = group.group_epoch
        classic.protocol_name = classic.select_protocol()
        classic.state = GroupState.STABLE
        classic.compute_subscribed_topics()
        if not is_settled:
            classic.leader_id = None
        changes = self._groups.changes(group)
        changes.everything_removed()
        self._groups.take_out(group)
        self._classic_groups.put_converted(classic)
        for classic_member in classic.members.values():
            self._rebalancer.touch(classic, classic_member, now)
        logger.info("group %s is a classic group now, with %d members", group_id, len(staying))

        def on_append(error: KafkaError | None, then: Instant) -> Result[None]:
            back = self._groups.get(group_id)
            if error is not None and back is not None:
                self._membership.start_all(back, then)
            return no_change()

        records = [*changes.records, group_record(classic)]
        if not is_settled:
            prepared = self._rebalancer.prepare(classic, now)
            assert not prepared.records
        return Result(reply=None, records=records, on_append=on_append)

    # ---- without members -----------------------------------------------------------------------

    def remove_empty(self, group: ConsumerGroup) -> Result[None]:
        """Make room for a classic group in the place of a consumer group without members."""
        assert group.is_empty
        changes = self._groups.changes(group)
        changes.everything_removed()
        self._groups.take_out(group)
        return Result(reply=None, records=changes.records)


class _Holdings:
    """Who has which partition, by topic id; who comes first has it."""

    def __init__(self, topics: Topics, generation_id: int) -> None:
        self._topics = topics
        self._generation_id = generation_id
        self._taken: set[tuple[bytes, int]] = set()
        self._by_member: dict[str, dict[bytes, dict[int, int]]] = {}

    def give(self, member_id: str, partitions: Partitions) -> None:
        """Give a member those of the partitions that exist and that nobody has."""
        held = self._by_member.setdefault(member_id, {})
        for topic, numbers in partitions.items():
            topic_id = self._topics.topic_id(topic)
            if topic_id is None:
                continue
            count = self._topics.partition_count(topic)
            for number in numbers:
                if 0 <= number < count and (topic_id, number) not in self._taken:
                    self._taken.add((topic_id, number))
                    held.setdefault(topic_id, {})[number] = self._generation_id

    def of(self, member_id: str) -> Owned:
        """Return what a member has."""
        return self._by_member.get(member_id, NOTHING_OWNED)


def _subscription(classic: ClassicGroup, member: ClassicMember) -> Subscription:
    """Return what a member subscribes to. Raises: ParseError."""
    metadata = member.metadata(classic.protocol_name or "") or member.protocols[0][1]
    return decode_subscription(metadata)


def _upgraded(
    member: ClassicMember, subscription: Subscription, assigned: Owned, generation_id: int
) -> ConsumerMember:
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicSide(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
        member_epoch=generation_id,
        previous_member_epoch=generation_id,
        assigned=assigned,
    )


def _classic_member(member: ConsumerMember, topics: Topics) -> ClassicMember:
    assert member.classic is not None
    held: dict[bytes, set[int]] = {}
    for topic_id, partition in member.held():
        held.setdefault(topic_id, set()).add(partition)
    return ClassicMember(
        member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
        assignment=classic_assignment(held, topics),
    )


def classic_assignment(assigned: Mapping[bytes, Iterable[int]], topics: Topics) -> bytes:
    """Return partitions as a member of the classic protocol gets them."""
    partitions: dict[str, tuple[int, ...]] = {}
    for topic_id, each in assigned.items():
        name = topics.topic_name(topic_id)
        if name is not None:
            partitions[name] = tuple(sorted(each))
    return encode_assignment(ClassicAssignment(partitions=partitions))
