"""Brokers in memory behind the operator's gateways: they do at once what they are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_operator.gateway.kafka_topics import TopicMeasures
from barnabas_operator.reconcile.broker.cluster_state import (
    BrokerSettings,
    ClusterView,
    MetadataMembers,
    PartitionView,
    RegisteredBroker,
)
from barnabas_operator.reconcile.broker.observed import (
    ProcessView,
)
from barnabas_operator.reconcile.group.group_apply import GroupQuestion
from barnabas_operator.reconcile.group.group_state import (
    Action,
    ObservedGroup,
    ObservedGroups,
)
from barnabas_operator.reconcile.topic_state import ObservedCluster, ObservedTopic
from barnabas_protocol.ids import TopicPartition
from tests.support.memory_topics import MemoryTopics

BROKERS_PER_SET = 3
_IDS = tuple(range(BROKERS_PER_SET))
_PLACE = TopicPartition("events", 0)


class Topics(MemoryTopics):
    """The topics of one cluster, with the rest of what a pass asks for."""

    last: ObservedCluster | None = None

    async def observe(self, topics: Sequence[str]) -> ObservedCluster:
        self.last = await super().observe(topics)
        return self.last

    async def measure(self, topics: Mapping[str, ObservedTopic]) -> TopicMeasures:
        """All of them are empty."""
        return TopicMeasures(
            sizes_bytes=dict.fromkeys(topics, 0),
            end_offsets={
                name: dict.fromkeys(range(topic.partitions), 0) for name, topic in topics.items()
            },
        )


class Groups:
    """Groups that have read all there is."""

    async def observe(self, questions: Sequence[GroupQuestion]) -> ObservedGroups:
        groups = {
            one.group_id: ObservedGroup(
                group_id=one.group_id,
                state="Empty",
                protocol="consumer",
                coordinator=0,
                committed={_PLACE: 100},
            )
            for one in questions
        }
        return ObservedGroups(
            groups=groups,
            partition_counts={_PLACE.topic: 1},
            ends={_PLACE: OffsetRange(start=0, end=100)},
        )

    async def list_ids(self) -> tuple[str, ...]:
        return ()

    async def carry_out(self, action: Action) -> Exception | None:
        return RuntimeError("nothing is asked of these groups")


class Cluster:
    """One cluster, as the pass over its Broker sees it."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def observe(self) -> ClusterView:
        return ClusterView(
            cluster_id="measured",
            controller_id=0,
            brokers={
                node_id: RegisteredBroker(
                    node_id=node_id,
                    factors={"default.replication.factor": "3"},
                    is_leaving=False,
                )
                for node_id in _IDS
            },
            partitions=tuple(
                PartitionView(
                    topic_partition=TopicPartition(topic.name, number),
                    leader=replicas[0],
                    replicas=replicas,
                    in_sync=frozenset(replicas),
                    in_sync_min=2,
                )
                for topic in self._topics.topics.values()
                for number, replicas in enumerate(topic.assignments)
            ),
            settings=BrokerSettings(),
            members=MetadataMembers(ids=frozenset(_IDS), in_touch=frozenset(_IDS), wanted=3),
        )

    async def change_settings(self, assigned: Mapping[str, str], removed: Sequence[str]) -> None:
        """All are taken."""


class AllBrokers:
    """Every cluster: what `AdminPool`, `Clusters` and `Processes` are to the reconcilers."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, str], Topics] = {}

    def topics(self, broker_name: tuple[str, str]) -> Topics:
        return self._topics.setdefault(broker_name, Topics(_IDS))

    def learn(self, broker: Mapping[str, Any]) -> None:
        """They have no addresses."""

    async def forget(self, namespace: str, name: str) -> None:
        """There is nothing to close."""

    def unreachable_seconds(self, namespace: str, name: str) -> float:
        return 0.0

    @asynccontextmanager
    async def using(self, namespace: str, name: str) -> AsyncIterator[Any]:
        """An admin client that stands for its cluster, and tells of no broker's settings."""

        async def describe() -> Any:
            return SimpleNamespace(brokers=())

        yield SimpleNamespace(
            broker_name=(namespace, name), cluster=SimpleNamespace(describe=describe)
        )

    async def cluster(self, namespace: str, name: str) -> Any:
        return Cluster(self.topics((namespace, name)))

    async def statuses(
        self, addresses: Mapping[int, str], access: Any = None
    ) -> dict[int, ProcessView]:
        return {
            node_id: ProcessView(
                node_id=node_id, state="RUNNING", is_fenced=False, drain="running", size_bytes=0
            )
            for node_id in addresses
        }
