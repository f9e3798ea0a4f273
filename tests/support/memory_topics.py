"""Topics in memory behind the operator's gateway, which may be cut off after some steps."""

from collections.abc import Sequence
from dataclasses import replace

from barnabas_operator.reconcile.topic_apply import Errors
from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    GrowPartitions,
    ObservedCluster,
    ObservedTopic,
    ReassignReplicas,
    Step,
)

DEFAULT_PARTITIONS = 1
DEFAULT_REPLICAS = 1


class CutOffError(Exception):
    """The steps that were allowed are used up."""


class MemoryTopics:
    """A cluster of which only topics exist; `steps_left` None never interrupts."""

    def __init__(
        self,
        broker_ids: tuple[int, ...],
        topics: Sequence[ObservedTopic] = (),
        *,
        can_reassign: bool = True,
    ) -> None:
        self.broker_ids = broker_ids
        self.topics = {topic.name: topic for topic in topics}
        self.can_reassign = can_reassign
        self.steps_left: int | None = None
        self.failing: dict[str, Exception] = {}
        self.done: list[Step] = []

    async def observe(self, topics: Sequence[str]) -> ObservedCluster:
        return ObservedCluster(
            broker_ids=self.broker_ids,
            topics={name: self.topics[name] for name in topics if name in self.topics},
            can_reassign=self.can_reassign,
        )

    async def create_topics(self, steps: Sequence[CreateTopic]) -> Errors:
        return self._each(steps, self._create)

    async def grow_partitions(self, steps: Sequence[GrowPartitions]) -> Errors:
        return self._each(steps, self._grow)

    async def change_configs(self, steps: Sequence[ChangeConfig]) -> Errors:
        return self._each(steps, self._change)

    async def reassign_replicas(self, steps: Sequence[ReassignReplicas]) -> Errors:
        return self._each(steps, self._reassign)

    async def delete_topics(self, steps: Sequence[DeleteTopic]) -> Errors:
        return self._each(steps, self._delete)

    def _each(self, steps, act) -> Errors:  # type: ignore[no-untyped-def]
        assert len({step.topic for step in steps}) == len(steps), "one step for each topic"
        errors = {}
        for step in steps:
            if self.steps_left == 0:
                raise CutOffError
            if self.steps_left is not None:
                self.steps_left -= 1
            if step.topic in self.failing:
                errors[step.topic] = self.failing[step.topic]
                continue
            act(step)
            self.done.append(step)
        return errors

    def _create(self, step: CreateTopic) -> None:
        assert step.topic not in self.topics
        replicas = self.broker_ids[: step.replicas or DEFAULT_REPLICAS]
        self.topics[step.topic] = ObservedTopic(
            name=step.topic,
            topic_id="made",
            assignments=(replicas,) * (step.partitions or DEFAULT_PARTITIONS),
            config=dict(step.config),
            cleanup_policy=step.config.get("cleanup.policy", "delete"),
        )

    def _grow(self, step: GrowPartitions) -> None:
        topic = self.topics[step.topic]
        assert step.partitions > topic.partitions
        added = (topic.assignments[0],) * (step.partitions - topic.partitions)
        self.topics[step.topic] = replace(topic, assignments=topic.assignments + added)

    def _change(self, step: ChangeConfig) -> None:
        topic = self.topics[step.topic]
        config = {key: value for key, value in topic.config.items() if key not in step.reset}
        config |= step.assigned
        self.topics[step.topic] = replace(
            topic, config=config, cleanup_policy=config.get("cleanup.policy", "delete")
        )

    def _reassign(self, step: ReassignReplicas) -> None:
        topic = self.topics[step.topic]
        assignments = list(topic.assignments)
        for partition, replicas in step.assignments.items():
            assert len(set(replicas)) == step.replicas
            assert set(replicas) <= set(self.broker_ids)
            assignments[partition] = replicas
        self.topics[step.topic] = replace(topic, assignments=tuple(assignments))

    def _delete(self, step: DeleteTopic) -> None:
        del self.topics[step.topic]
