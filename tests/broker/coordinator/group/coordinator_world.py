"""A group coordinator over a log in memory, for tests on virtual time."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from typing import Any

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.settings import GroupSettings
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.purgatory.timer import Timer
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.heartbeat import HeartbeatRequest
from barnabas_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.group_model import subscription
from tests.support.partition_writer import FakePartitionWriter
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock, run_virtual

GROUP = "my-group"


PARTITION = 12


class Coordinator(GroupCoordinator):
    """Takes names alone as well: which topic had the name is not known then."""

    async def on_topics_deleted(self, deleted: Mapping[str, bytes] | Collection[str]) -> None:
        if not isinstance(deleted, Mapping):
            deleted = dict.fromkeys(deleted, ZERO_UUID)
        await super().on_topics_deleted(deleted)


class World:
    """A group coordinator with one loaded partition, and requests to it."""

    def __init__(
        self,
        writer: FakePartitionWriter | None = None,
        topics: Topics | None = None,
        **settings: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        clock = VirtualClock(loop)
        self.writer = writer or FakePartitionWriter()
        self.groups = Coordinator(
            settings=GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings}),
            writer=self.writer,
            clock=clock,
            random=SimulatedRandom(3),
            timer=Timer(loop, clock),
            topics=topics,
        )

    async def start(self) -> "World":
        self.groups.runtime.start()
        self.groups.runtime.load(PARTITION, 1)
        await self.groups.runtime.wait_until_loaded(PARTITION)
        return self

    async def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        version: int = 3,
        instance: str | None = None,
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
        )
        return await self.groups.join_group(request, context(version))

    async def sync(self, member_id: str, generation: int, leads: bool = False) -> Any:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=generation,
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
            if leads
            else [],
        )
        return await self.groups.sync_group(request, context(3))

    async def heartbeat(self, member_id: str, generation: int, group: str = GROUP) -> ErrorCode:
        request = HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation)
        return ErrorCode((await self.groups.heartbeat(request, context(3))).error_code)

    async def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        group: str = GROUP,
        metadata: str = "",
    ) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        response = await self.groups.offset_commit(request, context(7))
        assert response.topics[0].name == "t"
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def stable(self) -> str:
        joined = await self.join()
        assert joined.error_code == 0
        synced = await self.sync(joined.member_id, 1, leads=True)
        assert synced.assignment == b"all"
        return joined.member_id


def context(version: int) -> RequestContext:
    return RequestContext("app", "/10.0.0.1", version)


def virtually(work: Coroutine[Any, Any, None]) -> None:
    run_virtual(work)
