"""`TopicGateway` on a real cluster, over `barnabas_client`'s admin client.

Not here: deciding what to do. Each call is one batch for all topics, so a thousand of them cost a
few requests.

Invariant: `observe` tells a topic's settings without the broker's defaults, and the replicas of a
partition that is being moved as they will be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from barnabas_client.admin.values.partitions import OffsetSpec, Reassignment
from barnabas_client.admin.values.topics import BROKER_DEFAULT, NewTopic, TopicDescription
from barnabas_client.errors import (
    BarnabasError,
    NotFoundError,
    RetriableError,
    StaleMetadataError,
    UnsupportedError,
)
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

# Partitions without a leader are asked about until then: their topics have no rate for now.
_MEASURE_TIMEOUT_MS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMeasures:
    """By topic: the bytes of all replicas together, and the high watermark of each partition."""

    sizes_bytes: Mapping[str, int]
    end_offsets: Mapping[str, Mapping[int, int]]


class KafkaTopics:
    """The topics of one cluster."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.last: ObservedCluster | None = None
        """What `observe` has told last."""

    async def observe(self, topics: Sequence[str]) -> ObservedCluster:
        """Look at the topics.

        Raises: BarnabasError where nobody can say now; a topic that is refused stands for itself.
        """
        cluster = await self._admin.cluster.describe()
        described = await self._admin.topics.describe(topics)
        found = described.successes
        asked = [ConfigResource.topic(name) for name in found]
        configs = await self._admin.configs.describe(asked)
        moves, can_reassign = await self._reassignments(found)
        errors = {
            **{name: error for name, error in described.errors.items() if not _is_absence(error)},
            **{resource.name: error for resource, error in configs.errors.items()},
        }
        for error in errors.values():
            if isinstance(error, RetriableError):
                raise error
            if _is_absence(error):
                # One broker has shown it: the next one will know it in a moment, or it is gone.
                raise StaleMetadataError(str(error), error.code)
        self.last = ObservedCluster(
            broker_ids=tuple(sorted(broker.node_id for broker in cluster.brokers)),
            topics={
                resource.name: _observed(found[resource.name], settings, moves)
                for resource, settings in configs.successes.items()
            },
            can_reassign=can_reassign,
            refused={name: str(error) for name, error in errors.items()},
        )
        return self.last

    async def measure(self, topics: Mapping[str, ObservedTopic]) -> TopicMeasures:
        """Sizes and end offsets, each with one request per broker; unknown ones are left out."""
        topic_partitions = [
            TopicPartition(topic.name, number)
            for topic in topics.values()
            for number in range(topic.partitions)
        ]
        described = await self._admin.log_dirs.describe(partitions=topic_partitions)
        sizes: dict[str, int] = defaultdict(int)
        for directories in described.successes.values():
            for directory in directories.values():
                for topic_partition, replica in directory.replicas.items():
                    sizes[topic_partition.topic] += replica.size_bytes
        ends = await self._admin.partitions.list_offsets(
            dict.fromkeys(topic_partitions, OffsetSpec.LATEST), timeout_ms=_MEASURE_TIMEOUT_MS
        )
        end_offsets: dict[str, dict[int, int]] = defaultdict(dict)
        for topic_partition, end in ends.successes.items():
            if end.offset is not None:
                end_offsets[topic_partition.topic][topic_partition.partition] = end.offset
        return TopicMeasures(sizes_bytes=sizes, end_offsets=end_offsets)

    async def create_topics(
        self, steps: Sequence[CreateTopic], *, validate_only: bool = False
    ) -> Errors:
        """Create topics, or with `validate_only` see whether they could be."""
        new = [
            NewTopic(
                name=step.topic,
                partition_count=BROKER_DEFAULT if step.partitions is None else step.partitions,
                replication_factor=BROKER_DEFAULT if step.replicas is None else step.replicas,
                configs=dict(step.config),
            )
            for step in steps
        ]
        return (await self._admin.topics.create(new, validate_only=validate_only)).errors

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
        for topic_partition, error in (
            await self._admin.partitions.reassign(targets)
        ).errors.items():
            errors.setdefault(topic_partition.topic, error)
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
        topic_partitions = [
            TopicPartition(topic.name, number)
            for topic in topics.values()
            for number in topic.partitions
        ]
        try:
            return await self._admin.partitions.list_reassignments(topic_partitions), True
        except UnsupportedError:
            return {}, False
        except BarnabasError:
            # Told of no moves, the planner at worst asks for what is under way already.
            return {}, True


def _is_absence(error: BarnabasError) -> bool:
    return isinstance(error, NotFoundError)


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
        leaderless=sum(one.leader_id is None for one in topic.partitions.values()),
        under_replicated=sum(
            not set(one.replica_ids) <= set(one.in_sync_replica_ids)
            for one in topic.partitions.values()
        ),
        moving=sum(TopicPartition(topic.name, number) in moves for number in topic.partitions),
    )
