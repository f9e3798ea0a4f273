"""A coordinator of classic groups that a test speaks for."""

import asyncio
from collections.abc import Collection
from typing import Any

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.heartbeat import HeartbeatRequest
from barnabas_protocol.messages.join_group import JoinGroupRequest
from barnabas_protocol.messages.leave_group import LeaveGroupRequest
from barnabas_protocol.messages.offset_commit import OffsetCommitRequest
from barnabas_protocol.messages.sync_group import SyncGroupRequest
from tests.support.group_model import GroupModel, Ticket

CONTEXT = RequestContext("client", "/127.0.0.1", 9)


class Coordinator:
    """The broker's coordinator on the loop's time; `failure` is raised, or answered, once."""

    def __init__(self) -> None:
        self.model = GroupModel(session_timeout_ms_min=1)
        self.log: list[str] = []
        self.failure: tuple[type[Any], Exception | Any] | None = None
        # Commits are answered when it is set, if it is there.
        self.hold_commits: asyncio.Event | None = None

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            self.catch_up()

    def catch_up(self) -> None:
        self.model.advance(round(asyncio.get_running_loop().time() * 1000) - self.model.now_ms)

    async def __call__(self, request: Any, version: int) -> Any:
        self.catch_up()
        self.log.append(type(request).__name__.removesuffix("Request"))
        if self.failure is not None and isinstance(request, self.failure[0]):
            failure, self.failure = self.failure[1], None
            if isinstance(failure, Exception):
                raise failure
            return failure
        model = self.model
        if isinstance(request, JoinGroupRequest):
            return await self._park(lambda t: model.shard.join(request, CONTEXT, model.now, t))
        if isinstance(request, SyncGroupRequest):
            return await self._park(lambda t: model.shard.members.sync(request, model.now, t))
        if isinstance(request, HeartbeatRequest):
            return model.run(lambda shard, now: shard.members.heartbeat(request, now))
        if isinstance(request, LeaveGroupRequest):
            return model.run(lambda shard, now: shard.members.leave(request, 5, now))
        assert isinstance(request, OffsetCommitRequest)
        if self.hold_commits is not None:
            await self.hold_commits.wait()
        return model.run(lambda shard, now: shard.commits.commit(request, now))

    async def _park(self, command: Any) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        class Parked(Ticket):
            def __call__(self, response: Any) -> None:
                if not answered.done():
                    answered.set_result(response)

        self.model._run(lambda: command(Parked()))
        return await answered


class Notes(RebalanceListener):
    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.error: Exception | None = None

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(f"revoked {len(partitions)}")
        if self.error is not None:
            raise self.error

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.log.append(f"assigned {len(partitions)}")

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(f"lost {len(partitions)}")
