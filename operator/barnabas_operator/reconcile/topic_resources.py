"""The Topics of one cluster at the API server: reading them, marking them, letting them go.

Invariant: a resource that has changed or gone since it was read is left to the next pass; any other
failure is raised after all others were done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from barnabas_operator.kubernetes.api import (
    ConflictError,
    KubernetesApi,
    KubernetesError,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import NAMESPACE, TOPIC
from barnabas_operator.kubernetes.objects import (
    finalizers_of,
    generation_of,
    is_going,
    name_of,
    namespace_of,
)
from barnabas_operator.kubernetes.status_write import write_status
from barnabas_operator.reconcile.broker_reference import Place, broker_of
from barnabas_operator.reconcile.topic_finalizer import (
    FINALIZER,
    Mark,
    Release,
    mark_of_living,
    patch_of,
)
from barnabas_operator.spec import SpecError, TopicSpec
from barnabas_operator.work.bounded import for_each

T = TypeVar("T")


@dataclass(slots=True)
class TopicResource:
    """A Topic during one pass; `manifest` is the newest version that is known.

    Without a spec it cannot be meant, and `problem` says why.
    """

    manifest: Object
    spec: TopicSpec | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """Namespace and name, as findings have it."""
        return f"{namespace_of(self.manifest)}/{name_of(self.manifest)}"

    @property
    def generation(self) -> int:
        """Which spec this is."""
        return generation_of(self.manifest)

    @property
    def old_status(self) -> Mapping[str, Any]:
        """What its status says so far."""
        found: Mapping[str, Any] = self.manifest.get("status") or {}
        return found

    @property
    def waits_for_us(self) -> bool:
        """Whether it is on its way out and our finalizer holds it."""
        return is_going(self.manifest) and FINALIZER in finalizers_of(self.manifest)


@dataclass(slots=True)
class TopicResources:
    """Reads and writes Topics, for one pass.

    `has_conflict` tells that one was another one than it was read. Mostly the change that it met
    has asked for the next pass, but not where a server says so for another reason.
    """

    api: KubernetesApi
    events: Events
    namespaces: Collection[str] = ()
    has_conflict: bool = field(default=False, init=False)
    _failure: KubernetesError | None = field(default=None, init=False)

    async def of_cluster(self, place: Place, brokers: Collection[Place]) -> list[TopicResource]:
        """All Topics that belong to a Broker, or with an empty name to none that is clear."""
        found: list[Object] = []
        for namespace in self.namespaces or (None,):
            found += await self.api.list(TOPIC, namespace=namespace)
        return [_read(one) for one in found if broker_of(one, brokers) == place]

    async def going_namespaces(self, resources: Iterable[TopicResource]) -> frozenset[str]:
        """Those of the namespaces of resources that wait for us which are being deleted."""
        asked = {namespace_of(one.manifest) for one in resources if one.waits_for_us}
        going = set()
        for name in sorted(asked):
            namespace = await self.api.get(NAMESPACE, None, name)
            if namespace is None or is_going(namespace):
                going.add(name)
        return frozenset(going)

    async def mark(self, resources: Iterable[TopicResource]) -> None:
        """Put our finalizer on those that want it, and take it off others."""

        async def mark_one(resource: TopicResource) -> None:
            if resource.spec is None:
                return
            mark = mark_of_living(resource.manifest, resource.spec)
            if mark is not Mark.LEAVE:
                await self._patch(resource, patch_of(resource.manifest, mark))

        await self._each(resources, mark_one)

    async def release(self, releases: Mapping[str, Release], all_: list[TopicResource]) -> None:
        """Let resources go that wait for us, with an event where there is something to say."""

        async def release_one(resource: TopicResource) -> None:
            release = releases.get(resource.name)
            if release is None or not resource.waits_for_us:
                return
            if release.reason:
                await self.events.tell(resource.manifest, release.reason, release.message)
            await self._patch(resource, patch_of(resource.manifest, Mark.TAKE_OFF))

        await self._each(all_, release_one)

    async def write(
        self, statuses: Mapping[str, Mapping[str, Any]], all_: list[TopicResource]
    ) -> None:
        """Write the statuses that differ."""

        async def write_one(resource: TopicResource) -> None:
            status = statuses.get(resource.name)
            if status is None:
                return
            written = await write_status(self.api, resource.manifest, status)
            if written is not None:
                resource.manifest = written

        await self._each(all_, write_one)

    def failed(self, error: KubernetesError) -> None:
        """Note what went wrong; the first of such errors is raised in the end."""
        self._failure = self._failure or error

    def raise_failure(self) -> None:
        """Raise what went wrong first, if anything did."""
        if self._failure is not None:
            raise self._failure

    async def attempt(self, action: Awaitable[T], otherwise: T) -> T:
        """What the action gives; where it fails, that is raised at the end and not now."""
        try:
            return await action
        except KubernetesError as error:
            self.failed(error)
            return otherwise

    async def _patch(self, resource: TopicResource, patch: Mapping[str, Any]) -> None:
        metadata = resource.manifest["metadata"]
        resource.manifest = await self.api.patch(
            TOPIC, metadata["namespace"], metadata["name"], patch, uid=metadata["uid"]
        )

    async def _each(
        self,
        resources: Iterable[TopicResource],
        action: Callable[[TopicResource], Awaitable[None]],
    ) -> None:
        async def attempt(resource: TopicResource) -> None:
            try:
                await action(resource)
            except NotFoundError:
                return
            except ConflictError:
                self.has_conflict = True
            except KubernetesError as error:
                self.failed(error)

        await for_each(resources, attempt)


def _read(manifest: Object) -> TopicResource:
    try:
        return TopicResource(manifest, spec=TopicSpec.from_manifest(manifest))
    except SpecError as error:
        return TopicResource(manifest, problem=str(error))
