"""Reconciles ConsumerGroups of one cluster: in one pass those that are due, which are looked at
together; then what is asked of each is carried out, and the statuses that differ are written.

Not here: which of them (`portions`), deciding (`group_plan`), what a status says (`group_status`),
the brokers (`gateway/kafka_groups.py`).

Invariants: one resource's trouble does not keep the others from being looked after; a status that
says so already is not written; when the cluster cannot be asked for long, statuses say Unknown;
nothing is done to a group for a resource that is another one by now.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError
from barnabas_client.facts.progress_watch import ProgressWatch
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.gateway.kafka_groups import KafkaGroups
from barnabas_operator.group_spec import DISCOVERED_LABEL, GroupSpec
from barnabas_operator.kubernetes.api import (
    ConflictError,
    KubernetesApi,
    KubernetesError,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import CONSUMER_GROUP
from barnabas_operator.kubernetes.objects import (
    labels_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from barnabas_operator.kubernetes.status_write import write_status
from barnabas_operator.reconcile.elsewhere import NOT_ADMITTED, Elsewhere, NotAdmittedError
from barnabas_operator.reconcile.group.discovery import GroupDiscovery, glob_of
from barnabas_operator.reconcile.group.group_apply import GroupGateway, question_of, resume
from barnabas_operator.reconcile.group.group_claims import Claims, claims_on
from barnabas_operator.reconcile.group.group_plan import owners
from barnabas_operator.reconcile.group.group_record import read_operations
from barnabas_operator.reconcile.group.group_state import (
    GroupFinding,
    ObservedGroups,
    Operations,
    Phase,
)
from barnabas_operator.reconcile.group.group_status import (
    group_status,
    invalid_status,
    unreachable_status,
)
from barnabas_operator.reconcile.group.operation_ledger import OperationLedger
from barnabas_operator.reconcile.portions import Portion, Portions
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.spec import SpecError
from barnabas_operator.work.bounded import for_each, in_portions
from barnabas_operator.work.key import Key
from barnabas_operator.work.watch_cache import WatchCache
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

# How often groups are looked at; sooner where something waits for members to leave.
RECHECK_SECONDS = 30.0
WAITING_RECHECK_SECONDS = 5.0

# What people are told in an event, once for each id.
_EVENTFUL = frozenset({Phase.WAITING, Phase.REFUSED, Phase.DONE, Phase.FAILED})

MakeGateway = Callable[[Admin], GroupGateway]


@dataclass(slots=True)
class _Cluster:
    """What is remembered of a cluster between passes."""

    admin: Admin
    gateway: GroupGateway
    watch: ProgressWatch
    discovery: GroupDiscovery
    ledger: OperationLedger


class GroupReconciler:
    """ConsumerGroups of all clusters; one cluster in each call."""

    def __init__(
        self,
        api: KubernetesApi,
        admins: AdminPool,
        settings: OperatorSettings,
        clock: Clock,
        cache: WatchCache,
        *,
        make_gateway: MakeGateway = KafkaGroups,
    ) -> None:
        self._api = api
        self._admins = admins
        self._settings = settings
        self._clock = clock
        self.events = Events(api)
        self._make_gateway = make_gateway
        self._cache = cache
        self._elsewhere = Elsewhere(cache.all_brokers, settings.elsewhere_namespaces)
        self._portions = Portions(cache, CONSUMER_GROUP, clock, _group_of, extra_of=glob_of)
        self._clusters: dict[tuple[str, str], _Cluster] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Look after the groups of a Broker; the seconds until that is wanted again.

        Raises: what went wrong with a resource, after all others were looked after;
        KubernetesError, BarnabasError.
        """
        portion = await self._portions.take(key)
        if portion.due or portion.is_extra_due:
            await self._reconcile(key, portion)
        if portion.broker is None or not (portion.resources or glob_of(portion.broker)):
            self._clusters.pop((key.namespace, key.name), None)
        return self._portions.again_seconds(key)

    async def _reconcile(self, key: Key, portion: Portion) -> None:
        claims = claims_on((key.namespace, key.name), portion)
        recheck_seconds = min(RECHECK_SECONDS, self._settings.resync_seconds)
        due = {uid_of(resource) for resource in portion.due}
        for misfit in claims.misfits:
            if uid_of(misfit.manifest) in due:
                await self._write_invalid(misfit.manifest, misfit.reason, misfit.message)
        specs = await self._specs(claims)
        resources = [
            _Resource(self, key, manifest, spec)
            for manifest, spec in specs
            if uid_of(manifest) in due
        ]
        if claims.broker is not None and (specs or glob_of(claims.broker)):
            await self._pass(key, claims.broker, specs, resources)
            self._portions.settle_extra(key, claims.broker, recheck_seconds)
        known = {resource.uid: resource for resource in resources}
        for manifest in portion.due:
            resource = known.get(uid_of(manifest))
            if resource is None:
                # A misfit, or on its way out: it, or its Broker, has to change.
                self._portions.settle(key, manifest, None)
            elif not resource.has_failed:
                is_waiting = resource.is_waiting
                seconds = (
                    min(WAITING_RECHECK_SECONDS, recheck_seconds) if is_waiting else recheck_seconds
                )
                self._portions.settle(key, resource.manifest, seconds)
        failures = [resource.failure for resource in resources if resource.failure is not None]
        if failures:
            raise failures[0]

    async def _pass(
        self,
        key: Key,
        broker: Object,
        specs: Sequence[tuple[Object, GroupSpec]],
        resources: Sequence[_Resource],
    ) -> None:
        """Look after some resources of all that the cluster has."""
        broker_name = key.namespace, key.name
        in_charge = owners([spec for _, spec in specs])
        questions = [
            question_of(resource.spec, read_operations(resource.manifest.get("status")))
            for resource in resources
            if in_charge[resource.spec.group_id] is resource.spec
        ]
        try:
            self._elsewhere.check_namespace(broker)
            async with self._admins.using(*broker_name) as admin:
                await self._elsewhere.check(broker, admin)
                cluster = self._cluster(broker_name, admin, broker)
                await cluster.ledger.load()
                await self._discover(cluster, broker, specs)
                observed = await cluster.gateway.observe(questions)
        except NotAdmittedError as error:
            for resource in resources:
                await self._write_invalid(resource.manifest, NOT_ADMITTED, str(error))
            return
        except BarnabasError as error:
            if self._admins.unreachable_seconds(*broker_name) >= self._settings.unreachable_seconds:
                await self._write_unreachable(
                    [resource.manifest for resource in resources], str(error)
                )
            raise
        cluster.watch.forget_others(in_charge)

        async def resume_one(resource: _Resource) -> None:
            try:
                await resource.resume(cluster, observed, in_charge[resource.spec.group_id])
            except NotFoundError:
                self._cache.missed(resource.manifest)
            except (KubernetesError, BarnabasError) as error:
                logger.warning(
                    "ConsumerGroup not reconciled: %s: %s", resource.spec.resource, error
                )
                resource.failure = error
            except Exception as error:
                # A fault of ours that one resource brings to light is not to stop the others.
                resource.failure = error
                await self._write_fault(resource.manifest, error)

        await for_each(resources, resume_one)

    async def _discover(
        self, cluster: _Cluster, broker: Object, specs: Sequence[tuple[Object, GroupSpec]]
    ) -> None:
        """Make and delete what shows groups that nobody has declared.

        What is made here is looked at in the pass that its event begins.
        """
        if not (glob_of(broker) or any(spec.is_discovered for _, spec in specs)):
            return
        group_ids = await cluster.gateway.list_ids()
        now_ms = self._clock.monotonic_ms()
        plan = cluster.discovery.plan(broker, group_ids, specs, now_ms)
        for manifest in plan.deleted:
            broker_name = namespace_of(manifest), name_of(manifest)
            # Somebody may have taken the label off meanwhile, and then it is a declaration.
            there = await self._api.get(CONSUMER_GROUP, *broker_name)
            if there is None or labels_of(there).get(DISCOVERED_LABEL) != "true":
                continue
            with suppress(ConflictError):  # it is another object by now
                await self._api.delete(CONSUMER_GROUP, *broker_name, uid=uid_of(manifest))
        for manifest in plan.made:
            with suppress(ConflictError):  # one of its name exists
                await self._api.create(manifest)

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)

    def _cluster(self, broker_name: tuple[str, str], admin: Admin, broker: Object) -> _Cluster:
        known = self._clusters.get(broker_name)
        if known is None or known.admin is not admin:
            known = _Cluster(
                admin,
                self._make_gateway(admin),
                ProgressWatch() if known is None else known.watch,
                GroupDiscovery() if known is None else known.discovery,
                OperationLedger(self._api, broker),
            )
            self._clusters[broker_name] = known
        return known

    async def _specs(self, claims: Claims) -> list[tuple[Object, GroupSpec]]:
        """What the resources ask for, oldest first; invalid ones get a condition."""
        specs = []
        async for manifest in in_portions(claims.manifests):
            try:
                read_operations(manifest.get("status"))
                specs.append((manifest, GroupSpec.from_manifest(manifest)))
            except SpecError as error:
                await self._write_invalid(manifest, "InvalidSpec", str(error))
            except Exception as error:
                logger.exception("ConsumerGroup %s cannot be read", name_of(manifest))
                await self._write_fault(manifest, error)
        return sorted(specs, key=lambda pair: pair[1].age)

    async def _write_unreachable(self, manifests: Sequence[Object], error: str) -> None:
        for manifest in manifests:
            try:
                await self._write(manifest, unreachable_status(manifest, error, self._now))
            except KubernetesError as failure:
                # Why the cluster is away matters more, and the next pass writes it.
                logger.warning("the status of a ConsumerGroup was not written: %s", failure)

    async def _write_invalid(self, manifest: Object, reason: str, message: str) -> None:
        try:
            await self._write(manifest, invalid_status(manifest, reason, message, self._now))
        except NotFoundError:
            self._cache.missed(manifest)

    async def _write_fault(self, manifest: Object, error: Exception) -> None:
        """Say on the resource what its pass has failed with, as far as that can be written."""
        try:
            await self._write_invalid(manifest, "InternalError", f"{type(error).__name__}: {error}")
        except KubernetesError as failure:
            logger.warning("the status of a ConsumerGroup was not written: %s", failure)

    async def _write(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        """The object as it is now. Raises: ConflictError, NotFoundError, KubernetesError."""
        written = await write_status(self._api, manifest, status)
        if written is None:
            return manifest
        self._cache.wrote(written)
        return written

    async def _confirm(self, manifest: Object) -> None:
        """See that a resource is what is known of it. Raises: ConflictError; NotFoundError."""
        there = await self._api.get(CONSUMER_GROUP, namespace_of(manifest), name_of(manifest))
        if there is None or uid_of(there) != uid_of(manifest):
            raise NotFoundError(f"ConsumerGroup {name_of(manifest)} has gone", code=404)
        if resource_version_of(there) != resource_version_of(manifest):
            self._cache.wrote(there)
            raise ConflictError(f"ConsumerGroup {name_of(manifest)} has changed", code=409)


class _Resource:
    """One ConsumerGroup during a pass: its manifest follows the writes."""

    def __init__(
        self, reconciler: GroupReconciler, key: Key, manifest: Object, spec: GroupSpec
    ) -> None:
        self._reconciler = reconciler
        self._broker = f"{key.namespace}/{key.name}"
        self.manifest = manifest
        self.spec = spec
        self.failure: Exception | None = None
        self._stuck: frozenset[TopicPartition] = frozenset()
        self._reported = _reported(read_operations(manifest.get("status")))
        self.is_waiting = False

    @property
    def uid(self) -> str:
        """Of its object."""
        return uid_of(self.manifest)

    @property
    def has_failed(self) -> bool:
        """Whether the next pass has to try again."""
        return self.failure is not None

    async def resume(self, cluster: _Cluster, observed: ObservedGroups, owner: GroupSpec) -> None:
        """Carry out what is asked for, and write what has become of the group."""
        group = observed.groups[self.spec.group_id]
        if group.is_known:
            now_ms = self._reconciler._clock.monotonic_ms()
            told = _reported_stuck(self.manifest)
            self._stuck = frozenset(
                cluster.watch.stuck(
                    group.group_id,
                    group.committed,
                    {place: ends.end for place, ends in observed.ends.items()},
                    now_ms,
                    has_members=bool(group.members),
                    told_before=told,
                )
            )
        recorded = read_operations(self.manifest.get("status"))

        async def record(
            operations: Operations, findings: Sequence[GroupFinding], seen: ObservedGroups
        ) -> None:
            await self._record(operations, findings, seen)
            namespace = namespace_of(self.manifest)
            await cluster.ledger.note(namespace, self.spec.group_id, operations)

        await resume(
            self.spec,
            replace(recorded, done_before=cluster.ledger.of(self.spec.group_id)),
            observed,
            cluster.gateway,
            record,
            owner=owner,
            confirm=lambda: self._reconciler._confirm(self.manifest),
        )

    async def _record(
        self, operations: Operations, findings: Sequence[GroupFinding], observed: ObservedGroups
    ) -> None:
        going_on = (operations.reset, operations.undo, operations.deletion)
        self.is_waiting = any(
            operation is not None and operation.phase in (Phase.WAITING, Phase.RUNNING)
            for operation in going_on
        )
        status = group_status(
            self.manifest,
            self.spec,
            self._broker,
            operations,
            findings,
            observed,
            stuck=self._stuck,
            now=self._reconciler._now,
        )
        self.manifest = await self._reconciler._write(self.manifest, status)
        now = _reported(operations)
        for name, (id_, phase, message) in now.items():
            before = self._reported.get(name)
            if phase in _EVENTFUL and (before is None or before[:2] != (id_, phase)):
                await self._reconciler.events.emit(
                    self.manifest,
                    f"{name}{phase}",
                    f"{name.lower()} '{id_}': {message}",
                    type_="Warning" if phase in (Phase.REFUSED, Phase.FAILED) else "Normal",
                )
        self._reported = now


def _reported(operations: Operations) -> dict[str, tuple[str, Phase, str]]:
    """By operation, what an event would say of it."""
    named = {
        "Reset": operations.reset,
        "Undo": operations.undo,
        "Delete": operations.deletion,
    }
    return {
        name: (operation.id, operation.phase, operation.message or operation.request)
        for name, operation in named.items()
        if operation is not None
    }


def _reported_stuck(manifest: Mapping[str, Any]) -> set[TopicPartition]:
    rows = (manifest.get("status") or {}).get("partitions") or ()
    return {TopicPartition(row["topic"], row["partition"]) for row in rows if row.get("stuck")}


def _group_of(manifest: Object) -> str:
    """The group that a ConsumerGroup is about, whether or not it is valid."""
    return str((manifest.get("spec") or {}).get("groupId") or name_of(manifest))
