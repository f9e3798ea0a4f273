"""Who should hold the metadata log, and the next change of the members on the way there.

Pure. Members are brokers with the lowest ids, at most `metadata.members`. A member that was not
heard for `metadata.member.lost.ms` is replaced, or dropped, but never below `metadata.min.members`
or, in a smaller cluster, below all there are. A broker that is to go for good has the setting
`metadata.member.leaving`: it is a candidate no more and leaves while it still runs; if it leads, it
hands over first. Whether a change is safe now is not decided here (`leadership`, rule 4); one that
is refused is planned anew a little later.

Invariants: the leader stays; only a voter that was heard lately and has all committed records comes
in; a member is let go for its wish only if a majority of those that stay was heard lately; nothing
is planned that the plan itself would take back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas_broker.metadata.image import RESOURCE_BROKER, MetadataImage
from barnabas_broker.metadata.quorum.voters import Voter

# A fetch comes at least every half second: who was not heard for this long is no candidate.
CANDIDATE_SILENCE_MS_MAX: Final = 3000
# A broker's own setting; it is in the metadata, so that every leader knows it.
MEMBER_LEAVING: Final = "metadata.member.leaving"


def is_leaving(image: MetadataImage, node_id: int) -> bool:
    """Whether a broker is to go for good: it leaves the members, and gets no more replicas."""
    overrides = image.config_overrides(RESOURCE_BROKER, str(node_id))
    return overrides.get(MEMBER_LEAVING, "").strip().lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSituation:
    """What the leader knows; times are of the monotonic clock."""

    now_ms: int
    leader: Voter
    members: frozenset[Voter]
    broker_ids: frozenset[int]  # registered, fenced or not
    heard_ms: Mapping[Voter, int]  # when each voter last fetched
    leading_since_ms: int
    caught_up: frozenset[Voter]  # have all that is committed on their disk
    members_max: int
    members_min: int
    member_lost_ms: int
    leaving_ids: frozenset[int] = frozenset()  # of brokers that are to go for good

    def silence_ms(self, voter: Voter) -> int:
        """For how long a voter was not heard; counted from the start of the leadership."""
        if voter == self.leader:
            return 0
        return self.now_ms - max(self.heard_ms.get(voter, 0), self.leading_since_ms)


def plan_members(now: MemberSituation) -> frozenset[Voter] | None:
    """The members to ask for next; None if they are as they should be, or cannot be better."""
    candidates = _candidates(now)
    lost = {voter for voter in now.members if _is_lost(now, voter)}
    leaving = {voter for voter in now.members - {now.leader} if voter.node_id in now.leaving_ids}
    wanted = _wanted(now, candidates, lost, leaving)
    if leaving - lost and not (_has_majority(now, wanted) and len(wanted) >= _size_min(now)):
        # Who is to go is needed until others are back.
        wanted = _wanted(now, candidates, lost, set())
    return wanted if wanted != now.members else None


def has_to_hand_over(now: MemberSituation) -> bool:
    """Whether the leader is to go for good and another member could lead in its place."""
    if now.leader.node_id not in now.leaving_ids:
        return False
    others = now.members - {now.leader}
    heirs = {voter for voter in others & now.caught_up if _is_there(now, voter)}
    stay = {voter for voter in heirs if voter.node_id not in now.leaving_ids}
    return bool(stay) and _has_majority(now, now.members)


def _size_min(now: MemberSituation) -> int:
    """How few members there may be: in a small cluster, as many as there are brokers that stay."""
    return min(now.members_min, max(len(now.broker_ids - now.leaving_ids), 1))


def _has_majority(now: MemberSituation, members: frozenset[Voter]) -> bool:
    """Whether most of the members were heard lately; the leader hears itself."""
    heard = {voter for voter in members if voter == now.leader or _is_there(now, voter)}
    return len(heard) > len(members) // 2


def _wanted(
    now: MemberSituation, candidates: set[Voter], lost: set[Voter], leaving: set[Voter]
) -> frozenset[Voter]:
    """The members by rank, with as many of the lost ones as are needed for the lowest number."""
    kept = now.members - lost - leaving
    by_rank = sorted(
        kept | candidates,
        key=lambda voter: (voter != now.leader, voter.node_id, voter not in kept, voter),
    )
    wanted = frozenset(_one_each(by_rank)[: now.members_max])
    size_min = min(_size_min(now), len(now.members))
    # Too few are left: some of the lost ones stay, for a lower number would be worse.
    for voter in sorted(lost - leaving):
        taken = {other.node_id for other in wanted}
        if len(wanted) < size_min and voter.node_id not in taken:
            wanted |= {voter}
    return wanted


def is_heir_missing(now: MemberSituation) -> bool:
    """Whether nobody could lead without the leader, and somebody is there to be made a member.

    That one may have to catch up first: there is not always a plan.
    """
    heard = {voter for voter in now.heard_ms if _is_there(now, voter)}
    return len(heard & now.members) <= len(now.members) // 2 and bool(heard - now.members)


def _candidates(now: MemberSituation) -> set[Voter]:
    return {
        voter
        for voter in now.caught_up - now.members
        if _is_there(now, voter) and voter.node_id not in now.leaving_ids
    }


def _is_there(now: MemberSituation, voter: Voter) -> bool:
    """Whether another broker's voter was heard lately."""
    return (
        voter.node_id in now.broker_ids
        and voter.node_id != now.leader.node_id
        and now.now_ms - now.heard_ms.get(voter, -CANDIDATE_SILENCE_MS_MAX)
        < CANDIDATE_SILENCE_MS_MAX
    )


def _is_lost(now: MemberSituation, voter: Voter) -> bool:
    """Silent for too long, unregistered, or a disk whose node runs with another one by now.

    Not while both are heard: then a second process has the id by mistake, and is refused one.
    """
    if voter == now.leader:
        return False
    if now.broker_ids and voter.node_id not in now.broker_ids:
        # It may just not have registered yet: then it is heard.
        return now.silence_ms(voter) >= min(CANDIDATE_SILENCE_MS_MAX, now.member_lost_ms)
    is_replaced = any(
        other.node_id == voter.node_id and other != voter and heard > now.heard_ms.get(voter, -1)
        for other, heard in now.heard_ms.items()
    )
    silence_ms = now.silence_ms(voter)
    if is_replaced and silence_ms >= CANDIDATE_SILENCE_MS_MAX:
        return True
    return silence_ms >= now.member_lost_ms


def _one_each(voters: list[Voter]) -> list[Voter]:
    """The first voter of each node."""
    found: dict[int, Voter] = {}
    for voter in voters:
        found.setdefault(voter.node_id, voter)
    return list(found.values())
