"""The cache of watched resources, in which passes find them without a request.

Passes look here for the Topics, ConsumerGroups and Brokers of a cluster, so that a pass costs no
list of all that there are. The cache is fed by watching, by the operator's own writes, and by a
list of each kind now and then, which repairs what watching has missed: kopf tells nothing of what
was deleted while a watch had to begin anew.

Not here: how far watching is behind. `work/freshness.py` tells that, from the same events and from
the lists that are made here.

Invariants: of an object only the newest version is kept, whichever way it came, and one that has
gone does not come back; manifests that are handed out are not changed by anybody. What is here may
be old all the same: a status is written only onto the very version that it was made from, and what
cannot be taken back is done only after a new list or a new look at the object.

Source: the API server's versions are integers that rise (KEP-5504).
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas_operator.kubernetes.api import KubernetesApi, Object
from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP, TOPIC, USER, Kind, kind_of
from barnabas_operator.kubernetes.objects import (
    BROKER_LABEL,
    finalizers_of,
    is_going,
    labels_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from barnabas_operator.reconcile.broker_reference import NamespacedName, broker_of
from barnabas_operator.work.bounded import in_portions

CACHED = (TOPIC, CONSUMER_GROUP, USER, BROKER)
# What has gone must not be brought back by an event or an answer that was under way; so many of
# those there never are at once.
_GONE_REMEMBERED_MAX = 10_000
_COMPARED_AT_ONCE = 1000


@dataclass(slots=True)
class _Objects:
    """All objects of one kind by uid, and by the Broker that they name, `""` for none."""

    by_uid: dict[str, Object] = field(default_factory=dict)
    by_broker: defaultdict[NamespacedName, dict[str, Object]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    gone: OrderedDict[str, None] = field(default_factory=OrderedDict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    lists_begun: int = 0
    listed_at: float | None = None

    def put(self, manifest: Object) -> None:
        """Keep it, unless a newer version is known or it has gone."""
        uid = uid_of(manifest)
        known = self.by_uid.get(uid)
        if uid in self.gone or (known is not None and not _is_newer(manifest, known)):
            return
        if known is not None:
            self._remove_from_broker(known)
        kept = _without_managed_fields(manifest)
        self.by_uid[uid] = kept
        self.by_broker[_named_broker(kept)][uid] = kept

    def drop(self, uid: str) -> None:
        """Forget it for good."""
        self.gone[uid] = None
        if len(self.gone) > _GONE_REMEMBERED_MAX:
            self.gone.popitem(last=False)
        known = self.by_uid.pop(uid, None)
        if known is not None:
            self._remove_from_broker(known)

    def _remove_from_broker(self, manifest: Object) -> None:
        broker_name = _named_broker(manifest)
        there = self.by_broker[broker_name]
        there.pop(uid_of(manifest), None)
        if not there:
            del self.by_broker[broker_name]


class WatchCache:
    """The objects of the kinds in `CACHED`; for one event loop."""

    def __init__(
        self,
        api: KubernetesApi,
        now: Callable[[], float],
        *,
        namespaces: Collection[str] = (),
        list_seconds: float = 60,
    ) -> None:
        """`namespaces` are those that are watched, none for all; `now` is monotonic, in seconds.

        After `list_seconds` each kind is listed again.
        """
        self._api = api
        self._now = now
        self._namespaces = tuple(namespaces)
        self._list_seconds = list_seconds
        self._objects = {kind: _Objects() for kind in CACHED}
        self._changes: Counter[NamespacedName] = Counter()

    # ------------------------------------------------------------------ what feeds it

    def on_event(self, kind: Kind, manifest: Mapping[str, Any], *, is_deleted: bool) -> None:
        """Take an event of a watch."""
        broker = name_of(manifest) if kind is BROKER else labels_of(manifest).get(BROKER_LABEL)
        if broker and kind not in (TOPIC, CONSUMER_GROUP, USER):
            self._changes[namespace_of(manifest), broker] += 1
        objects = self._objects.get(kind)
        if objects is None:
            return
        if is_deleted:
            objects.drop(uid_of(manifest))
        else:
            # Lists leave out what all of their objects have in common.
            objects.put({"apiVersion": kind.api_version, "kind": kind.kind, **manifest})

    def wrote(self, manifest: Object) -> None:
        """Take an object as a write has left it."""
        objects = self._objects[kind_of(manifest["apiVersion"], manifest["kind"])]
        if is_going(manifest) and not finalizers_of(manifest):
            # It was the last finalizer: this is what was there before it went.
            objects.drop(uid_of(manifest))
        else:
            objects.put(manifest)

    def missed(self, manifest: Object) -> None:
        """Forget an object that a request did not find."""
        self._objects[kind_of(manifest["apiVersion"], manifest["kind"])].drop(uid_of(manifest))

    async def freshen(self, *kinds: Kind) -> None:
        """List the kinds that were never listed, or not for long. Raises: KubernetesError."""
        for kind in kinds:
            listed_at = self._objects[kind].listed_at
            if listed_at is None or self._now() - listed_at >= self._list_seconds:
                await self.relist(kind)

    async def relist(self, kind: Kind) -> None:
        """Know all objects of a kind as they were after this was called. Raises: KubernetesError.

        Whoever waits for the same meanwhile is content with the same list.
        """
        objects = self._objects[kind]
        begun = objects.lists_begun
        async with objects.lock:
            if objects.lists_begun > begun:
                return
            objects.lists_begun += 1
            versions: dict[str, str] = {}
            known_before = tuple(objects.by_uid.items())
            async for uid, one in in_portions(known_before, size=_COMPARED_AT_ONCE):
                versions[uid] = resource_version_of(one)
            listed: set[str] = set()
            for namespace in self._namespaces or (None,):
                found = await self._api.list(kind, namespace=namespace)
                async for one in in_portions(found):
                    listed.add(uid_of(one))
                    objects.put(one)
            async for uid, version in in_portions(versions.items(), size=_COMPARED_AT_ONCE):
                known = objects.by_uid.get(uid)
                # What has changed meanwhile was there after the list was made.
                if uid not in listed and known and resource_version_of(known) == version:
                    objects.drop(uid)
            objects.listed_at = self._now()

    # ------------------------------------------------------------------ what it tells

    def of_broker(
        self, kind: Kind, broker_name: NamespacedName, brokers: Collection[NamespacedName]
    ) -> list[Object]:
        """All objects that belong to a Broker, or with an empty name to none that is clear.

        `brokers` are those of its namespace.
        """
        by_broker = self._objects[kind].by_broker
        namespace, name = broker_name
        found = list(by_broker.get(broker_name, {}).values()) if name else []
        unnamed: Iterable[Object] = by_broker.get((namespace, ""), {}).values()
        if sum(where == namespace for where, _ in brokers) > 1:
            unnamed = [one for one in unnamed if broker_of(one, brokers) == broker_name]
        elif broker_of({"metadata": {"namespace": namespace}}, brokers) != broker_name:
            return found
        return [*found, *unnamed]

    async def brokers(self, namespace: str) -> list[Object]:
        """The Brokers of a namespace, from the API server where it is not watched.

        Raises: KubernetesError.
        """
        if self._namespaces and namespace not in self._namespaces:
            return await self._api.list(BROKER, namespace=namespace)
        found = self._objects[BROKER].by_uid.values()
        return [one for one in found if namespace_of(one) == namespace]

    def all_brokers(self) -> list[Object]:
        """The Brokers of all namespaces that are watched."""
        return list(self._objects[BROKER].by_uid.values())

    def changes_of(self, broker_name: NamespacedName) -> int:
        """How many changes of a Broker, its pods, volumes and StatefulSet were heard of."""
        return self._changes[broker_name]


def names_of(brokers: Iterable[Mapping[str, Any]]) -> list[NamespacedName]:
    """Namespaces and names."""
    return [(namespace_of(one), name_of(one)) for one in brokers]


def _named_broker(manifest: Mapping[str, Any]) -> NamespacedName:
    return broker_of(manifest, ())


def _is_newer(manifest: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    ours, theirs = resource_version_of(manifest), resource_version_of(known)
    if ours.isdecimal() and theirs.isdecimal():
        return int(ours) > int(theirs)
    return ours != theirs


def _without_managed_fields(manifest: Object) -> Object:
    """Who set which field is half of an object, and nobody here asks for it."""
    metadata = manifest.get("metadata") or {}
    if "managedFields" not in metadata:
        return manifest
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**manifest, "metadata": kept}
