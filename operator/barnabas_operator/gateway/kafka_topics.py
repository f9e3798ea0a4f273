"""`TopicGateway` on a real cluster, over `barnabas_client`'s admin client.

Not here: deciding what to do. Each call is one batch for all topics, so a thousand of them cost a
few requests.

Invariant: `observe` tells a topic's settings without the broker's defaults, and the replicas of a
partition that is being moved as they will be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from barnabas_client.admin.values.partitions import Reassignment
from barnabas_client.admin.values.topics import BROKER_DEFAULT, NewTopic, TopicDescription
from barnabas_client.errors import BarnabasError, NotFoundError, UnsupportedError
from barnabas_operator.reconcile.topic_apply import Errors
from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    GrowPartitions,
    ObservedCluster,
    ObservedTopic,
    ReassignReplicas,
)
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text


class KafkaTopics:
    """The topics of one cluster."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def observe(self, topics: Sequence[str]) -> ObservedCluster:
        """Look at the topics. Raises: BarnabasError for all but topics that do not exist."""
        cluster = await self._admin.cluster.describe()
        described = await self._admin.topics.describe(topics)
        for error in described.errors.values():
            if not isinstance(error, NotFoundError):
                raise error
        found = described.successes
        configs = (
            await self._admin.configs.describe([ConfigResource.topic(name) for name in found])
        ).unwrap()
        moves, can_reassign = await self._reassignments(found)
        return ObservedCluster(
            broker_ids=tuple(sorted(broker.node_id for broker in cluster.brokers)),
            topics={
                name: _observed(topic, configs[ConfigResource.topic(name)], moves)
                for name, topic in found.items()
            },
            can_reassign=can_reassign,
        )

    async def create_topics(self, steps: Sequence[CreateTopic]) -> Errors:
        """Create topics."""
        outcomes = await self._admin.topics.create(
            NewTopic(
                name=step.topic,
                partition_count=BROKER_DEFAULT if step.partitions is None else step.partitions,
                replication_factor=BROKER_DEFAULT if step.replicas is None else step.replicas,
                configs=dict(step.config),
            )
            for step in steps
        )
        return outcomes.errors

    async def grow_partitions(self, steps: Sequence[GrowPartitions]) -> Errors:
        """Add partitions."""
        wanted = {step.topic: step.partitions for step in steps}
        return (await self._admin.topics.add_partitions(wanted)).errors

    async def change_configs(self, steps: Sequence[ChangeConfig]) -> Errors:
        """Set and reset settings."""
        changes = {
            ConfigResource.topic(step.topic): [
                *(ConfigChange.set(key, value) for key, value in step.assigned.items()),
                *(ConfigChange.delete(key) for key in step.reset),
            ]
            for step in steps
        }
        errors = (await self._admin.configs.alter(changes)).errors
        return {resource.name: error for resource, error in errors.items()}

    async def reassign_replicas(self, steps: Sequence[ReassignReplicas]) -> Errors:
        """Start moving partitions; the first error of a topic stands for it."""
        targets = {
            TopicPartition(step.topic, partition): replicas
            for step in steps
            for partition, replicas in step.assignments.items()
        }
        errors: dict[str, Exception] = {}
        for place, error in (await self._admin.partitions.reassign(targets)).errors.items():
            errors.setdefault(place.topic, error)
        return errors

    async def delete_topics(self, steps: Sequence[DeleteTopic]) -> Errors:
        """Delete by id where there is one: a topic of the same name made since then stays."""
        by_id = {uuid_from_text(step.topic_id): step.topic for step in steps if step.topic_id}
        by_name = [step.topic for step in steps if not step.topic_id]
        errors: dict[str, Exception] = {}
        if by_id:
            failed = (await self._admin.topics.delete_by_id(by_id)).errors
            errors.update({by_id[topic_id]: error for topic_id, error in failed.items()})
        if by_name:
            errors.update((await self._admin.topics.delete(by_name)).errors)
        return errors

    async def _reassignments(
        self, topics: Mapping[str, TopicDescription]
    ) -> tuple[Mapping[TopicPartition, Reassignment], bool]:
        """What is on the move, and whether the brokers can move anything at all."""
        places = [
            TopicPartition(topic.name, number)
            for topic in topics.values()
            for number in topic.partitions
        ]
        try:
            return await self._admin.partitions.list_reassignments(places), True
        except UnsupportedError:
            return {}, False
        except BarnabasError:
            # Told of no moves, the planner at worst asks for what is under way already.
            return {}, True


def _observed(
    topic: TopicDescription,
    configs: Mapping[str, ConfigEntry],
    moves: Mapping[TopicPartition, Reassignment],
) -> ObservedTopic:
    assignments = []
    for number in sorted(topic.partitions):
        move = moves.get(TopicPartition(topic.name, number))
        replicas = topic.partitions[number].replica_ids if move is None else move.replica_ids
        removed = () if move is None else move.removing_replica_ids
        assignments.append(tuple(replica for replica in replicas if replica not in removed))
    policy = configs.get("cleanup.policy")
    return ObservedTopic(
        name=topic.name,
        topic_id="" if topic.topic_id == ZERO_UUID else uuid_to_text(topic.topic_id),
        assignments=tuple(assignments),
        config={
            entry.name: entry.value or ""
            for entry in configs.values()
            if entry.source is ConfigSource.DYNAMIC_TOPIC
        },
        cleanup_policy=(policy.value if policy is not None else None) or "delete",
    )
