"""A coordinator of KIP-848 as small as it can be: what it promises members, nothing else.

Every change of the members makes a new target. A member is first told what it keeps; when it has
reported that it owns no more than that, it reaches the new epoch and is told what is free of the
rest, as the former owners report that they have given it up (CG-4). It checks that nobody reports
what it was not given.
"""

from dataclasses import dataclass, field

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC_IDS = {"t": b"t" * 16, "u": b"u" * 16}
COUNTS = {"t": 4, "u": 3}
Partition = tuple[bytes, int]


@dataclass
class ModelMember:
    epoch: int = 0
    topics: frozenset[str] = frozenset()
    # What the member was told to have, and what it may still have until it says otherwise.
    told: set[Partition] = field(default_factory=set)
    held: set[Partition] = field(default_factory=set)
    target: set[Partition] = field(default_factory=set)
    last_heard_ms: int = 0


class ConsumerGroupModel:
    """One group."""

    session_ms = 10_000
    interval_ms = 1000

    def __init__(self) -> None:
        self.members: dict[str, ModelMember] = {}
        self.epoch = 0
        self.now_ms = 0

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        member = self.members.get(request.member_id)
        if request.member_epoch < 0:
            if self.members.pop(request.member_id, None) is not None:
                self._retarget()
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.member_epoch == 0:
            if request.topic_partitions != [] or request.rebalance_timeout_ms < 0:
                return _failed(ErrorCode.INVALID_REQUEST)
            self.members.pop(request.member_id, None)
            member = self.members[request.member_id] = ModelMember()
        elif member is None:
            return _failed(ErrorCode.UNKNOWN_MEMBER_ID)
        elif request.member_epoch != member.epoch:
            return _failed(ErrorCode.FENCED_MEMBER_EPOCH)
        member.last_heard_ms = self.now_ms
        names = request.subscribed_topic_names
        if names is not None and member.topics != frozenset(names):
            member.topics = frozenset(names)
            self._retarget()
        if request.topic_partitions is not None:
            owned = {(t.topic_id, p) for t in request.topic_partitions for p in t.partitions}
            assert owned <= member.held, "a member reports what it was not given"
            if owned <= member.told:
                member.held = set(member.told)
        is_full = request.member_epoch == 0 or request.rebalance_timeout_ms >= 0
        return self._answer(request.member_id, member, is_full)

    def pass_time(self, duration_ms: int) -> None:
        """Put out who was not heard of for a session."""
        self.now_ms += duration_ms
        silent = [
            member_id
            for member_id, member in self.members.items()
            if self.now_ms - member.last_heard_ms > self.session_ms
        ]
        for member_id in silent:
            del self.members[member_id]
        if silent:
            self._retarget()

    def is_member(self, member_id: str) -> bool:
        return member_id in self.members

    def _answer(
        self, member_id: str, member: ModelMember, is_full: bool
    ) -> ConsumerGroupHeartbeatResponse:
        before = set(member.told)
        kept = member.told & member.target
        if member.told - member.target:
            member.told = kept
        elif member.held <= member.target:
            member.epoch = self.epoch
            others = {p for m in self.members.values() if m is not member for p in m.held}
            member.told = kept | (member.target - others)
            member.held |= member.told
        assignment = None
        if is_full or member.told != before:
            assignment = _assignment(member.told)
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch or self.epoch,
            heartbeat_interval_ms=self.interval_ms,
            assignment=assignment,
        )

    def _retarget(self) -> None:
        """Every topic in turn to those that want it, beginning with who has least."""
        self.epoch += 1
        for member in self.members.values():
            member.target = set()
        for topic, count in COUNTS.items():
            takers = [m for m in self.members.values() if topic in m.topics]
            for number in range(count):
                if takers:
                    min(takers, key=lambda m: len(m.target)).target.add((TOPIC_IDS[topic], number))


def _failed(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message="the model says so")


def _assignment(partitions: set[Partition]) -> Assignment:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in topics.items()
        ]
    )
