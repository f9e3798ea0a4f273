"""A group shard with a number for a clock and a list for a log: what the runtime does, in one step.

`fail_with` makes appends fail as if they were refused; `hold()` keeps them under way until
`release()`. `restart()` replays the list into a new shard, as the next start of a broker would.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.settings import GroupSettings
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.group.topics import AnyTopics
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord, Instant, Result
from barnabas_protocol.consumer_protocol import Subscription, encode_subscription
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.heartbeat import HeartbeatRequest
from barnabas_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas_protocol.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas_protocol.records.record import Record
from tests.support.simulated_random import SimulatedRandom

WALL_MS = 1_700_000_000_000
GROUP = "g"


@dataclass
class Ticket:
    """A parked request: the answers it got, at most one if all is well."""

    answers: list[Any] = field(default_factory=list)

    def __call__(self, response: Any) -> None:
        assert not self.answers, f"answered twice: {self.answers[0]}, {response}"
        self.answers.append(response)

    @property
    def is_parked(self) -> bool:
        return not self.answers

    @property
    def response(self) -> Any:
        assert self.answers, "not answered yet"
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics=topics))


RANGE = (("range", subscription("t")),)


class ModelTopics(AnyTopics):
    """Every topic but `gone`; those in `ids` have one, those in `counts` so many partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[str, bytes | None] = {"gone": None}
        self.counts: dict[str, int] = {"gone": 0}

    def topic_id(self, name: str) -> bytes | None:
        return self.ids.get(name, ZERO_UUID)

    def partition_count(self, name: str) -> int:
        return self.counts.get(name, super().partition_count(name))


class GroupModel:
    """One shard, driven by hand."""

    def __init__(self, **settings: int) -> None:
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.now_ms = 0
        self.log: list[CoordinatorRecord] = []
        self.fail_with: ErrorCode | None = None
        self.last_error: ErrorCode | None = None
        self._held: list[tuple[int, Result[Any]]] | None = None
        self._sequence = 0
        self._random = SimulatedRandom(7)
        self.topics = ModelTopics()
        self.shard = self._load()

    # ---- the runtime -------------------------------------------------------------------------

    def _load(self) -> GroupShard:
        shard = GroupShard(0, self.settings, self._random, GroupMetrics(), self.topics)
        for offset, (key, value) in enumerate(self.log):
            shard.replay(Record(offset, self.wall_ms, key, value), -1)
        shard.loaded(self.now)
        return shard

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, self.wall_ms)

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def run(self, command: Callable[[GroupShard, Instant], Result[Any]]) -> Any:
        """Run a command; the reply, or the KafkaError that it or its append raises."""
        result = self._run(lambda: command(self.shard, self.now))
        if self.last_error is not None and result.records:
            raise KafkaError(self.last_error)
        return result.reply

    def _run(self, step: Callable[[], Result[Any]]) -> Result[Any]:
        self._sequence += 1
        sequence = self._sequence
        self.shard.journal.begin(sequence)
        self.last_error = None
        try:
            result = step()
        except KafkaError:
            self.shard.journal.roll_back(sequence)
            raise
        if result.records or (result.waits_for_commit and result.on_append is not None):
            if self._held is not None:
                self._held.append((sequence, result))
            else:
                self._settle(sequence, result, self.fail_with if result.records else None)
        return result

    def _settle(self, sequence: int, result: Result[Any], code: ErrorCode | None) -> None:
        error = None
        if code is None:
            self.log += result.records
            self.shard.journal.committed(sequence)
        else:
            error = KafkaError(code)
            self.shard.journal.roll_back(sequence)
        if result.on_append is not None:
            hook = result.on_append
            self._run(lambda: hook(error, self.now))
        self.last_error = code

    def hold(self) -> None:
        self._held = []

    def release(self, code: ErrorCode | None = None) -> None:
        held, self._held = self._held or [], None
        for sequence, result in held:
            self._settle(sequence, result, code)

    def advance(self, duration_ms: int) -> None:
        """Pass time, running every timer at its own time."""
        end_ms = self.now_ms + duration_ms
        while True:
            deadline_ms = self.shard.timers.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            action = self.shard.timers.take_due(self.now_ms)
            assert action is not None
            self._run(lambda action=action: action(self.now))
        self.now_ms = end_ms

    def restart(self) -> None:
        """Close the shard and load a new one from the log."""
        self.shard.close(ErrorCode.NOT_COORDINATOR)
        self.shard = self._load()

    # ---- requests ----------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        version: int = 3,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client: str = "client",
        host: str = "/127.0.0.1",
    ) -> Ticket:
        ticket = Ticket()
        request = JoinGroupRequest(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols
            ],
        )
        context = RequestContext(client, host, version)
        result = self._run(lambda: self.shard.join(request, context, self.now, ticket))
        assert result.reply is None
        return ticket

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        **fields: Any,
    ) -> Ticket:
        ticket = Ticket()
        request = SyncGroupRequest(
            group_id=fields.pop("group", GROUP),
            member_id=member_id,
            generation_id=generation,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
            **fields,
        )
        self._run(lambda: self.shard.sync(request, self.now, ticket))
        return ticket

    def heartbeat(self, member_id: str, generation: int, **fields: Any) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=fields.pop("group", GROUP),
            member_id=member_id,
            generation_id=generation,
            **fields,
        )
        reply = self.run(lambda shard, now: shard.heartbeat(request, now))
        return ErrorCode(reply.error_code)

    def leave(self, member_id: str, *, group: str = GROUP) -> ErrorCode:
        request = LeaveGroupRequest(group_id=group, member_id=member_id)
        reply = self.run(lambda shard, now: shard.leave(request, 2, now))
        return ErrorCode(reply.error_code)

    def leave_many(self, *members: tuple[str, str | None], group: str = GROUP) -> list[ErrorCode]:
        request = LeaveGroupRequest(
            group_id=group,
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in members
            ],
        )
        reply = self.run(lambda shard, now: shard.leave(request, 3, now))
        assert reply.error_code == 0
        return [ErrorCode(member.error_code) for member in reply.members]

    def commit(
        self,
        offsets: dict[int, int],
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = GROUP,
        topic: str = "t",
        metadata: str = "",
        retention_ms: int = -1,
        instance: str | None = None,
    ) -> dict[int, ErrorCode]:
        """Commit; the error per partition. Raises the KafkaError that meets the whole commit."""
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                        for index, offset in offsets.items()
                    ],
                )
            ],
        )
        reply = self.run(lambda shard, now: shard.commits.commit(request, now))
        return {
            partition.partition_index: ErrorCode(partition.error_code)
            for partition in reply.topics[0].partitions
        }

    def commit_error(self, *args: Any, **fields: Any) -> ErrorCode:
        """Commit; the error that meets the whole commit."""
        try:
            self.commit(*args, **fields)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def offsets(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        """All committed offsets of a group."""
        reply = self.run(
            lambda shard, _: shard.commits.fetch(
                OffsetFetchRequestGroup(group_id=group, topics=None), False
            )
        )
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in reply.topics
            for partition in topic.partitions
        }

    # ---- shortcuts ---------------------------------------------------------------------------

    def state(self, group: str = GROUP) -> str | None:
        found = self.shard.groups.get(group)
        return None if found is None else found.state.value

    def generation(self, group: str = GROUP) -> int:
        return self.shard.groups[group].generation_id

    def stable(self, count: int = 1, **join: Any) -> list[str]:
        """Bring a group of `count` members to Stable; their ids, the leader first."""
        tickets = [self.join(**join)]
        while tickets[-1].is_parked:
            self.advance(1)
        ids = [tickets[0].response.member_id]
        for _ in range(count - 1):
            newcomer = self.join(**join)
            again = [self.join(member_id, **join) for member_id in ids]
            ids.append(newcomer.response.member_id)
            assert all(ticket.error is ErrorCode.NONE for ticket in again)
        group = join.get("group", GROUP)
        generation = self.generation(group)
        followers = [self.sync(each, generation, group=group) for each in ids[1:]]
        given = {each: b"assigned to " + each.encode() for each in ids}
        leader = self.sync(ids[0], generation, given, group=group)
        assert all(ticket.error is ErrorCode.NONE for ticket in (leader, *followers))
        assert self.state(group) == "Stable"
        return ids
