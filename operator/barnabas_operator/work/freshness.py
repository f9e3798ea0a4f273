"""Tells whether watching still hears of changes, by comparing it with what lists say.

A watch that has died without a word is the one failure that nothing else shows: the process lives
and nothing happens. Reconciling lists its resources anyway; an object that a list shows in a
version that watching has never brought is lag, and lag that lasts is a dead watch.
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

    def heard(self, kind: Kind, manifest: Mapping[str, Any], *, is_deleted: bool = False) -> None:
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
            if self._namespaces and namespace_of(manifest) not in self._namespaces:
                # A Topic may name a Broker elsewhere, which is read and not watched.
                continue
            place = kind, uid_of(manifest)
            self._namespace_of[place] = namespace_of(manifest)
            if versions.get(uid_of(manifest)) == resource_version_of(manifest):
                self._behind_since.pop(place, None)
            else:
                self._behind_since.setdefault(place, self._now())
        if not label_selector:
            self._forget_missing(kind, {uid_of(one) for one in manifests}, namespace)

    def _forget_missing(self, kind: Kind, uids: Collection[str], namespace: str | None) -> None:
        gone = [
            place
            for place in self._behind_since
            if place[0] == kind
            and place[1] not in uids
            and namespace in (None, self._namespace_of.get(place))
        ]
        for place in gone:
            del self._behind_since[place]
        behind = self._behind_since
        self._namespace_of = {
            place: where for place, where in self._namespace_of.items() if place in behind
        }

    @property
    def behind_seconds(self) -> float:
        """For how long watching has lacked something that a list has shown."""
        return max((self._now() - since for since in self._behind_since.values()), default=0.0)
