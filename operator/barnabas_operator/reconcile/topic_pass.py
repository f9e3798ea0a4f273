"""One pass over all Topics of one cluster.

List, look at the brokers once, plan, carry out in batches, look again, write what differs. A pass
costs the same few requests for one topic as for a thousand.

Not here: deciding (`topic_plan`), what a status says (`topic_status`), when finalizers go
(`topic_finalizer`), the API server (`topic_resources`). Invariant: passes of several clusters run
at the same time, so what one of them has met with is its own; all that they share is in `Tools`.
"""

from __future__ import annotations

from collections import defaultdict
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
from barnabas_operator.kubernetes.api import KubernetesApi, Object
from barnabas_operator.kubernetes.kinds import BROKER
from barnabas_operator.kubernetes.objects import (
    is_going,
    is_paused,
    name_of,
    namespace_of,
    uid_of,
)
from barnabas_operator.reconcile.broker_reference import admits
from barnabas_operator.reconcile.connection_secret import SecretState
from barnabas_operator.reconcile.topic_apply import (
    SkippedError,
    StepResult,
    TopicGateway,
    reconcile_topics,
)
from barnabas_operator.reconcile.topic_discovery import patterns_of
from barnabas_operator.reconcile.topic_extras import TopicExtras
from barnabas_operator.reconcile.topic_finalizer import (
    Release,
    going_seconds,
    release_without_cluster,
)
from barnabas_operator.reconcile.topic_measuring import Measurer, Measuring
from barnabas_operator.reconcile.topic_plan import why_kept
from barnabas_operator.reconcile.topic_plan_text import step_summary
from barnabas_operator.reconcile.topic_resources import TopicResource, TopicResources
from barnabas_operator.reconcile.topic_state import (
    CreateTopic,
    DeleteTopic,
    Finding,
    ObservedCluster,
    Reason,
)
from barnabas_operator.reconcile.topic_status import (
    TopicFacts,
    is_moving,
    is_ready,
    status_without_cluster,
    topic_status,
)
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.spec import MADE, DeletionPolicy, TopicSpec
from barnabas_operator.work.key import Key

# While something is on its way, or brokers are away, and no event will tell of its end.
_SOON_SECONDS = 3.0
_LET_GO = Release(reason="", message="")
_MADE_MAX = 50_000


class Gateway(TopicGateway, Measurer, Protocol):
    """The brokers of one cluster; `last` is what `observe` has told last, if it has."""

    last: ObservedCluster | None


MakeGateway = Callable[[Admin], Gateway]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What all passes have in common; rates are measured from one pass to the next."""

    api: KubernetesApi
    admins: AdminPool
    settings: OperatorSettings
    clock: Clock
    extras: TopicExtras
    make_gateway: MakeGateway = KafkaTopics
    measuring: dict[Key, Measuring] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)  # uids of resources whose topic we have made


Statuses = dict[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What a pass has found out and done at the brokers.

    `errors` has what went wrong first, by topic; `findings` are by resource.
    """

    observed: ObservedCluster
    results: Sequence[StepResult]
    errors: Mapping[str, Exception]
    findings: Mapping[str, Sequence[Finding]]

    def is_conflict(self, spec: TopicSpec) -> bool:
        """Whether another resource has the topic."""
        findings = self.findings.get(spec.resource, ())
        return any(finding.reason is Reason.CONFLICT for finding in findings)


class TopicPass:
    """A pass; `resources` are its own."""

    def __init__(self, tools: Tools, resources: TopicResources) -> None:
        self._api = tools.api
        self._admins = tools.admins
        self._settings = tools.settings
        self._clock = tools.clock
        self._extras = tools.extras
        self._make_gateway = tools.make_gateway
        self._measuring = tools.measuring
        self._made = tools.made
        self._resources = resources

    async def run(self, key: Key) -> tuple[list[TopicResource], float | None]:
        """The Topics as they are then, and the seconds until they should be looked at again.

        Raises: KubernetesError; what went wrong with a single resource is with `resources`.
        """
        brokers = await self._api.list(BROKER, namespace=key.namespace)
        places = [(namespace_of(one), name_of(one)) for one in brokers]
        broker = next(
            (one for one in brokers if name_of(one) == key.name and not is_going(one)), None
        )
        topics = await self._resources.of_cluster((key.namespace, key.name), places)
        if broker is None:
            return topics, await self._without_broker(key, topics, len(places))
        if topics or patterns_of(broker):
            return topics, await self._with_broker(key, broker, topics)
        self._measuring.pop(key, None)
        return topics, None

    async def _without_broker(
        self, key: Key, resources: list[TopicResource], brokers: int
    ) -> float | None:
        """Say which Broker is missing, and hold up no deletion."""
        self._measuring.pop(key, None)
        await self._admins.forget(key.namespace, key.name)
        if key.name:
            verdict = conditions.stalled(
                "BrokerNotFound", f"there is no Broker {key.namespace}/{key.name}"
            )
        elif brokers:
            verdict = conditions.stalled(
                "BrokerAmbiguous",
                f"namespace {key.namespace} has {brokers} Brokers: name one in spec.brokerRef",
            )
        else:
            verdict = conditions.stalled(
                "BrokerNotFound",
                f"namespace {key.namespace} has no Broker: name one in spec.brokerRef",
            )
        release = release_without_cluster(
            is_broker_gone=True,
            is_namespace_going=False,
            unreachable_seconds=0,
            patience_seconds=0,
        )
        await self._let_go({one.name: release for one in resources}, resources)
        await self._say(verdict, [one for one in resources if not is_going(one.manifest)])
        return None

    async def _with_broker(
        self, key: Key, broker: Object, resources: list[TopicResource]
    ) -> float | None:
        self._admins.learn(broker)
        going = await self._resources.going_namespaces(resources)
        if key.namespace in going:
            # The Broker goes as well: its topics are not worth waiting for.
            await self._let_go(
                {one.name: self._release(key, one, going) for one in resources}, resources
            )
        meant = await self._sort_out(broker, resources)
        await self._resources.mark(meant)
        try:
            async with self._admins.using(key.namespace, key.name) as admin:
                await self._extras.warn_of_auto_creation(broker, admin)
                await self._resources.attempt(
                    self._extras.show_undeclared(broker, admin, meant), None
                )
                outcome = await self._bring_about(admin, [_spec(one) for one in meant])
                measuring = self._measuring.setdefault(key, Measuring())
                await measuring.update(
                    self._clock.monotonic_ms() / 1000,
                    self._make_gateway(admin),
                    outcome.observed.topics,
                )
        except BarnabasError:
            return await self._unreachable(key, broker, meant, going)
        await self._let_go(
            {one.name: self._release_after(outcome, key, one, going) for one in meant}, meant
        )
        self._note_made(outcome, meant)
        await self._tell(outcome, meant)
        owners = [one for one in meant if not outcome.is_conflict(_spec(one))]
        secrets = await self._extras.secrets(broker, owners, self._resources.failed)
        return await self._write(outcome, measuring, meant, secrets)

    async def _sort_out(
        self, broker: Object, resources: list[TopicResource]
    ) -> list[TopicResource]:
        """Those that can be meant and may be; the others are told, and not held up."""
        meant = []
        for one in resources:
            if one.spec is None:
                verdict = conditions.stalled("InvalidSpec", one.problem)
            elif not admits(broker, namespace_of(one.manifest)):
                verdict = conditions.stalled(
                    "NotAdmitted",
                    f"Broker {namespace_of(broker)}/{name_of(broker)} takes no resources of"
                    f" namespace {namespace_of(one.manifest)}",
                )
            else:
                meant.append(one)
                continue
            await self._let_go({one.name: _LET_GO}, [one])
            if not is_going(one.manifest):
                await self._say(verdict, [one])
        return meant

    async def _bring_about(self, admin: Admin, specs: Sequence[TopicSpec]) -> _Outcome:
        """Look, plan and act; at the end it has looked after the last act."""
        gateway = self._make_gateway(admin)
        plan, results = await reconcile_topics(specs, gateway)
        observed = gateway.last
        if observed is None or plan.steps:
            # Something was tried after the last look.
            observed = await gateway.observe(sorted({spec.topic for spec in specs}))
        errors: dict[str, Exception] = {}
        for result in results:
            if result.error is not None:
                errors.setdefault(result.step.topic, result.error)
        findings: dict[str, list[Finding]] = defaultdict(list)
        for finding in plan.findings:
            findings[finding.resource].append(finding)
        return _Outcome(observed=observed, results=results, errors=errors, findings=findings)

    async def _unreachable(
        self,
        key: Key,
        broker: Object,
        resources: list[TopicResource],
        going: frozenset[str],
    ) -> float:
        """Leave what was seen last for a while; then it counts as not known."""
        await self._let_go(
            {one.name: self._release(key, one, going) for one in resources}, resources
        )
        message = f"no broker answers at {bootstrap_servers(broker)}"
        verdict = (
            Condition(
                type=conditions.READY,
                status="Unknown",
                reason="BrokersUnreachable",
                message=message,
            ),
            Condition(
                type=conditions.RECONCILING,
                status="True",
                reason="BrokersUnreachable",
                message=message,
            ),
        )
        seconds = self._admins.unreachable_seconds(key.namespace, key.name)
        has_patience = seconds <= self._settings.unreachable_seconds
        await self._say(
            verdict,
            [
                one
                for one in resources
                if not is_going(one.manifest) and not (has_patience and is_ready(one.old_status))
            ],
        )
        return _SOON_SECONDS

    def _release(
        self, key: Key, resource: TopicResource, going: frozenset[str], error: str = ""
    ) -> Release | None:
        return release_without_cluster(
            is_broker_gone=False,
            is_namespace_going=namespace_of(resource.manifest) in going,
            unreachable_seconds=self._admins.unreachable_seconds(key.namespace, key.name),
            patience_seconds=self._settings.unreachable_seconds,
            going_seconds=going_seconds(resource.manifest, self._now()),
            error=error,
        )

    def _note_made(self, outcome: _Outcome, resources: Sequence[TopicResource]) -> None:
        """Remember what was made, until the status says so, which may be refused at first."""
        made = {
            result.step.topic
            for result in outcome.results
            if isinstance(result.step, CreateTopic) and result.error is None
        }
        if len(self._made) > _MADE_MAX:
            self._made.clear()
        for one in resources:
            if is_going(one.manifest) or outcome.is_conflict(_spec(one)):
                continue
            if _spec(one).topic in made:
                self._made.add(uid_of(one.manifest))
            elif one.old_status.get("origin") == MADE:
                self._made.discard(uid_of(one.manifest))

    def _release_after(
        self, outcome: _Outcome, key: Key, resource: TopicResource, going: frozenset[str]
    ) -> Release | None:
        """A resource may go when its topic is gone, or was not its own to delete."""
        spec = _spec(resource)
        error = outcome.errors.get(spec.topic)
        refusal = outcome.observed.refused.get(spec.topic, "")
        if error is not None or refusal:
            return self._release(key, resource, going, str(error or refusal))
        kept = why_kept(spec) if spec.deletion_policy is DeletionPolicy.DELETE else ""
        if kept and spec.topic in outcome.observed.topics:
            return Release(reason="TopicKept", message=f"topic {spec.topic} is left alone: {kept}")
        return _LET_GO

    async def _let_go(
        self, releases: Mapping[str, Release | None], resources: list[TopicResource]
    ) -> None:
        known = {name: release for name, release in releases.items() if release is not None}
        await self._resources.release(known, resources)

    async def _say(self, verdict: Sequence[Condition], resources: Sequence[TopicResource]) -> None:
        statuses: Statuses = {
            one.name: status_without_cluster(
                "" if one.spec is None else one.spec.topic,
                one.generation,
                verdict,
                one.old_status,
                self._now(),
            )
            for one in resources
        }
        await self._resources.write(statuses, list(resources))

    async def _tell(self, outcome: _Outcome, resources: Sequence[TopicResource]) -> None:
        """Events of changes to topics that existed; that a topic was made its status tells."""
        by_topic = {
            _spec(one).topic: one for one in reversed(resources) if not is_going(one.manifest)
        }
        for result in outcome.results:
            resource = by_topic.get(result.step.topic)
            if resource is None or isinstance(result.step, CreateTopic | DeleteTopic):
                continue
            if result.error is None:
                summary = step_summary(result.step)
                await self._resources.events.tell(
                    resource.manifest, "Changed", summary, occasion=str(resource.generation)
                )

    async def _write(
        self,
        outcome: _Outcome,
        measuring: Measuring,
        resources: list[TopicResource],
        secrets: Mapping[str, SecretState],
    ) -> float:
        statuses: Statuses = {}
        for resource in resources:
            spec = _spec(resource)
            error = outcome.errors.get(spec.topic)
            if is_going(resource.manifest) and error is None:
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
        await self._resources.write(statuses, resources)
        is_on_its_way = any(map(is_moving, statuses.values()))
        return _SOON_SECONDS if is_on_its_way else self._settings.resync_seconds

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)


def _spec(resource: TopicResource) -> TopicSpec:
    """The spec of a resource that can be meant; the annotation pauses it as the field does."""
    assert resource.spec is not None
    if is_paused(resource.manifest) and not resource.spec.is_paused:
        return replace(resource.spec, is_paused=True)
    return resource.spec
