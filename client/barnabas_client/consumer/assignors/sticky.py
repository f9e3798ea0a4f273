"""The sticky assignors: even first, and then with as few moves as possible.

Both find the same plan. `sticky` makes members give up everything before a rebalance and hands
most of it back; `cooperative-sticky` lets them keep what stays and gives a partition that moves to
its new owner only in the rebalance after the one in which the old owner gave it up.

Where all members want the same topics the shares follow from the numbers; otherwise
`balanced_counts.py` finds them. Racks are not regarded.

Source: Kafka's AbstractStickyAssignor for what must hold, KIP-54, KIP-341 (generations), KIP-429;
the way to it is our own. A group may mix both: members and leader exchange the same user data.
Invariants: no member could take a partition, directly or through others, from one that has two
more; what a member keeps is the most that its share allows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from barnabas_client.consumer.assignors.assignor import (
    Assignor,
    GroupMember,
    GroupTopics,
    grouped,
    member_order,
)
from barnabas_client.consumer.assignors.balanced_counts import balanced_counts
from barnabas_client.consumer.assignors.previous_owners import (
    Claim,
    PreviousOwners,
    decode_generation,
    decode_sticky_user_data,
    encode_generation,
    encode_sticky_user_data,
    settle_claims,
)
from barnabas_protocol.consumer_protocol import Assignment, Partitions

# By member id: its partitions, sorted.
Plan = dict[str, list[tuple[str, int]]]


class _AnySticky(Assignor):
    """The algorithm of both."""

    @abstractmethod
    def _claim(self, member: GroupMember) -> Claim:
        """What the member claims to have owned."""

    def _plan(
        self, members: Sequence[GroupMember], topics: GroupTopics
    ) -> tuple[Plan, PreviousOwners]:
        ordered = sorted(members, key=member_order)
        counts = {topic: count for topic, count in topics.partition_counts.items() if count > 0}
        claims = {member.member_id: self._claim(member) for member in ordered}
        previous = settle_claims(ordered, claims, counts)
        wanted = {
            member.member_id: {topic for topic in member.subscription.topics if topic in counts}
            for member in ordered
        }
        if not ordered:
            return {}, previous
        first = next(iter(wanted.values()))
        if all(topics == first for topics in wanted.values()):
            plan = _equal_shares(wanted, counts, previous)
        else:
            plan = _general_shares(wanted, counts, previous)
        for partitions in plan.values():
            partitions.sort()
        return plan, previous


class StickyAssignor(_AnySticky):
    """Keeps partitions where they are as far as an even distribution allows."""

    name: ClassVar[str] = "sticky"

    def assign(
        self, members: Sequence[GroupMember], topics: GroupTopics
    ) -> Mapping[str, Assignment]:
        """Every member id with its assignment."""
        plan, _ = self._plan(members, topics)
        return {
            member_id: Assignment(partitions=grouped(partitions))
            for member_id, partitions in plan.items()
        }

    def user_data(
        self, topics: Iterable[str], previous: Partitions | None, generation_id: int
    ) -> bytes | None:
        """What this member had, and when: it has given it up by the time the leader asks."""
        if previous is None:
            return None
        return encode_sticky_user_data(Claim(partitions=previous, generation_id=generation_id))

    def _claim(self, member: GroupMember) -> Claim:
        return decode_sticky_user_data(member.subscription.user_data)


class CooperativeStickyAssignor(_AnySticky):
    """Like `sticky`; only what moves is given up."""

    name: ClassVar[str] = "cooperative-sticky"
    is_cooperative: ClassVar[bool] = True

    def assign(
        self, members: Sequence[GroupMember], topics: GroupTopics
    ) -> Mapping[str, Assignment]:
        """Every member id with its assignment, without what another must first give up."""
        plan, previous = self._plan(members, topics)
        owners = previous.owners
        return {
            member_id: Assignment(
                partitions=grouped(
                    partition
                    for partition in partitions
                    if owners.get(partition, member_id) == member_id
                )
            )
            for member_id, partitions in plan.items()
        }

    def user_data(
        self, topics: Iterable[str], previous: Partitions | None, generation_id: int
    ) -> bytes | None:
        """The generation, for leaders that do not know it as a field of the subscription."""
        return encode_generation(generation_id)

    def _claim(self, member: GroupMember) -> Claim:
        subscription = member.subscription
        generation_id = subscription.generation_id
        if generation_id < 0:
            generation_id = decode_generation(subscription.user_data)
        return Claim(
            partitions=subscription.owned_partitions or {},
            generation_id=generation_id,
        )


def _equal_shares(
    wanted: Mapping[str, set[str]], counts: Mapping[str, int], previous: PreviousOwners
) -> Plan:
    """Share out when all members want the same: everyone gets the quotient, some get one more.

    Members that already have more than the quotient are the ones that get one more.
    """
    topics = sorted(next(iter(wanted.values())))
    least, extras = divmod(sum(counts[topic] for topic in topics), len(wanted))
    plan: Plan = {}
    left = {(topic, number) for topic in topics for number in range(counts[topic])}
    for member_id in wanted:
        owned = _spread(previous.by_member[member_id])
        share = least
        if len(owned) > least and extras:
            share += 1
            extras -= 1
        plan[member_id] = owned[:share]
        left.difference_update(plan[member_id])
    shares = {}
    for member_id, partitions in plan.items():
        shares[member_id] = max(least, len(partitions))
        if extras and len(partitions) <= least:
            shares[member_id] = least + 1
            extras -= 1
    _deal(sorted(left), plan, shares)
    return plan


def _spread(owned: Mapping[str, list[int]]) -> list[tuple[str, int]]:
    """The partitions such that any beginning has about equally many of each topic."""
    ranked = [
        (rank, topic, number)
        for topic, numbers in owned.items()
        for rank, number in enumerate(sorted(numbers))
    ]
    ranked.sort()
    return [(topic, number) for _, topic, number in ranked]


def _deal(partitions: Sequence[tuple[str, int]], plan: Plan, shares: Mapping[str, int]) -> None:
    """Give one partition after the other to the members that are below their share, in turn."""
    takers = [member_id for member_id in plan if len(plan[member_id]) < shares[member_id]]
    at = 0
    while at < len(partitions):
        for member_id, partition in zip(takers, partitions[at:], strict=False):
            plan[member_id].append(partition)
        at += len(takers)
        takers = [member_id for member_id in takers if len(plan[member_id]) < shares[member_id]]


def _general_shares(
    wanted: Mapping[str, set[str]], counts: Mapping[str, int], previous: PreviousOwners
) -> Plan:
    """Share out when members want different things: how many of each topic, then which."""
    owned_counts = {
        member_id: {topic: len(numbers) for topic, numbers in topics.items()}
        for member_id, topics in previous.by_member.items()
    }
    shares = balanced_counts(wanted, counts, owned_counts)
    plan: Plan = {member_id: [] for member_id in wanted}
    takers: dict[str, list[tuple[str, int]]] = {}
    kept: dict[str, set[int]] = {}
    for member_id, topics in shares.items():
        for topic, share in topics.items():
            stays = sorted(previous.by_member[member_id].get(topic, ()))[:share]
            plan[member_id] += [(topic, number) for number in stays]
            kept.setdefault(topic, set()).update(stays)
            takers.setdefault(topic, []).append((member_id, share - len(stays)))
    for topic, topic_takers in takers.items():
        left = iter(number for number in range(counts[topic]) if number not in kept[topic])
        for member_id, missing in topic_takers:
            plan[member_id] += [(topic, next(left)) for _ in range(missing)]
    return plan
