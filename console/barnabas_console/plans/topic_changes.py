"""Changes of topics: made, altered, deleted, and records before an offset removed.

Making and altering are planned by the operator's planner, so the same wish means the same here, in
a manifest and on Kubernetes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigResource
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.cluster.topic_names import check_topic_name
from barnabas_client.errors import AuthorizationError, NotFoundError, RetriableError
from barnabas_client.facts.command_lines import command_line
from barnabas_client.facts.topic_facts import describe_topics, offsets
from barnabas_console.plans.change import Change, ChangeRequestError, Draft, ItemResult, Row
from barnabas_console.rights.needed import AnyOf, Need, delete_topic
from barnabas_operator.gateway.kafka_topics import KafkaTopics
from barnabas_operator.reconcile.topic_apply import apply_plan
from barnabas_operator.reconcile.topic_plan import plan_topics
from barnabas_operator.reconcile.topic_plan_text import step_summary
from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    GrowPartitions,
    ObservedTopic,
    ReassignReplicas,
    Step,
    TopicPlan,
)
from barnabas_operator.spec import INTERNAL_TOPICS, DriftPolicy, TopicSpec
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.settings.suggestions import hint

BY_DEFAULT = "by default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyTopic(Change):
    """Make a topic, or alter the one there is.

    `config` has the settings to change; None gives one back to the broker's default. Settings that
    it does not name stay as they are.
    """

    topic: str
    is_new: bool
    bootstrap: str
    partitions: int | None = None
    replicas: int | None = None
    config: Mapping[str, str | None] = field(default_factory=dict)
    accepts_key_movement: bool = False

    async def draft(self, admin: Admin) -> Draft:
        """The planner's steps, one row for each number and setting. Raises: the client's errors."""
        check_topic_name(self.topic)
        observed = await KafkaTopics(admin).observe([self.topic])
        topic = observed.topics.get(self.topic)
        if self.topic in observed.refused:
            await _raise_refusal(admin, self.topic)
        if self.is_new and topic is not None:
            raise ChangeRequestError(f"topic '{self.topic}' exists already")
        if not self.is_new and topic is None:
            known = [listing.name for listing in await admin.topics.list()]
            raise NotFoundError(f"No such topic '{self.topic}'.{hint(self.topic, known)}")
        plan = plan_topics([self._spec(topic)], observed)
        blocking = [finding.message for finding in plan.findings if finding.is_blocking]
        if not blocking:
            blocking = await _refused_by_brokers(admin, plan)
        return Draft(
            title=f"{'Create' if self.is_new else 'Change'} topic {self.topic}",
            rows=tuple(row for step in plan.steps for row in _rows(step)),
            # Not the whole topic: replicas that fall behind meanwhile change nothing of the plan.
            observed=(plan, topic and (topic.topic_id, topic.config, topic.assignments)),
            warnings=tuple(_warnings(plan)),
            commands=self._commands(),
            refusal="; ".join(blocking) or None,
        )

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """What each of its steps takes; all of them look at the settings first."""
        topic, found = self.topic, list[AnyOf]()
        if self.is_new:
            create = AclOperation.CREATE
            found.append((Need.of_topic(create, topic), Need.of_cluster(create)))
            found.append((Need.of_topic(AclOperation.DESCRIBE, topic),))
            return tuple(found)
        if self.partitions is not None:
            found.append((Need.of_topic(AclOperation.ALTER, topic),))
        if self.replicas is not None:
            found.append((Need.of_cluster(AclOperation.ALTER),))
        if self.config:
            found.append((Need.of_topic(AclOperation.ALTER_CONFIGS, topic),))
        return (*found, (Need.of_topic(AclOperation.DESCRIBE_CONFIGS, topic),))

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Take the planner's steps."""
        plan: TopicPlan = draft.observed[0]
        for result in await apply_plan(plan, KafkaTopics(admin)):
            yield ItemResult.of(step_summary(result.step), result.error)

    def _spec(self, topic: ObservedTopic | None) -> TopicSpec:
        """What is wanted, as a resource would say it: what is not named stays."""
        config = dict(self.config)
        given_back = {key for key, value in config.items() if value is None}
        for key in given_back:
            del config[key]
        kept = {} if topic is None else dict.fromkeys(topic.config.keys() - given_back)
        return TopicSpec(
            resource=self.topic,
            topic=self.topic,
            partitions=self.partitions,
            replicas=self.replicas,
            config={**kept, **config},
            drift_policy=DriftPolicy.REVERT,
            accepts_key_movement=self.accepts_key_movement,
        )

    def _commands(self) -> tuple[str, ...]:
        """The command that does the same; replicas are altered by manifests alone."""
        if not self.is_new and self.replicas is not None:
            return ()
        words: list[str] = []
        if self.partitions is not None:
            words += ["--partitions", str(self.partitions)]
        if self.replicas is not None:
            words += ["--replicas", str(self.replicas)]
        for key, value in self.config.items():
            words += ["--delete-config", key] if value is None else ["--config", f"{key}={value}"]
        command = "topic create" if self.is_new else "topic alter"
        return (command_line(command, self.topic, options=words, bootstrap=self.bootstrap),)


async def _raise_refusal(admin: Admin, topic: str) -> None:
    """Raises: what brokers say to who looks at the topic, which the planner has as text alone."""
    (await admin.topics.describe([topic])).unwrap()
    (await admin.configs.describe([ConfigResource.topic(topic)])).unwrap()


async def _refused_by_brokers(admin: Admin, plan: TopicPlan) -> list[str]:
    """Why brokers would not make the topic. Raises: AuthorizationError; what may pass by itself."""
    steps = [step for step in plan.steps if isinstance(step, CreateTopic)]
    if not steps:
        return []
    errors = await KafkaTopics(admin).create_topics(steps, validate_only=True)
    for error in errors.values():
        if isinstance(error, AuthorizationError | RetriableError):
            raise error
    return [str(error) for error in errors.values()]


def _rows(step: Step) -> list[Row]:
    match step:
        case CreateTopic():
            rows = [
                Row(item="partitions", old=None, new=step.partitions or BY_DEFAULT),
                Row(item="replicas", old=None, new=step.replicas or BY_DEFAULT),
            ]
            return rows + [Row(item=key, old=None, new=value) for key, value in step.config.items()]
        case GrowPartitions():
            return [Row(item="partitions", old=step.partitions_before, new=step.partitions)]
        case ReassignReplicas():
            note = f"{len(step.assignments)} partitions move"
            return [Row(item="replicas", old=step.replicas_before, new=step.replicas, note=note)]
        case ChangeConfig():
            assigned = [
                Row(item=key, old=step.before.get(key, BY_DEFAULT), new=value)
                for key, value in step.assigned.items()
            ]
            return assigned + [
                Row(item=key, old=step.before[key], new=BY_DEFAULT) for key in step.reset
            ]
        case DeleteTopic():
            return [Row(item=step.topic, old="there", new=None)]
        case _:
            assert_never(step)


def _warnings(plan: TopicPlan) -> list[str]:
    found = []
    for step in plan.steps:
        if isinstance(step, GrowPartitions):
            found.append(
                "Partitions cannot be taken away again, and records with a key may go to other"
                " partitions than before."
            )
        if isinstance(step, ReassignReplicas):
            found.append("Replicas are copied between brokers: see the reassignments.")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopic(Change):
    """Delete a topic with all its records."""

    topic: str
    bootstrap: str

    async def draft(self, admin: Admin) -> Draft:
        """What would be gone. Raises: NotFoundError; the client's errors."""
        topic = (await describe_topics(admin, [self.topic]))[self.topic]
        places = [TopicPartition(self.topic, number) for number in topic.partitions]
        ends = await offsets(admin, places, OffsetSpec.LATEST)
        observed = await KafkaTopics(admin).observe([self.topic])
        refusal = None
        if self.topic in INTERNAL_TOPICS:
            refusal = f"{self.topic} belongs to the brokers"
        command = command_line(
            "topic delete", self.topic, options=["--yes"], bootstrap=self.bootstrap
        )
        topic_id = observed.topics[self.topic].topic_id if self.topic in observed.topics else ""
        return Draft(
            title=f"Delete topic {self.topic}",
            rows=tuple(
                Row(item=str(place), old=f"offsets up to {ends.get(place)}", new=None)
                for place in places
            ),
            observed=topic_id,
            warnings=("All records are deleted. There is no undo.",),
            commands=(command,),
            typed=self.topic,
            refusal=refusal,
        )

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """To delete the topic."""
        return (delete_topic(self.topic),)

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Delete it, by its id where it has one: a new topic of the name stays."""
        step = DeleteTopic(topic=self.topic, topic_id=draft.observed)
        [result] = await apply_plan(TopicPlan(steps=(step,)), KafkaTopics(admin))
        yield ItemResult.of(self.topic, result.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRecords(Change):
    """Remove the records of partitions before an offset; None: all there are."""

    topic: str
    bootstrap: str
    before: Mapping[int, int | None] = field(default_factory=dict)

    async def draft(self, admin: Admin) -> Draft:
        """The first offset of each partition, old and new. Raises: the client's errors."""
        topic = (await describe_topics(admin, [self.topic]))[self.topic]
        wanted = self.before or dict.fromkeys(topic.partitions)
        unknown = sorted(set(wanted) - set(topic.partitions))
        if unknown:
            raise ChangeRequestError(f"'{self.topic}' has no partition {unknown[0]}")
        places = {number: TopicPartition(self.topic, number) for number in sorted(wanted)}
        starts = await offsets(admin, list(places.values()), OffsetSpec.EARLIEST)
        ends = await offsets(admin, list(places.values()), OffsetSpec.LATEST)
        rows = []
        for number, place in places.items():
            start, end = starts.get(place), ends.get(place)
            if start is None or end is None:
                raise ChangeRequestError(f"{place} has no leader: try again when it has one")
            target = wanted[number]
            new = end if target is None else min(max(target, start), end)
            rows.append(Row(item=str(place), old=start, new=new))
        return Draft(
            title=f"Remove records of {self.topic}",
            rows=tuple(rows),
            observed=[(row.item, row.old) for row in rows],
            warnings=("Records before the new first offset are gone. There is no undo.",),
            typed=self.topic,
            refusal=f"{self.topic} belongs to the brokers"
            if self.topic in INTERNAL_TOPICS
            else None,
        )

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """To delete of the topic."""
        return ((Need.of_topic(AclOperation.DELETE, self.topic),),)

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Remove them, up to the offsets that were shown."""
        moving = {}
        for row in draft.rows:
            if row.is_change:
                topic, _, number = row.item.rpartition("-")
                moving[TopicPartition(topic, int(number))] = row.new
        deleted = await admin.partitions.delete_records(moving)
        for place in moving:
            error = deleted.errors.get(place)
            yield ItemResult.of(str(place), error)
