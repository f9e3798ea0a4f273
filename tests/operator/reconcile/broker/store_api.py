"""`KubernetesApi` straight on the objects of the fake API server, without HTTP; it may fall silent.

A walk that kills the operator at any of its writes sets `writes_left`: the next write after so many
raises `Killed`, before or after it was done.
"""

from collections.abc import Mapping
from typing import Any

from barnabas_operator.kubernetes.api import ConflictError, InvalidError, NotFoundError, Object
from barnabas_operator.kubernetes.kinds import EVENT, Kind, kind_of
from tests.support.fake_kubernetes_store import (
    FakeStore,
    Refused,
    copied,
    has_fields,
    merge_patched,
)

_ERRORS = {404: NotFoundError, 409: ConflictError, 422: InvalidError, 400: InvalidError}


class Killed(Exception):
    """The operator died here."""


class StoreApi:
    """Reads and writes; keeps count of what was written."""

    def __init__(self, store: FakeStore, *, copies: bool = True) -> None:
        """Without `copies` what is read is the store's own, and nobody may change it."""
        self.store = store
        self._copied = copied if copies else lambda found: found
        self.writes: list[str] = []
        self.writes_left: int | None = None
        self.is_done_before_death = False

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        try:
            return self._copied(self.store.get(kind, namespace or "", name))
        except Refused:
            return None

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Object]:
        key, _, value = label_selector.partition("=")

        def matches(one: Object) -> bool:
            labels = one["metadata"].get("labels") or {}
            return (not key or labels.get(key) == value) and has_fields(one, field_selector)

        try:
            return self._copied(self.store.list(kind, namespace or "", matches))
        except Refused as refused:
            raise _ERRORS[refused.code](str(refused), code=refused.code) from refused

    async def create(self, manifest: Object) -> Object:
        kind, namespace, name = _place(manifest)
        if kind is not EVENT:
            return self._write(
                f"create {kind.kind} {name}", lambda: self.store.create(kind, namespace, manifest)
            )
        try:
            return copied(self.store.create(kind, namespace, manifest))
        except Refused as refused:
            raise _ERRORS[refused.code](str(refused), code=refused.code) from refused

    async def apply(self, manifest: Object) -> Object:
        kind, namespace, name = _place(manifest)
        return self._write(
            f"apply {kind.kind} {name}",
            lambda: self.store.apply(kind, namespace, name, "barnabas-operator", manifest),
        )

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any],
        *,
        uid: str | None = None,
    ) -> Object:
        whole = merge_patched(dict(patch), {"metadata": {"uid": uid}} if uid else {})
        return self._write(
            f"patch {kind.kind} {name}",
            lambda: self.store.update(
                kind, namespace or "", name, lambda old: merge_patched(old, whole)
            ),
        )

    async def patch_status(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        kind, namespace, name = _place(manifest)
        version = manifest["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "status": dict(status)}
        return self._write(
            f"status {kind.kind} {name}",
            lambda: self.store.update(
                kind, namespace, name, lambda old: merge_patched(old, patch), is_status=True
            ),
        )

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        try:
            self._write(
                f"delete {kind.kind} {name}{_within(grace_seconds)}",
                lambda: self.store.delete(kind, namespace or "", name, uid),
            )
        except NotFoundError:
            return False
        return True

    def _write(self, what: str, do: Any) -> Object:
        if self.writes_left == 0 and not self.is_done_before_death:
            raise Killed(what)
        try:
            done: Object = self._copied(do())
        except Refused as refused:
            raise _ERRORS[refused.code](str(refused), code=refused.code) from refused
        self.writes.append(what)
        if self.writes_left == 0:
            raise Killed(what)
        if self.writes_left is not None:
            self.writes_left -= 1
        return done


def _within(grace_seconds: int | None) -> str:
    return "" if grace_seconds is None else f" within {grace_seconds} s"


def _place(manifest: Object) -> tuple[Kind, str, str]:
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    metadata = manifest["metadata"]
    return kind, metadata.get("namespace", ""), metadata["name"]
