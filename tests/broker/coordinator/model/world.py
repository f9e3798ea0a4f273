"""Two brokers that coordinate groups over one replicated topic, their members, and a history.

A member is a client that joins, syncs, sends heartbeats and commits as the protocol wants it, and
now and then repeats a request, leaves, or dies. After the last step all faults end, the members
die, and time passes: then no group and no offset may be left.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.records import (
    CommittedOffset,
    OffsetKey,
    offset_record,
    read_key,
    read_offset,
)
from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC, GroupSettings
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.group.topics import AnyTopics
from barnabas_broker.coordinator.runtime.loop import SlotState
from barnabas_broker.coordinator.runtime.pipeline import RuntimeSettings
from barnabas_broker.purgatory.timer import Timer
from barnabas_protocol.hashing import coordinator_partition
from barnabas_protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas_protocol.messages.heartbeat import HeartbeatRequest
from barnabas_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.coordinator.model import faults
from tests.broker.coordinator.model.checks import (
    LogMonitor,
    Violation,
    answers,
    check_replay,
    fresh_shard,
)
from tests.broker.coordinator.model.history import (
    GROUP_COUNT,
    MEMBER_COUNT,
    TOPIC_COUNT,
    Step,
)
from tests.broker.coordinator.model.replicated_log import BrokerWriter, ReplicatedPartition
from tests.support.group_model import subscription
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock, run_virtual

PARTITION_COUNT = 4
RETENTION_MS = 20 * 60 * 1000
EXPIRY_MS = 5 * 60 * 1000
COMMIT_TIMEOUT_MS = 2_000
SESSION_MS = 10_000
REBALANCE_MS = 6_000
DAY_SECONDS = 24 * 3600
OWNED = tuple(f"p{index}" for index in range(4))
RETRIABLE = (14, 15, 16, 27)


class ModelTopics(AnyTopics):
    """Topics that come and go under the same names."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[str, bytes] = {}
        self._made = 0
        for index in range(TOPIC_COUNT):
            self.create(f"t{index}")

    def create(self, name: str) -> None:
        if name not in self.ids:
            self._made += 1
            self.ids[name] = self._made.to_bytes(16)

    def topic_id(self, name: str) -> bytes | None:
        return self.ids.get(name)

    def partition_count(self, name: str) -> int:
        if name == OFFSETS_TOPIC:
            return PARTITION_COUNT
        return 3 if name in self.ids else 0


class Member:
    """What a client knows of its membership."""

    def __init__(self, index: int) -> None:
        self.group = f"g{index % GROUP_COUNT}"
        self.instance = f"i{index}" if index % 3 == 2 else None
        self.is_alive = True
        self.member_id = ""
        self.generation_id = -1
        self.is_leader = False
        self.others: list[str] = []
        self.is_synced = False
        self.is_busy = False


class World:
    """One history as it runs."""

    def __init__(self, seed: int) -> None:
        loop = asyncio.get_running_loop()
        self.clock = VirtualClock(loop)
        self.topics = ModelTopics()
        self.random = SimulatedRandom(seed)
        self.removing: Counter[str] = Counter()  # removals under way, by group
        self.monitors = [LogMonitor(RETENTION_MS) for _ in range(PARTITION_COUNT)]
        for monitor in self.monitors:
            monitor.removals = self.monitors[0].removals
            monitor.deleted_topic_ids = self.monitors[0].deleted_topic_ids
        self.partitions = [ReplicatedPartition(self._appended) for _ in range(PARTITION_COUNT)]
        self.settings = GroupSettings(
            initial_rebalance_delay_ms=self.random.integer(2) * 500,
            offsets_retention_ms=RETENTION_MS,
            expiry_interval_ms=EXPIRY_MS,
            new_member_join_timeout_ms=60_000,
            session_timeout_ms_max=SESSION_MS,
        )
        self.brokers = [self._broker(node, loop) for node in range(2)]
        self.members = [Member(index) for index in range(MEMBER_COUNT)]
        self.tasks: set[asyncio.Task[None]] = set()
        self.violation: Exception | None = None
        self.lines: list[str] = []
        self._value = 0

    def _broker(self, node: int, loop: asyncio.AbstractEventLoop) -> GroupCoordinator:
        groups = GroupCoordinator(
            settings=self.settings,
            writer=BrokerWriter(node, self.partitions),
            clock=self.clock,
            random=self.random,
            timer=Timer(loop, self.clock),
            runtime_settings=RuntimeSettings(commit_timeout_ms=COMMIT_TIMEOUT_MS),
            topics=self.topics,
        )
        faults.note_setting(groups, node)
        groups.runtime.start()
        return groups

    # ---- checks --------------------------------------------------------------------------------

    def _appended(self, partition: ReplicatedPartition, records: list[Record]) -> None:
        monitor = self.monitors[self.partitions.index(partition)]
        monitor.now_ms = self.clock.wall_ms()
        try:
            for record in records:
                monitor.take(record)
        except Violation as violation:
            self._violated(violation)

    def _violated(self, violation: Exception) -> None:
        if self.violation is None:
            self.violation = violation
            self._note(f"VIOLATION: {violation}")

    def _note(self, line: str) -> None:
        self.lines.append(f"{self.clock.monotonic_ms() / 1000:9.3f}  {line}")

    def check(self) -> None:
        for groups in self.brokers:
            for partition, slot in groups.runtime._slots.items():
                if slot.pipeline is None:
                    continue
                shard = slot.pipeline.shard
                fresh = fresh_shard(shard, self.settings, self.topics, self.random)
                check_replay(slot.pipeline, self.partitions[partition], fresh)

    # ---- requests ------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:
                self._violated(error)

        task = asyncio.get_running_loop().create_task(guarded())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _context(self, version: int, sender: str = "tool") -> RequestContext:
        return RequestContext(sender, "/10.0.0.1", version)

    def _coordinator(self, group: str) -> GroupCoordinator:
        """Ask one broker for the partition of a group, and go to who leads that."""
        asked = self.brokers[self.random.integer(2)]
        partition = asked.runtime.partition_for(group)
        leader = self.partitions[partition % PARTITION_COUNT].leader
        return self.brokers[max(leader, 0)]

    async def _join(self, member: Member) -> None:
        request = JoinGroupRequest(
            group_id=member.group,
            member_id=member.member_id,
            group_instance_id=member.instance,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name="range", metadata=subscription(f"t{self.random.integer(TOPIC_COUNT)}")
                )
                if not member.member_id
                else JoinGroupRequestProtocol(name="range", metadata=subscription("t0"))
            ],
        )
        response = await self._coordinator(member.group).join_group(
            request, self._context(5, "member")
        )
        if not member.is_alive:
            return
        if response.error_code == 0:
            member.member_id = response.member_id
            member.generation_id = response.generation_id
            member.is_leader = response.leader == response.member_id
            member.others = [each.member_id for each in response.members]
            member.is_synced = False
        elif response.error_code == 79:
            member.member_id = response.member_id
        elif response.error_code not in RETRIABLE:
            member.member_id, member.generation_id = "", -1

    async def _sync(self, member: Member) -> None:
        assignments = []
        if member.is_leader and member.others:
            start = self.random.integer(len(member.others))
            owned: dict[str, list[str]] = {each: [] for each in member.others}
            for index, partition in enumerate(OWNED):
                owned[member.others[(start + index) % len(member.others)]].append(partition)
            assignments = [
                SyncGroupRequestAssignment(member_id=each, assignment=",".join(given).encode())
                for each, given in owned.items()
            ]
        member_id, generation_id = member.member_id, member.generation_id
        response = await self._coordinator(member.group).sync_group(
            SyncGroupRequest(
                group_id=member.group,
                generation_id=generation_id,
                member_id=member_id,
                group_instance_id=member.instance,
                assignments=assignments,
            ),
            self._context(3),
        )
        if response.error_code == 0:
            partition = coordinator_partition(member.group, PARTITION_COUNT)
            self.monitors[partition].told(
                member.group,
                generation_id,
                member_id,
                member.instance,
                bytes(response.assignment),
            )
            member.is_synced = True
        elif response.error_code in (22, 25, 82):
            member.member_id, member.generation_id = "", -1
        else:
            member.generation_id = -1

    async def _heartbeat(self, member: Member) -> None:
        response = await self._coordinator(member.group).heartbeat(
            HeartbeatRequest(
                group_id=member.group,
                generation_id=member.generation_id,
                member_id=member.member_id,
                group_instance_id=member.instance,
            ),
            self._context(3),
        )
        if response.error_code == 27:
            member.generation_id = -1
        elif response.error_code in (22, 25, 82):
            member.member_id, member.generation_id = "", -1

    async def _commit(self, group: str, member: Member | None, number: int) -> None:
        self._value += 1
        value, topic, index = self._value, f"t{number % TOPIC_COUNT}", number % 3
        request = OffsetCommitRequest(
            group_id=group,
            member_id="" if member is None else member.member_id,
            generation_id_or_member_epoch=-1 if member is None else member.generation_id,
            group_instance_id=None if member is None else member.instance,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=value)
                    ],
                )
            ],
        )
        response = await self._coordinator(group).offset_commit(request, self._context(8))
        code = response.topics[0].partitions[0].error_code
        self._note(f"commit of {value} for {group} {topic}-{index}: {code}")
        if code == 0:
            self._check_acknowledged(OffsetKey(group, topic, index), value)

    def _check_acknowledged(self, key: OffsetKey, value: int) -> None:
        partition = self.partitions[coordinator_partition(key.group_id, PARTITION_COUNT)]
        for record in partition.records:
            if record.offset < partition.high_watermark and record.value is not None:
                assert record.key is not None
                if read_key(record.key) == key:
                    committed = read_offset(record.value)
                    if committed is not None and committed.offset == value:
                        return
        raise Violation(f"{value} for {key} is acknowledged and not committed")

    async def _fetch(self, group: str) -> None:
        partition = self.partitions[coordinator_partition(group, PARTITION_COUNT)]
        started_hw, ids = partition.high_watermark, dict(self.topics.ids)
        response = await self._coordinator(group).offset_fetch(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]),
            self._context(8),
        )
        (answer,) = response.groups
        if answer.error_code:
            return
        told = {
            (topic.name, each.partition_index): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }
        for name in (f"t{index}" for index in range(TOPIC_COUNT)):
            if ids.get(name) != self.topics.ids.get(name):
                continue
            for index in range(3):
                key = OffsetKey(group, name, index)
                allowed = answers(partition, key, started_hw, ids.get(name))
                if told.get((name, index), -1) not in allowed:
                    raise Violation(
                        f"{told.get((name, index), -1)} is answered for {key}, may be {allowed}"
                    )

    async def _remove(self, group: str, work: Coroutine[Any, Any, Any]) -> None:
        """Ask for a removal; what is not refused for certain may happen as long as it hangs."""
        removals = self.monitors[0].removals
        removals[group] = None
        self.removing[group] += 1
        await work
        self.removing[group] -= 1
        # The outcome of one that timed out may come until nothing is under way any more.
        await asyncio.sleep(0)
        is_hanging = any(partition.is_hanging for partition in self.partitions)
        if not self.removing[group] and not is_hanging:
            removals[group] = self.clock.wall_ms()

    # ---- steps ---------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        """Let one step happen."""
        first, second, third = step.numbers
        member = self.members[first % MEMBER_COUNT]
        group = f"g{first % GROUP_COUNT}"
        index = coordinator_partition(group, PARTITION_COUNT)
        partition = self.partitions[index]
        match step.what:
            case "act":
                self._spawn(self._act(member, second))
            case "join again":
                if member.is_alive and member.member_id:
                    self._spawn(self._join(member))
            case "sync again":
                if member.is_alive and member.generation_id >= 0:
                    self._spawn(self._sync(member))
            case "restart":
                if member.is_alive:
                    member.member_id, member.generation_id = "", -1
                    self._spawn(self._join(member))
            case "leave" | "die":
                self._stop(member, says_so=step.what == "leave")
            case "come back":
                member.is_alive = True
            case "commit":
                self._spawn(self._commit(group, None, second))
            case "fetch":
                self._spawn(self._fetch(group))
            case "delete group":
                request = DeleteGroupsRequest(groups_names=[group])
                groups = self._coordinator(group)
                self._spawn(self._remove(group, groups.delete_groups(request, self._context(2))))
            case "delete offsets":
                self._spawn(self._remove(group, self._delete_offsets(group, second)))
            case "delete topic":
                self._delete_topic(f"t{second % TOPIC_COUNT}")
            case "create topic":
                self.topics.create(f"t{second % TOPIC_COUNT}")
            case "remake topic":
                self._spawn(self._remake_topic(second, third))
            case "move":
                self._move(index, second % 2, third % 4)
            case "stand still":
                self._stand_still(third % 90)
            case _:
                # On one partition, or on all of them.
                for each in self.partitions if third % 3 == 0 else [partition]:
                    self._fault(each, step.what, second)

    def _fault(self, partition: ReplicatedPartition, what: str, number: int) -> None:
        match what:
            case "refuse" | "stop refusing":
                partition.is_refusing = what == "refuse"
            case "doubt":
                partition.is_doubtful = True
            case "hang":
                partition.is_hanging = True
            case "go on":
                partition.release()
            case "slow":
                partition.latency_ms = 50 + number % 1000
            case "quick":
                partition.latency_ms = 1
            case "fail reads" | "read":
                partition.is_unreadable = what == "fail reads"
            case "pass":
                pass
            case _:
                raise AssertionError(what)

    async def _act(self, member: Member, number: int) -> None:
        """Do what the protocol wants next."""
        if not member.is_alive or member.is_busy:
            return
        member.is_busy = True
        try:
            if member.generation_id < 0:
                await self._join(member)
            elif not member.is_synced:
                if number % 4 == 0:
                    # The connection was lost: the request is repeated while the first is at work.
                    self._spawn(self._sync(member))
                await self._sync(member)
            elif number % 2:
                await self._heartbeat(member)
            else:
                await self._commit(member.group, member, number // 2)
        finally:
            member.is_busy = False

    def _stop(self, member: Member, *, says_so: bool) -> None:
        identity = MemberIdentity(member_id=member.member_id, group_instance_id=member.instance)
        if says_so and member.member_id:
            request = LeaveGroupRequest(group_id=member.group, members=[identity])
            groups = self._coordinator(member.group)
            self._spawn(_ignored(groups.leave_group(request, self._context(3))))
        member.is_alive = False
        member.member_id, member.generation_id = "", -1

    async def _delete_offsets(self, group: str, number: int) -> None:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=f"t{number % TOPIC_COUNT}",
                    partitions=[
                        OffsetDeleteRequestPartition(partition_index=index) for index in range(3)
                    ],
                )
            ],
        )
        await self._coordinator(group).offset_delete(request, self._context(0))

    def _delete_topic(self, name: str) -> None:
        topic_id = self.topics.ids.pop(name, None)
        if topic_id is not None:
            self.monitors[0].deleted_topic_ids.add(topic_id)
            for groups in self.brokers:
                self._spawn(groups.on_topics_deleted({name: topic_id}))

    async def _remake_topic(self, number: int, wait_ms: int) -> None:
        """Delete a topic, make another of its name, and commit for that at once."""
        self._delete_topic(f"t{number % TOPIC_COUNT}")
        await asyncio.sleep(wait_ms % 300 / 1000)
        self.topics.create(f"t{number % TOPIC_COUNT}")
        for index in range(GROUP_COUNT):
            self._spawn(self._commit(f"g{index}", None, number))

    def _move(self, index: int, node: int, lost_batches: int) -> None:
        partition = self.partitions[index]
        epoch = partition.leader_epoch
        if node == partition.leader:
            partition.leader_epoch += 1
            self.brokers[node].runtime.load(index, epoch + 1)
            return
        old = partition.leader
        if old >= 0:
            self.brokers[old].runtime.unload(index, epoch + 2)
        end_offset = partition.log.end_offset
        partition.move(node, epoch + 2, lost_batches)
        if partition.log.end_offset < end_offset:
            monitor = self.monitors[index]
            monitor.forget()
            for record in partition.records:
                monitor.take(record, is_new=False)
        self.brokers[node].runtime.load(index, epoch + 2)

    def _stand_still(self, seconds: int) -> None:
        loop: Any = asyncio.get_running_loop()
        loop._virtual_selector.now_seconds += seconds

    # ---- a whole history -------------------------------------------------------------------------

    def _import(self) -> None:
        """Begin with the log of another: a transaction that nobody will ever end."""
        wall_ms = self.clock.wall_ms()
        for index, partition in enumerate(self.partitions):
            group = next(
                name
                for name in (f"g{number}" for number in range(100))
                if coordinator_partition(name, PARTITION_COUNT) == index
            )
            for topic in ("t0", "t1"):
                key, value = offset_record(
                    OffsetKey(group, topic, 0),
                    CommittedOffset(900, -1, "", wall_ms, -1, self.topics.ids[topic]),
                )
                batch = encode_batch(
                    [Record(0, wall_ms, key, value)],
                    producer_id=7,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=True,
                )
                partition.log.append(batch)
            partition.high_watermark = partition.log.end_offset

    async def run(self, steps: list[Step]) -> None:
        """Run a history to its end. Raises: what was violated."""
        if self.random.integer(3) == 0:
            self._import()
        for index in range(PARTITION_COUNT):
            self._move(index, index % 2, 0)
        await asyncio.sleep(0.1)
        for step in steps:
            await asyncio.sleep(step.wait_ms / 1000)
            self._note(f"{step.what} {step.numbers}")
            self.step(step)
            await asyncio.sleep(0)
            self._verify()
        await self._end()

    def _verify(self) -> None:
        if self.violation is None:
            try:
                self.check()
            except Exception as error:
                self._violated(error)
        if self.violation is not None:
            raise self.violation

    async def _end(self) -> None:
        for member in self.members:
            member.is_alive = False
        for partition in self.partitions:
            partition.is_refusing = partition.is_unreadable = partition.is_doubtful = False
            partition.latency_ms = 1
            partition.release()
        await asyncio.sleep(90)
        self._verify()
        for index, partition in enumerate(self.partitions):
            states = self.brokers[partition.leader].runtime.states()
            if states.get(index) is not SlotState.ACTIVE:
                raise Violation(f"partition {index} is {states.get(index)} without a fault")
        if self.tasks:
            raise Violation(f"{len(self.tasks)} requests are never answered")
        for shard in self._shards():
            for group in shard.groups.values():
                if group.members:
                    raise Violation(f"{group.group_id} has members that died")
        await asyncio.sleep(RETENTION_MS / 1000 + 3 * EXPIRY_MS / 1000)
        self._verify()
        if any(any(shard.offsets.undecided()) for shard in self._shards()):
            await asyncio.sleep(DAY_SECONDS + 2 * EXPIRY_MS / 1000)
            self._verify()
        for shard in self._shards():
            if shard.groups or shard.offsets.count():
                raise Violation(f"{sorted(shard.groups)} never end")
        for groups in self.brokers:
            await groups.runtime.close()

    def _shards(self) -> list[GroupShard]:
        return [shard for groups in self.brokers for _, shard in groups.runtime.shards()]


async def _ignored(work: Coroutine[Any, Any, Any]) -> None:
    await work


def run_history(seed: int, steps: list[Step]) -> tuple[Exception | None, list[str]]:
    """Run a history; returns what was violated, and what happened line by line."""
    worlds: list[World] = []

    async def told() -> None:
        world = World(seed)
        worlds.append(world)
        await world.run(steps)

    logging.disable(logging.CRITICAL)
    try:
        run_virtual(told())
    except Exception as error:
        return error, worlds[0].lines if worlds else []
    finally:
        logging.disable(logging.NOTSET)
    return None, worlds[0].lines
