"""A coordinator of KIP-848 groups, and a member, that a test speaks for."""

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.group.membership import GroupMembership, create_membership
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas_protocol.messages.offset_commit import OffsetCommitRequest
from tests.client.consumer.commit_coordinator import Coordinator as CommitCoordinator
from tests.client.consumer.group.classic_coordinator import Coordinator as ClassicCoordinator
from tests.client.consumer.group.classic_coordinator import Notes
from tests.client.consumer.group.consumer_group_model import (
    COUNTS,
    TOPIC_IDS,
    ConsumerGroupModel,
)
from tests.client.consumer.group.scripted_client import (
    ScriptedClient,
    cluster,
    topic,
)


class Coordinator:
    """The model on the loop's time; `failure` is raised, or answered, once."""

    def __init__(self) -> None:
        self.model = ConsumerGroupModel()
        self.log: list[str] = []
        self.heartbeats: list[tuple[float, ConsumerGroupHeartbeatRequest]] = []
        self.failure: Exception | ConsumerGroupHeartbeatResponse | None = None
        self.commits_go = asyncio.Event()
        self.commits_go.set()
        self._offsets: dict[tuple[str, int], int] = {}
        self._commits = CommitCoordinator()
        self._classic = ClassicCoordinator()

    def committed(self, partition: TopicPartition) -> int | None:
        """The newest offset that was committed for a partition."""
        return self._offsets.get((partition.topic, partition.partition))

    async def __call__(self, request: Any, version: int) -> Any:
        now = asyncio.get_running_loop().time()
        if isinstance(request, OffsetCommitRequest):
            self.log.append("commit")
            await self.commits_go.wait()
            for each in request.topics:
                for row in each.partitions:
                    self._offsets[each.name, row.partition_index] = row.committed_offset
            return await self._commits(request, version)
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return await self._classic(request, version)
        self.heartbeats.append((now, request))
        owned = request.topic_partitions
        count = "" if owned is None else f" {sum(len(t.partitions) for t in owned)}"
        self.log.append(f"heartbeat {request.member_epoch}{count}")
        self.model.pass_time(round(now * 1000) - self.model.now_ms)
        failure, self.failure = self.failure, None
        if isinstance(failure, Exception):
            raise failure
        return self.model.heartbeat(request) if failure is None else failure


class Member:
    def __init__(
        self, coordinator: Coordinator, subscription: SubscriptionState, settings: dict[str, Any]
    ) -> None:
        self.client = ScriptedClient(coordinator, **{"group_protocol": "consumer", **settings})
        self.client.versions = {
            ApiKey.OFFSET_COMMIT: 9,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
        }
        self.client.cluster = cluster(*(topic(n, c, TOPIC_IDS[n]) for n, c in COUNTS.items()))
        self.subscription = subscription
        subscription.listener = Notes(coordinator.log)
        client: Any = self.client
        self.committer = OffsetCommitter(client, client.settings, subscription)
        self.wakes = 0
        self.membership: GroupMembership = create_membership(
            client, client.settings, subscription, self.committer, wake=self._wake
        )

    def _wake(self) -> None:
        self.wakes += 1

    async def poll(self, timeout_ms: int = 1000) -> None:
        if self.membership.needs_poll():
            await self.membership.poll(self.client.environment.clock.monotonic_ms() + timeout_ms)

    async def poll_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self.poll()
                await asyncio.sleep(0.1)
