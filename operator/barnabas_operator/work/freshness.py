"""Detects watches that have died: compares the versions that events bring with those of lists.

A watch that has died without a word is the one failure that nothing else shows: the process lives
and nothing happens. The cache that passes look into (`watch_cache`) lists its kinds now and then;
an object that a list shows in a version that watching has never brought is lag, and lag that lasts
is a dead watch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from barnabas_operator.kubernetes.kinds import Kind
from barnabas_operator.kubernetes.objects import namespace_of, resource_version_of, uid_of


class WatchFreshness:
    """Versions that watching has brought, and since when lists know better."""

    def __init__(
        self,
        kinds: Iterable[Kind],
        now: Callable[[], float],
        namespaces: Collection[str] = (),
    ) -> None:
        """What is watched, of all namespaces if none are named; `now` is monotonic, in seconds."""
        self._now = now
        self._namespaces = frozenset(namespaces)
        self._versions: dict[Kind, dict[str, str]] = {kind: {} for kind in kinds}
        self._behind_since: dict[tuple[Kind, str], float] = {}
        self._namespace_of: dict[tuple[Kind, str], str] = {}

    def on_event(
        self, kind: Kind, manifest: Mapping[str, Any], *, is_deleted: bool = False
    ) -> None:
        """Note an event of the watch, which shows that it lives."""
        versions = self._versions.get(kind)
        if versions is None:
            return
        uid = uid_of(manifest)
        self._behind_since.pop((kind, uid), None)
        if is_deleted:
            versions.pop(uid, None)
        else:
            versions[uid] = resource_version_of(manifest)

    def listed(
        self,
        kind: Kind,
        manifests: Collection[Mapping[str, Any]],
        namespace: str | None = None,
        label_selector: str = "",
    ) -> None:
        """Compare with a list of these objects, of one namespace if it is named.

        What a list lacks that must have it is gone: its DELETED may have come before the list in
        which it still was.
        """
        versions = self._versions.get(kind)
        if versions is None:
            return
        for manifest in manifests:
            uid = uid_of(manifest)
            watched = kind, uid
            if versions.get(uid) == resource_version_of(manifest):
                # As mostly: lists are long, and this runs at one go.
                if watched in self._behind_since:
                    del self._behind_since[watched]
                continue
            if self._namespaces and namespace_of(manifest) not in self._namespaces:
                # A Topic may name a Broker elsewhere, which is read and not watched.
                continue
            self._namespace_of[watched] = namespace_of(manifest)
            self._behind_since.setdefault(watched, self._now())
        if not self._behind_since:
            self._namespace_of.clear()
        elif not label_selector:
            self._forget_missing(kind, {uid_of(one) for one in manifests}, namespace)

    def _forget_missing(self, kind: Kind, uids: Collection[str], namespace: str | None) -> None:
        gone = [
            watched
            for watched in self._behind_since
            if watched[0] == kind
            and watched[1] not in uids
            and namespace in (None, self._namespace_of.get(watched))
        ]
        for watched in gone:
            del self._behind_since[watched]
        behind = self._behind_since
        self._namespace_of = {
            watched: where for watched, where in self._namespace_of.items() if watched in behind
        }

    @property
    def behind_seconds(self) -> float:
        """For how long watching has lacked something that a list has shown."""
        return max((self._now() - since for since in self._behind_since.values()), default=0.0)
