"""One pass over those Topics of one cluster that are due.

Look at the brokers once, plan, carry out in batches, look again, write what differs. A pass costs
the same few requests to the brokers for one topic as for two hundred, and to the API server one for
each resource that changes.

Not here: which Topics (`portions`), deciding (`topic_plan`), what a status says (`topic_status`),
when finalizers go (`topic_finalizer`), the API server (`topic_resources`). Invariants: passes of
several clusters run at the same time, so what one of them has met with is its own, and all that
they share is in `Tools`; no topic is deleted, or made again, for resources that a new list of them
does not show as they were planned from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from barnabas_client.admin.admin import Admin
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_operator import conditions
from barnabas_operator.admin_pool import AdminPool, bootstrap_servers
from barnabas_operator.conditions import Condition
from barnabas_operator.gateway.kafka_topics import KafkaTopics
from barnabas_operator.kubernetes.api import ConflictError, KubernetesApi, Object
from barnabas_operator.kubernetes.objects import is_going, is_paused, name_of, namespace_of, uid_of
from barnabas_operator.reconcile.broker_reference import admits
from barnabas_operator.reconcile.connection_secret import SecretState
from barnabas_operator.reconcile.elsewhere import Elsewhere, NotAdmittedError, not_admitted
from barnabas_operator.reconcile.portions import Portion, Portions
from barnabas_operator.reconcile.topic_apply import (
    LastingGateway,
    Outcome,
    SkippedError,
    reconcile_and_observe,
)
from barnabas_operator.reconcile.topic_extras import TopicExtras
from barnabas_operator.reconcile.topic_finalizer import (
    FinalizerRemoval,
    going_seconds,
    removal_without_cluster,
)
from barnabas_operator.reconcile.topic_measuring import Measurer, Measuring
from barnabas_operator.reconcile.topic_plan import why_kept
from barnabas_operator.reconcile.topic_plan_text import step_summary
from barnabas_operator.reconcile.topic_resources import (
    TopicResource,
    TopicResources,
    read_topic,
    topic_of,
)
from barnabas_operator.reconcile.topic_state import CreateTopic, DeleteTopic, TopicPlan
from barnabas_operator.reconcile.topic_status import (
    TopicFacts,
    is_moving,
    is_ready,
    is_settled,
    status_without_cluster,
    topic_status,
    without_broker,
    without_brokers_answer,
)
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.spec import MADE, DeletionPolicy, TopicSpec
from barnabas_operator.work.bounded import in_portions
from barnabas_operator.work.key import Key

# While something is on its way, or brokers are away, and no event will tell of its end.
_SOON_SECONDS = 3.0
_WITHOUT_EVENT = FinalizerRemoval(reason="", message="")
_MADE_MAX = 50_000


class Gateway(LastingGateway, Measurer, Protocol):
    """The brokers of one cluster."""


MakeGateway = Callable[[Admin], Gateway]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What all passes have in common; rates are measured from one pass to the next."""

    api: KubernetesApi
    admins: AdminPool
    settings: OperatorSettings
    clock: Clock
    extras: TopicExtras
    elsewhere: Elsewhere
    portions: Portions
    make_gateway: MakeGateway = KafkaTopics
    measuring: dict[Key, Measuring] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)  # uids of resources whose topic we have made


Statuses = dict[str, Mapping[str, Any]]


class TopicPass:
    """A pass; `resources` are its own."""

    def __init__(self, tools: Tools, resources: TopicResources) -> None:
        self._admins = tools.admins
        self._settings = tools.settings
        self._clock = tools.clock
        self._extras = tools.extras
        self._elsewhere = tools.elsewhere
        self._make_gateway = tools.make_gateway
        self._measuring = tools.measuring
        self._made = tools.made
        self._portions = tools.portions
        self._resources = resources
        self._topics: list[TopicResource] = []
        self._again_seconds: dict[str, float | None] = {}

    async def run(self, key: Key, portion: Portion) -> list[TopicResource]:
        """Do what is due; the Topics as they are then.

        Raises: KubernetesError; what went wrong with a single resource is with `resources`.
        """
        self._topics = topics = [
            read_topic(resource) async for resource in in_portions(portion.due)
        ]
        settled_before = {
            resource.name
            for resource in topics
            if is_settled(resource.old_status, resource.generation)
        }
        if portion.broker is None:
            await self._without_broker(key, topics, len(portion.brokers))
        else:
            await self._with_broker(key, portion.broker, topics, portion.resources)
        for name in self._resources.written - settled_before:
            # Brokers may show more of it in a moment.
            self._again_seconds.setdefault(name, _SOON_SECONDS)
        return topics

    def again_seconds(self, resource: TopicResource) -> float | None:
        """When a resource should be looked at again; None: when it, or its Broker, changes."""
        return self._again_seconds.get(resource.name, self._settings.resync_seconds)

    async def _without_broker(self, key: Key, resources: list[TopicResource], brokers: int) -> None:
        """Say which Broker is missing, and hold up no deletion."""
        removal = removal_without_cluster(
            is_broker_gone=True,
            is_namespace_going=False,
            unreachable_seconds=0,
            patience_seconds=0,
        )
        await self._remove_finalizers({resource.name: removal for resource in resources}, resources)
        verdict = without_broker(key.namespace, key.name, brokers)
        await self._write_conditions(
            verdict, [resource for resource in resources if not is_going(resource.manifest)]
        )
        self._again_seconds = {resource.name: None for resource in resources}

    async def _with_broker(
        self,
        key: Key,
        broker: Object,
        resources: list[TopicResource],
        all_: Sequence[Object],
    ) -> None:
        self._admins.learn(broker)
        going = await self._resources.going_namespaces(resources)
        if key.namespace in going:
            # The Broker goes as well: its topics are not worth waiting for.
            await self._remove_finalizers(
                {resource.name: self._removal(key, resource, going) for resource in resources},
                resources,
            )
        resolved = await self._resolve(broker, resources)
        try:
            self._elsewhere.check_namespace(broker)
            await self._resources.change_finalizers(resolved)
            async with self._admins.using(key.namespace, key.name) as admin:
                await self._elsewhere.check(broker, admin)
                await self._extras.warn_of_auto_creation(broker, admin)
                removed = await self._resources.attempt(
                    self._extras.show_undeclared(broker, admin, all_), frozenset[str]()
                )
                resolved = [resource for resource in resolved if resource.name not in removed]

                async def confirm(plan: TopicPlan) -> None:
                    await self._confirm(key, plan)

                gateway = self._make_gateway(admin)
                outcome = await reconcile_and_observe(
                    gateway, [self._planned(resource) for resource in resolved], confirm
                )
                measuring = self._measuring.setdefault(key, Measuring())
                await measuring.update(
                    self._clock.monotonic_ms() / 1000,
                    gateway,
                    outcome.observed.topics,
                )
        except BarnabasError:
            await self._unreachable(key, broker, resolved, going)
            return
        except NotAdmittedError as error:
            await self._refuse(not_admitted(error), resolved)
            return
        except ConflictError:
            # The resources are others than planned from: the next pass plans from those.
            self._resources.conflicted.update(resource.name for resource in resolved)
            return
        await self._remove_finalizers(
            {
                resource.name: self._removal_after(outcome, key, resource, going)
                for resource in resolved
            },
            resolved,
        )
        self._note_made(outcome, resolved)
        await self._emit_events(outcome, resolved)
        owners = [resource for resource in resolved if not outcome.is_conflict(_spec(resource))]
        secrets = await self._extras.secrets(broker, owners, self._resources.failed)
        await self._write(outcome, measuring, resolved, secrets)

    async def _resolve(self, broker: Object, resources: list[TopicResource]) -> list[TopicResource]:
        """Those that are valid and admitted; the others say why not, and hold up no deletion."""
        resolved = []
        for resource in resources:
            if resource.spec is None:
                verdict = conditions.stalled("InvalidSpec", resource.problem)
            elif not admits(broker, namespace_of(resource.manifest)):
                verdict = conditions.stalled(
                    "NotAdmitted",
                    f"Broker {namespace_of(broker)}/{name_of(broker)} takes no resources of"
                    f" namespace {namespace_of(resource.manifest)}",
                )
            else:
                resolved.append(resource)
                continue
            await self._refuse(verdict, [resource])
        return resolved

    async def _refuse(
        self, verdict: Sequence[Condition], resources: Sequence[TopicResource]
    ) -> None:
        """Say why nothing is done, and hold up no deletion."""
        await self._remove_finalizers(
            {resource.name: _WITHOUT_EVENT for resource in resources}, list(resources)
        )
        await self._write_conditions(
            verdict, [resource for resource in resources if not is_going(resource.manifest)]
        )

    async def _confirm(self, key: Key, plan: TopicPlan) -> None:
        """See that nothing goes, or is made a second time, because of resources of yesterday.

        Raises: ConflictError where they are not what they were; KubernetesError.
        """
        known = {
            topic_of(resource.manifest)
            for resource in self._topics
            if resource.old_status.get("topicId")
        }
        topics = {
            step.topic
            for step in plan.steps
            if isinstance(step, DeleteTopic)
            or (isinstance(step, CreateTopic) and step.topic in known)
        }
        if not topics:
            return
        planned = [resource.manifest for resource in self._topics]
        if not await self._portions.are_still(key, planned, topics):
            raise ConflictError(f"the resources of {', '.join(sorted(topics))[:200]} have changed")

    async def _unreachable(
        self,
        key: Key,
        broker: Object,
        resources: list[TopicResource],
        going: frozenset[str],
    ) -> None:
        """Leave what was seen last for a while; then it counts as not known."""
        await self._remove_finalizers(
            {resource.name: self._removal(key, resource, going) for resource in resources},
            resources,
        )
        verdict = without_brokers_answer(bootstrap_servers(broker))
        seconds = self._admins.unreachable_seconds(key.namespace, key.name)
        has_patience = seconds <= self._settings.unreachable_seconds
        await self._write_conditions(
            verdict,
            [
                resource
                for resource in resources
                if not is_going(resource.manifest)
                and not (has_patience and is_ready(resource.old_status))
            ],
        )
        self._again_seconds = {resource.name: _SOON_SECONDS for resource in resources}

    def _removal(
        self, key: Key, resource: TopicResource, going: frozenset[str], error: str = ""
    ) -> FinalizerRemoval | None:
        return removal_without_cluster(
            is_broker_gone=False,
            is_namespace_going=namespace_of(resource.manifest) in going,
            unreachable_seconds=self._admins.unreachable_seconds(key.namespace, key.name),
            patience_seconds=self._settings.unreachable_seconds,
            going_seconds=going_seconds(resource.manifest, self._now()),
            error=error,
        )

    def _planned(self, resource: TopicResource) -> TopicSpec:
        """The spec; of a topic that was just made again the status has the former id."""
        spec = _spec(resource)
        return replace(spec, known_id="") if uid_of(resource.manifest) in self._made else spec

    def _note_made(self, outcome: Outcome, resources: Sequence[TopicResource]) -> None:
        """Remember what was made, until the status says so, which may be refused at first."""
        made = {
            result.step.topic
            for result in outcome.results
            if isinstance(result.step, CreateTopic) and result.error is None
        }
        if len(self._made) > _MADE_MAX:
            self._made.clear()
        for resource in resources:
            if is_going(resource.manifest) or outcome.is_conflict(_spec(resource)):
                continue
            if _spec(resource).topic in made:
                self._made.add(uid_of(resource.manifest))
            elif resource.old_status.get("origin") == MADE:
                self._made.discard(uid_of(resource.manifest))

    def _removal_after(
        self, outcome: Outcome, key: Key, resource: TopicResource, going: frozenset[str]
    ) -> FinalizerRemoval | None:
        """A resource may go when its topic is gone, or was not its own to delete."""
        spec = self._planned(resource)
        error = outcome.errors.get(spec.topic)
        refusal = outcome.observed.refused.get(spec.topic, "")
        if error is not None or refusal:
            return self._removal(key, resource, going, str(error or refusal))
        topic = outcome.observed.topics.get(spec.topic)
        kept = why_kept(spec, topic) if spec.deletion_policy is DeletionPolicy.DELETE else ""
        if kept and topic is not None:
            return FinalizerRemoval(
                reason="TopicKept", message=f"topic {spec.topic} is left alone: {kept}"
            )
        return _WITHOUT_EVENT

    async def _remove_finalizers(
        self, removals: Mapping[str, FinalizerRemoval | None], resources: list[TopicResource]
    ) -> None:
        known = {name: removal for name, removal in removals.items() if removal is not None}
        await self._resources.remove_finalizers(known, resources)

    async def _write_conditions(
        self, verdict: Sequence[Condition], resources: Sequence[TopicResource]
    ) -> None:
        statuses: Statuses = {
            resource.name: status_without_cluster(
                "" if resource.spec is None else resource.spec.topic,
                resource.generation,
                verdict,
                resource.old_status,
                self._now(),
            )
            for resource in resources
        }
        await self._resources.write(statuses, list(resources))

    async def _emit_events(self, outcome: Outcome, resources: Sequence[TopicResource]) -> None:
        """Events of changes to topics that existed; that a topic was made its status tells."""
        by_topic = {
            _spec(resource).topic: resource
            for resource in reversed(resources)
            if not is_going(resource.manifest)
        }
        for result in outcome.results:
            resource = by_topic.get(result.step.topic)
            if resource is None or isinstance(result.step, CreateTopic | DeleteTopic):
                continue
            if result.error is None:
                summary = step_summary(result.step)
                await self._resources.events.emit(
                    resource.manifest, "Changed", summary, occasion=str(resource.generation)
                )

    async def _write(
        self,
        outcome: Outcome,
        measuring: Measuring,
        resources: list[TopicResource],
        secrets: Mapping[str, SecretState],
    ) -> None:
        statuses: Statuses = {}
        async for resource in in_portions(resources):
            spec = _spec(resource)
            error = outcome.errors.get(spec.topic)
            if is_going(resource.manifest) and error is None:
                self._again_seconds[resource.name] = _SOON_SECONDS
                continue
            facts = TopicFacts(
                spec=spec,
                generation=resource.generation,
                topic=outcome.observed.topics.get(spec.topic),
                findings=outcome.findings.get(spec.resource, ()),
                failure="" if error is None else str(error),
                is_passing=isinstance(error, RetriableError | SkippedError),
                size_bytes=measuring.size_bytes(spec.topic),
                messages_per_second=measuring.rate(spec.topic),
                secret=secrets.get(resource.name),
                is_made=uid_of(resource.manifest) in self._made,
            )
            statuses[resource.name] = topic_status(
                facts, outcome.observed, resource.old_status, self._now()
            )
            if is_moving(statuses[resource.name]):
                self._again_seconds[resource.name] = _SOON_SECONDS
        await self._resources.write(statuses, resources)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)


def _spec(resource: TopicResource) -> TopicSpec:
    """The spec of a valid resource; the annotation pauses it as the field does."""
    assert resource.spec is not None
    if is_paused(resource.manifest) and not resource.spec.is_paused:
        return replace(resource.spec, is_paused=True)
    return resource.spec
