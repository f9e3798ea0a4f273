"""The network seam for tests without a network: a function answers, on virtual time."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas_client.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from barnabas_client.config import ConsumerSettings
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.env import Environment
from barnabas_client.errors import UnsupportedError
from barnabas_client.network import CoordinatorType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import ZERO_UUID
from tests.support.virtual_loop import VirtualClock

NODE_ID = 7
_seeds = itertools.count()
Handler = Callable[[Any, int], Awaitable[Any]]


def topic(name: str, partitions: int, topic_id: bytes = ZERO_UUID) -> TopicMetadata:
    return TopicMetadata(
        name=name,
        topic_id=topic_id,
        partitions={at: PartitionMetadata(partition=at, leader_id=1) for at in range(partitions)},
    )


def cluster(*topics: TopicMetadata, version: int = 1) -> ClusterMetadata:
    return ClusterMetadata(
        version=version,
        topics={each.name: each for each in topics},
        topic_names={each.topic_id: each.name for each in topics if each.topic_id != ZERO_UUID},
    )


class ScriptedClient:
    """What the parts of a consumer ask of `network.Client`, answered by `handler`."""

    has_ended = False

    def __init__(self, handler: Handler, **settings: Any) -> None:
        self.settings = ConsumerSettings.create(
            {"bootstrap_servers": "nowhere:1", "group_id": "g", **settings}
        )
        clock = VirtualClock(asyncio.get_running_loop())
        self.environment = Environment(clock=clock, random=random.Random(next(_seeds)))
        self.cluster = cluster(topic("t", 4))
        self.versions: dict[ApiKey, int] = {}
        self.requests: list[tuple[float, Any, int]] = []
        self.forgotten = 0
        self.refreshes = 0
        self.wanted: frozenset[str] = frozenset()
        self._handler = handler
        self._callbacks: list[Callable[[ClusterMetadata], None]] = []

    async def coordinator(
        self, kind: CoordinatorType, key: str, *, timeout_ms: int | None = None
    ) -> int:
        assert (kind, key) == (CoordinatorType.GROUP, "g")
        return NODE_ID

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        self.forgotten += 1

    async def version(
        self, node_id: int, api: ApiKey, *, maximum: int | None = None, minimum: int = 0
    ) -> int:
        served = self.versions.get(api)
        if served is None:
            raise UnsupportedError(f"{api.name} is not served")
        return served if maximum is None else min(served, maximum)

    async def request(
        self,
        node_id: int,
        request: Any,
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        now = asyncio.get_running_loop().time()
        self.requests.append((now, request, -1 if version is None else version))
        return await self._handler(request, -1 if version is None else version)

    def backoff_ms(self, attempt: int) -> int:
        return int(min(1000, 100 * 2**attempt))

    def request_refresh(self) -> None:
        self.refreshes += 1

    async def refresh(self, *, timeout_ms: int | None = None) -> ClusterMetadata:
        self.refreshes += 1
        return self.cluster

    def set_wanted_topics(self, names: Any) -> None:
        self.wanted = frozenset(names)

    def on_metadata(self, callback: Callable[[ClusterMetadata], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def show(self, picture: ClusterMetadata) -> None:
        """A new picture of the cluster has come."""
        self.cluster = picture
        for callback in list(self._callbacks):
            callback(picture)


def subscribed(*topics: str) -> SubscriptionState:
    subscription = SubscriptionState()
    subscription.subscribe_names(topics)
    return subscription
