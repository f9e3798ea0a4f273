"""The Topics of one pass at the API server: changes their finalizers, writes their statuses.

Not here: finding them (`portions`). Invariant: a resource that has changed or gone since it was
read is left to the next pass; any other failure is raised after all others were done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
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
from barnabas_operator.reconcile.topic_finalizer import (
    FINALIZER,
    FinalizerChange,
    FinalizerRemoval,
    finalizer_change,
    finalizer_patch,
)
from barnabas_operator.spec import SpecError, TopicSpec
from barnabas_operator.work.bounded import for_each
from barnabas_operator.work.watch_cache import WatchCache

T = TypeVar("T")


@dataclass(slots=True)
class TopicResource:
    """A Topic during one pass; `manifest` is the newest version that is known.

    Without a spec it is invalid, and `problem` says why.
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
    """Writes Topics, for one pass; what was written is in the cache at once.

    By name: `conflicted` are those that were others than they were read. Mostly the change that one
    met has asked for the next pass, but not where a server says so for another reason. With
    `unfinished` something else went wrong, and `written` are others than before.
    """

    api: KubernetesApi
    events: Events
    cache: WatchCache
    conflicted: set[str] = field(default_factory=set, init=False)
    unfinished: set[str] = field(default_factory=set, init=False)
    written: set[str] = field(default_factory=set, init=False)
    _failure: KubernetesError | None = field(default=None, init=False)

    async def going_namespaces(self, resources: Iterable[TopicResource]) -> frozenset[str]:
        """Those of the namespaces of resources that wait for us which are being deleted."""
        asked = {namespace_of(resource.manifest) for resource in resources if resource.waits_for_us}
        going = set()
        for name in sorted(asked):
            namespace = await self.api.get(NAMESPACE, None, name)
            if namespace is None or is_going(namespace):
                going.add(name)
        return frozenset(going)

    async def change_finalizers(self, resources: Iterable[TopicResource]) -> None:
        """Add our finalizer where the deletion policy wants it, and remove it elsewhere."""

        async def change_one(resource: TopicResource) -> None:
            if resource.spec is None:
                return
            change = finalizer_change(resource.manifest, resource.spec)
            if change is not FinalizerChange.NONE:
                await self._patch(resource, finalizer_patch(resource.manifest, change))

        await self._each(resources, change_one)

    async def remove_finalizers(
        self, removals: Mapping[str, FinalizerRemoval], all_: list[TopicResource]
    ) -> None:
        """Remove our finalizer from resources that are being deleted; a reason is an event."""

        async def remove_one(resource: TopicResource) -> None:
            removal = removals.get(resource.name)
            if removal is None or not resource.waits_for_us:
                return
            if removal.reason:
                await self.events.emit(resource.manifest, removal.reason, removal.message)
            await self._patch(resource, finalizer_patch(resource.manifest, FinalizerChange.REMOVE))

        await self._each(all_, remove_one)

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
                self._wrote(resource, written)

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
        written = await self.api.patch(
            TOPIC, metadata["namespace"], metadata["name"], patch, uid=metadata["uid"]
        )
        self._wrote(resource, written)

    def _wrote(self, resource: TopicResource, manifest: Object) -> None:
        resource.manifest = manifest
        self.cache.wrote(manifest)
        self.written.add(resource.name)

    async def _each(
        self,
        resources: Iterable[TopicResource],
        action: Callable[[TopicResource], Awaitable[None]],
    ) -> None:
        async def attempt(resource: TopicResource) -> None:
            try:
                await action(resource)
            except NotFoundError:
                self.cache.missed(resource.manifest)
            except ConflictError:
                self.conflicted.add(resource.name)
            except KubernetesError as error:
                self.unfinished.add(resource.name)
                self.failed(error)

        await for_each(resources, attempt)


def read_topic(manifest: Object) -> TopicResource:
    """What a manifest asks for, or what is wrong with it."""
    try:
        return TopicResource(manifest, spec=TopicSpec.from_manifest(manifest))
    except SpecError as error:
        return TopicResource(manifest, problem=str(error))


def topic_of(manifest: Object) -> str:
    """The topic that a Topic is about, whether or not it is valid."""
    return str((manifest.get("spec") or {}).get("topicName") or name_of(manifest))
