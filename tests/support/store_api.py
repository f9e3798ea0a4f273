"""`KubernetesApi` straight on the fake store: no network, so it runs in virtual time, too."""

from builtins import list as List
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from barnabas_operator.kubernetes.api import (
    FIELD_MANAGER,
    ConflictError,
    KubernetesError,
    NotFoundError,
    Object,
    UnavailableError,
)
from barnabas_operator.kubernetes.kinds import Kind, kind_of
from tests.support.fake_kubernetes_store import FakeStore, Refused, merge_patched


class StoreApi:
    """Faults are taken one for each call of their verb, before or after it is carried out."""

    def __init__(self, store: FakeStore | None = None) -> None:
        self.store = store or FakeStore()
        self.is_away = False
        self.refused: dict[str, List[KubernetesError]] = {}
        self.lost_replies: set[str] = set()
        self.calls: List[str] = []

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        try:
            return self._do("get", lambda: self.store.get(kind, namespace or "", name))
        except NotFoundError:
            return None

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> List[Object]:
        assert not label_selector, "the store is asked without the server that knows selectors"
        return [deepcopy(one) for one in self.store.list(kind, namespace or "", lambda one: True)]

    async def create(self, manifest: Object) -> Object:
        kind, namespace, _ = _place(manifest)
        return self._do("create", lambda: self.store.create(kind, namespace, manifest))

    async def apply(self, manifest: Object) -> Object:
        kind, namespace, name = _place(manifest)
        return self._do(
            "apply", lambda: self.store.apply(kind, namespace, name, FIELD_MANAGER, manifest)
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
        body = dict(patch)
        if uid is not None:
            body["metadata"] = {**body.get("metadata", {}), "uid": uid}
        return self._do(
            "patch",
            lambda: self.store.update(
                kind, namespace or "", name, lambda old: merge_patched(old, body)
            ),
        )

    async def patch_status(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        kind, namespace, name = _place(manifest)
        version = {"resourceVersion": manifest["metadata"]["resourceVersion"]}
        body = {"metadata": version, "status": dict(status)}
        return self._do(
            "patch_status",
            lambda: self.store.update(
                kind, namespace, name, lambda old: merge_patched(old, body), is_status=True
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
            self._do("delete", lambda: self.store.delete(kind, namespace or "", name, uid))
        except NotFoundError:
            return False
        return True

    def _do(self, verb: str, action: Any) -> Object:
        self.calls.append(verb)
        if self.is_away:
            raise UnavailableError("away")
        if self.refused.get(verb):
            raise self.refused[verb].pop(0)
        try:
            done: Object = deepcopy(action())
        except Refused as refused:
            kinds = {404: NotFoundError, 409: ConflictError}
            raise kinds.get(refused.code, KubernetesError)(str(refused)) from refused
        if verb in self.lost_replies:
            self.lost_replies.discard(verb)
            raise UnavailableError("the reply was lost")
        return done


def _place(manifest: Object) -> tuple[Kind, str, str]:
    metadata = manifest["metadata"]
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    return kind, metadata.get("namespace", ""), metadata["name"]
