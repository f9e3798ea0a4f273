"""Group coordinators: the classic protocol and KIP-848, with the offsets of groups."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import Uuid
from barnabas_protocol.messages import (
    consumer_group_heartbeat as kip848,
)
from barnabas_protocol.messages import (
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from tests.simulation.client.world import World

LOOK_SECONDS = 0.5
NEXT_SESSION_SECONDS = 10.0
NEXT_INTERVAL_MS = 500
PartitionId = tuple[Uuid, int]


@dataclass
class Member:
    """A classic member."""

    member_id: str
    instance_id: str | None
    session_seconds: float
    heard_at: float
    rebalance_seconds: float = 60.0
    protocols: dict[str, bytes] = field(default_factory=dict)
    joining: "asyncio.Future[Any] | None" = None
    syncing: "asyncio.Future[Any] | None" = None
    assignment: bytes = b""


@dataclass
class NextMember:
    """A member of KIP-848, as in the coordinator of tests/client/consumer/group."""

    heard_at: float
    epoch: int = 0
    topics: frozenset[str] = frozenset()
    told: set[PartitionId] = field(default_factory=set)
    held: set[PartitionId] = field(default_factory=set)
    target: set[PartitionId] = field(default_factory=set)


class Group:
    """One group of either kind."""

    def __init__(
        self,
        world: World,
        group_id: str,
        partitions_of: Callable[[Iterable[str]], list[PartitionId]],
    ) -> None:
        self.group_id = group_id
        self.offsets: dict[tuple[str, int], int] = {}
        self.pending: dict[int, dict[tuple[str, int], int]] = {}
        self.members: dict[str, Member] = {}
        self.promised: set[str] = set()
        self.state = "Empty"
        self.generation = 0
        self.protocol = ""
        self.leader = ""
        self.next_members: dict[str, NextMember] = {}
        self.epoch = 0
        self._world = world
        self._partitions_of = partitions_of
        self._round = 0
        self._is_watching = False
        self._known: list[PartitionId] = []

    @property
    def member_ids(self) -> list[str]:
        """Everybody who is in it."""
        return [*self.members, *self.next_members]

    def _now(self) -> float:
        return self._world.loop.true_seconds

    def _watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._world.later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Put out who was not heard of for a session."""
        self._is_watching = False
        now = self._now()
        for member in list(self.members.values()):
            is_silent = now - member.heard_at > member.session_seconds
            if is_silent and member.joining is None:
                self._world.tell("group", self.group_id, "expires", member.member_id)
                self._remove(member.member_id)
        silent = [
            member_id
            for member_id, member in self.next_members.items()
            if now - member.heard_at > NEXT_SESSION_SECONDS
        ]
        for member_id in silent:
            self._world.tell("group", self.group_id, "expires", member_id)
            del self.next_members[member_id]
        wanted = {topic for member in self.next_members.values() for topic in member.topics}
        if silent or self._partitions_of(wanted) != self._known:
            self._retarget()
        if self.members or self.next_members:
            self._watch()

    # ---- the classic protocol --------------------------------------------------------------

    def join(self, request: join_group.JoinGroupRequest) -> Any:
        """A member wants to be in the next generation."""
        self._watch()
        member_id, instance_id = request.member_id, request.group_instance_id
        if instance_id is not None and not member_id:
            for other in list(self.members.values()):
                if other.instance_id == instance_id:
                    self._fence(other)
        if not member_id:
            member_id = f"member-{self._world.random.getrandbits(32):x}"
            if instance_id is None:
                self.promised.add(member_id)
                return _joined(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        elif member_id not in self.members and member_id not in self.promised:
            return _joined(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        self.promised.discard(member_id)
        protocols = {one.name: bytes(one.metadata) for one in request.protocols}
        others = [m for m in self.members.values() if m.member_id != member_id]
        if others and not set(protocols).intersection(*(m.protocols for m in others)):
            return _joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(member_id, instance_id, 0, 0)
        member.session_seconds = request.session_timeout_ms / 1000
        member.rebalance_seconds = request.rebalance_timeout_ms / 1000
        member.heard_at = self._now()
        member.protocols = protocols
        if member.joining is not None:
            member.joining.set_result(_joined(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        member.joining = self._world.loop.create_future()
        found = member.joining
        self._prepare()
        self._complete_if_all()
        return found

    def _fence(self, member: Member) -> None:
        for waiting in (member.joining, member.syncing):
            if waiting is not None:
                kind = _joined if waiting is member.joining else _synced
                waiting.set_result(kind(ErrorCode.FENCED_INSTANCE_ID, member.member_id))
        member.joining = member.syncing = None
        del self.members[member.member_id]
        self._prepare()

    def _prepare(self) -> None:
        if self.state == "Preparing":
            return
        self.state = "Preparing"
        self._world.tell("group", self.group_id, "prepares", self.generation + 1)
        for member in self.members.values():
            if member.syncing is not None:
                member.syncing.set_result(_synced(ErrorCode.REBALANCE_IN_PROGRESS))
                member.syncing = None
        self._round += 1
        longest = max((m.rebalance_seconds for m in self.members.values()), default=0)
        self._world.later(longest, self._give_up_waiting, self._round)

    def _give_up_waiting(self, number: int) -> None:
        if self.state == "Preparing" and number == self._round:
            for member in list(self.members.values()):
                if member.joining is None:
                    del self.members[member.member_id]
            self._complete()

    def _complete_if_all(self) -> None:
        if self.state == "Preparing" and all(m.joining is not None for m in self.members.values()):
            self._complete()

    def _complete(self) -> None:
        self.generation += 1
        if not self.members:
            self.state = "Empty"
            return
        self.state = "Completing"
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        common = set.intersection(*(set(m.protocols) for m in self.members.values()))
        self.protocol = next(name for name in self.members[self.leader].protocols if name in common)
        self._world.tell("group", self.group_id, "generation", self.generation, *self.members)
        for member in self.members.values():
            answer = _joined(ErrorCode.NONE, member.member_id)
            answer.generation_id = self.generation
            answer.protocol_type, answer.protocol_name = "consumer", self.protocol
            answer.leader = self.leader
            if member.member_id == self.leader:
                answer.members = [
                    join_group.JoinGroupResponseMember(
                        member_id=m.member_id,
                        group_instance_id=m.instance_id,
                        metadata=m.protocols[self.protocol],
                    )
                    for m in self.members.values()
                ]
            assert member.joining is not None
            member.heard_at = self._now()
            member.assignment = b""
            member.joining.set_result(answer)
            member.joining = None

    def sync(self, request: sync_group.SyncGroupRequest) -> Any:
        """A member wants its assignment; the leader brings all."""
        code = self.check(request.member_id, request.generation_id, request.group_instance_id)
        if code is not ErrorCode.NONE:
            return _synced(code)
        if self.state == "Preparing":
            return _synced(ErrorCode.REBALANCE_IN_PROGRESS)
        member = self.members[request.member_id]
        member.heard_at = self._now()
        if self.state == "Stable":
            return self._assigned(member)
        member.syncing = self._world.loop.create_future()
        found = member.syncing
        if request.member_id == self.leader:
            for one in request.assignments:
                self.members[one.member_id].assignment = bytes(one.assignment)
            self.state = "Stable"
            for other in self.members.values():
                if other.syncing is not None:
                    other.heard_at = self._now()
                    other.syncing.set_result(self._assigned(other))
                    other.syncing = None
        return found

    def _assigned(self, member: Member) -> sync_group.SyncGroupResponse:
        answer = _synced(ErrorCode.NONE)
        answer.protocol_type, answer.protocol_name = "consumer", self.protocol
        answer.assignment = member.assignment
        return answer

    def beat(self, request: heartbeat.HeartbeatRequest) -> heartbeat.HeartbeatResponse:
        """A member lives."""
        code = self.check(request.member_id, request.generation_id, request.group_instance_id)
        if code is ErrorCode.NONE:
            self.members[request.member_id].heard_at = self._now()
            if self.state == "Preparing":
                code = ErrorCode.REBALANCE_IN_PROGRESS
        return heartbeat.HeartbeatResponse(error_code=code)

    def leave(self, request: leave_group.LeaveGroupRequest) -> leave_group.LeaveGroupResponse:
        """Members go."""
        answers = []
        for one in request.members:
            code = ErrorCode.NONE
            member_id = one.member_id
            if one.group_instance_id is not None and not member_id:
                member_id = next(
                    (
                        m.member_id
                        for m in self.members.values()
                        if m.instance_id == one.group_instance_id
                    ),
                    "",
                )
            if member_id in self.members:
                self._world.tell("group", self.group_id, "loses", member_id)
                self._remove(member_id)
            elif member_id in self.promised:
                self.promised.discard(member_id)
            else:
                code = ErrorCode.UNKNOWN_MEMBER_ID
            answers.append(
                leave_group.MemberResponse(
                    member_id=one.member_id,
                    group_instance_id=one.group_instance_id,
                    error_code=code,
                )
            )
        return leave_group.LeaveGroupResponse(members=answers)

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        if member.joining is not None:
            member.joining.set_result(_joined(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        if member.syncing is not None:
            member.syncing.set_result(_synced(ErrorCode.UNKNOWN_MEMBER_ID))
        self._prepare()
        self._complete_if_all()

    def check(self, member_id: str, generation: int, instance_id: str | None) -> ErrorCode:
        """Whether a request of a classic member comes from the generation that is."""
        member = self.members.get(member_id)
        if member is None:
            known = {m.instance_id for m in self.members.values()} - {None}
            is_fenced = instance_id is not None and instance_id in known
            return ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def check_commit(self, member_id: str, generation: int, instance_id: str | None) -> ErrorCode:
        """Whether a commit is taken."""
        if generation < 0 and not member_id:
            has_members = bool(self.members or self.next_members)
            return ErrorCode.UNKNOWN_MEMBER_ID if has_members else ErrorCode.NONE
        found = self.next_members.get(member_id)
        if found is not None:
            fits = generation == found.epoch
            return ErrorCode.NONE if fits else ErrorCode.STALE_MEMBER_EPOCH
        code = self.check(member_id, generation, instance_id)
        if code is ErrorCode.NONE:
            self.members[member_id].heard_at = self._now()
            if self.state == "Completing":
                return ErrorCode.REBALANCE_IN_PROGRESS
        return code

    # ---- KIP-848 ---------------------------------------------------------------------------

    def next_heartbeat(
        self, request: kip848.ConsumerGroupHeartbeatRequest
    ) -> kip848.ConsumerGroupHeartbeatResponse:
        """A member says what it has and hears what it is to have."""
        self._watch()
        member_id = request.member_id
        member = self.next_members.get(member_id)
        if request.member_epoch < 0:
            if self.next_members.pop(member_id, None) is not None:
                self._world.tell("group", self.group_id, "loses", member_id)
                self._retarget()
            return kip848.ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.member_epoch == 0:
            if member is not None:
                del self.next_members[member_id]
            member = self.next_members[member_id] = NextMember(self._now())
        elif member is None:
            return _failed(ErrorCode.UNKNOWN_MEMBER_ID)
        elif request.member_epoch != member.epoch:
            return _failed(ErrorCode.FENCED_MEMBER_EPOCH)
        member.heard_at = self._now()
        names = request.subscribed_topic_names
        if names is not None and member.topics != frozenset(names):
            member.topics = frozenset(names)
            self._retarget()
        if request.topic_partitions is not None:
            owned = {(t.topic_id, p) for t in request.topic_partitions for p in t.partitions}
            if owned <= member.told:
                member.held = set(member.told)
        is_full = request.member_epoch == 0 or request.rebalance_timeout_ms >= 0
        return self._answer(member_id, member, is_full)

    def _answer(
        self, member_id: str, member: NextMember, is_full: bool
    ) -> kip848.ConsumerGroupHeartbeatResponse:
        before = set(member.told)
        kept = member.told & member.target
        if member.told - member.target:
            member.told = kept
        elif member.held <= member.target:
            member.epoch = self.epoch
            others = {p for m in self.next_members.values() if m is not member for p in m.held}
            member.told = kept | (member.target - others)
            member.held |= member.told
        return kip848.ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch or self.epoch,
            heartbeat_interval_ms=NEXT_INTERVAL_MS,
            assignment=_assignment(member.told) if is_full or member.told != before else None,
        )

    def _retarget(self) -> None:
        self.epoch += 1
        for member in self.next_members.values():
            member.target = set()
        wanted = {topic for member in self.next_members.values() for topic in member.topics}
        self._known = self._partitions_of(wanted)
        takers = list(self.next_members.values())
        for partition in self._known:
            if takers:
                min(takers, key=lambda m: len(m.target)).target.add(partition)


def _joined(code: ErrorCode, member_id: str) -> join_group.JoinGroupResponse:
    return join_group.JoinGroupResponse(
        error_code=code, member_id=member_id, protocol_name="", leader=""
    )


def _synced(code: ErrorCode, member_id: str = "") -> sync_group.SyncGroupResponse:
    return sync_group.SyncGroupResponse(error_code=code, assignment=b"")


def _failed(code: ErrorCode) -> kip848.ConsumerGroupHeartbeatResponse:
    return kip848.ConsumerGroupHeartbeatResponse(error_code=code, error_message="no")


def _assignment(partitions: set[PartitionId]) -> kip848.Assignment:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return kip848.Assignment(
        topic_partitions=[
            kip848.TopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in topics.items()
        ]
    )
