"""Reconciles all ConsumerGroups of one cluster in one pass: looks at all groups together, then
carries out what is asked of each, and writes the statuses that differ.

Not here: deciding (`group_plan`), what a status says (`group_status`), the brokers
(`gateway/kafka_groups.py`).

Invariants: one resource's trouble does not keep the others from being looked after; a status that
says so already is not written; when the cluster cannot be asked for long, statuses say Unknown.
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
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.gateway.kafka_groups import KafkaGroups
from barnabas_operator.group_spec import GroupSpec
from barnabas_operator.kubernetes.api import (
    ConflictError,
    KubernetesApi,
    KubernetesError,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP, Kind
from barnabas_operator.kubernetes.objects import name_of, namespace_of, uid_of
from barnabas_operator.kubernetes.status_write import write_status
from barnabas_operator.reconcile.group.discovery import Discovery, glob_of
from barnabas_operator.reconcile.group.group_apply import (
    GroupGateway,
    carry_on,
    question_of,
)
from barnabas_operator.reconcile.group.group_claims import Claims, claims_on
from barnabas_operator.reconcile.group.group_plan import owners
from barnabas_operator.reconcile.group.group_record import read_operations
from barnabas_operator.reconcile.group.group_state import (
    Finding,
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
from barnabas_operator.reconcile.group.progress_watch import ProgressWatch
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.spec import SpecError
from barnabas_operator.work.bounded import for_each
from barnabas_operator.work.key import Key
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
    discovery: Discovery
    ledger: OperationLedger


class GroupReconciler:
    """ConsumerGroups of all clusters; one cluster in each call."""

    def __init__(
        self,
        api: KubernetesApi,
        admins: AdminPool,
        settings: OperatorSettings,
        clock: Clock,
        *,
        make_gateway: MakeGateway = KafkaGroups,
    ) -> None:
        self._api = api
        self._admins = admins
        self._settings = settings
        self._clock = clock
        self.events = Events(api)
        self._make_gateway = make_gateway
        self._clusters: dict[tuple[str, str], _Cluster] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Look after the groups of a Broker; the seconds until that is wanted again.

        Raises: what went wrong with a resource, after all others were looked after;
        KubernetesError, BarnabasError.
        """
        place = key.namespace, key.name
        claims = claims_on(place, await self._all(CONSUMER_GROUP), await self._all(BROKER))
        for misfit in claims.misfits:
            await self._write_invalid(misfit.manifest, misfit.reason, misfit.message)
        specs = await self._specs(claims)
        broker = claims.broker
        if broker is None or not (specs or glob_of(broker)):
            self._clusters.pop(place, None)
            return None
        return await self._pass(key, broker, specs)

    async def _pass(
        self, key: Key, broker: Object, specs: Sequence[tuple[Object, GroupSpec]]
    ) -> float:
        place = key.namespace, key.name
        in_charge = owners([spec for _, spec in specs])
        questions = [
            question_of(spec, read_operations(manifest.get("status")))
            for manifest, spec in specs
            if in_charge[spec.group_id] is spec
        ]
        try:
            async with self._admins.using(*place) as admin:
                cluster = self._cluster(place, admin, broker)
                await cluster.ledger.load()
                await self._discover(cluster, broker, specs)
                observed = await cluster.gateway.observe(questions)
        except BarnabasError as error:
            if self._admins.unreachable_seconds(*place) >= self._settings.unreachable_seconds:
                await self._write_unreachable([manifest for manifest, _ in specs], str(error))
            raise
        cluster.watch.forget_others(in_charge)
        resources = [_Resource(self, key, manifest, spec) for manifest, spec in specs]
        failures: list[Exception] = []

        async def carry_on_with(resource: _Resource) -> None:
            try:
                await resource.carry_on(cluster, observed, in_charge[resource.spec.group_id])
            except NotFoundError:
                return  # the resource was deleted meanwhile
            except (KubernetesError, BarnabasError) as error:
                logger.warning("ConsumerGroup %s: %s", resource.spec.resource, error)
                failures.append(error)

        await for_each(resources, carry_on_with)
        if failures:
            raise failures[0]
        is_waiting = any(resource.is_waiting for resource in resources)
        recheck_seconds = WAITING_RECHECK_SECONDS if is_waiting else RECHECK_SECONDS
        return min(recheck_seconds, self._settings.resync_seconds)

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
            place = namespace_of(manifest), name_of(manifest)
            with suppress(ConflictError):  # it is another object by now
                await self._api.delete(CONSUMER_GROUP, *place, uid=uid_of(manifest))
        for manifest in plan.made:
            with suppress(ConflictError):  # one of its name exists
                await self._api.create(manifest)

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)

    def _cluster(self, place: tuple[str, str], admin: Admin, broker: Object) -> _Cluster:
        known = self._clusters.get(place)
        if known is None or known.admin is not admin:
            known = _Cluster(
                admin,
                self._make_gateway(admin),
                ProgressWatch() if known is None else known.watch,
                Discovery() if known is None else known.discovery,
                OperationLedger(self._api, broker),
            )
            self._clusters[place] = known
        return known

    async def _all(self, kind: Kind) -> list[Object]:
        """All objects of a kind in the namespaces that are watched."""
        if self._settings.is_clusterwide:
            return await self._api.list(kind)
        found = []
        for namespace in self._settings.namespaces:
            found += await self._api.list(kind, namespace=namespace)
        return found

    async def _specs(self, claims: Claims) -> list[tuple[Object, GroupSpec]]:
        """What the resources ask for, oldest first; those that cannot be meant are told so."""
        specs = []
        for manifest in claims.manifests:
            try:
                specs.append((manifest, GroupSpec.from_manifest(manifest)))
            except SpecError as error:
                await self._write_invalid(manifest, "InvalidSpec", str(error))
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
            return  # the resource was deleted meanwhile

    async def _write(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        """The object as it is now. Raises: ConflictError, NotFoundError, KubernetesError."""
        return await write_status(self._api, manifest, status) or manifest


class _Resource:
    """One ConsumerGroup during a pass: its manifest follows the writes."""

    def __init__(
        self, reconciler: GroupReconciler, key: Key, manifest: Object, spec: GroupSpec
    ) -> None:
        self._reconciler = reconciler
        self._broker = f"{key.namespace}/{key.name}"
        self._manifest = manifest
        self.spec = spec
        self._stuck: frozenset[TopicPartition] = frozenset()
        self._told = _told(read_operations(manifest.get("status")))
        self.is_waiting = False

    async def carry_on(self, cluster: _Cluster, observed: ObservedGroups, owner: GroupSpec) -> None:
        """Carry out what is asked for, and write what has become of the group."""
        group = observed.groups[self.spec.group_id]
        if group.is_known:
            now_ms = self._reconciler._clock.monotonic_ms()
            told = _told_stuck(self._manifest)
            self._stuck = cluster.watch.stuck(group, observed, now_ms, told)
        recorded = read_operations(self._manifest.get("status"))

        async def record(
            operations: Operations, findings: Sequence[Finding], seen: ObservedGroups
        ) -> None:
            await self._record(operations, findings, seen)
            await cluster.ledger.note(self.spec.group_id, operations)

        await carry_on(
            self.spec,
            replace(recorded, done_before=cluster.ledger.of(self.spec.group_id)),
            observed,
            cluster.gateway,
            record,
            owner=owner,
        )

    async def _record(
        self, operations: Operations, findings: Sequence[Finding], observed: ObservedGroups
    ) -> None:
        going_on = (operations.reset, operations.undo, operations.deletion)
        self.is_waiting = any(
            operation is not None and operation.phase in (Phase.WAITING, Phase.RUNNING)
            for operation in going_on
        )
        status = group_status(
            self._manifest,
            self.spec,
            self._broker,
            operations,
            findings,
            observed,
            stuck=self._stuck,
            now=self._reconciler._now,
        )
        self._manifest = await self._reconciler._write(self._manifest, status)
        now = _told(operations)
        for name, (id_, phase, message) in now.items():
            before = self._told.get(name)
            if phase in _EVENTFUL and (before is None or before[:2] != (id_, phase)):
                await self._reconciler.events.tell(
                    self._manifest,
                    f"{name}{phase}",
                    f"{name.lower()} '{id_}': {message}",
                    type_="Warning" if phase in (Phase.REFUSED, Phase.FAILED) else "Normal",
                )
        self._told = now


def _told(operations: Operations) -> dict[str, tuple[str, Phase, str]]:
    """By operation, what an event would say of it."""
    named = {
        "Reset": operations.reset,
        "Undo": operations.undo,
        "Delete": operations.deletion,
    }
    return {
        name: (one.id, one.phase, one.message or one.request)
        for name, one in named.items()
        if one is not None
    }


def _told_stuck(manifest: Mapping[str, Any]) -> set[TopicPartition]:
    rows = (manifest.get("status") or {}).get("partitions") or ()
    return {TopicPartition(row["topic"], row["partition"]) for row in rows if row.get("stuck")}
