"""The Secret or ConfigMap of a User: what it is to hold, and writing it only where it differs.

Invariants: what somebody else has made is never touched; nothing is written that already is so
(strimzi#8552 made a new password every few minutes); it belongs to the User and goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from barnabas_operator.kubernetes.api import KubernetesApi, Object
from barnabas_operator.kubernetes.kinds import CONFIG_MAP, SECRET, Kind
from barnabas_operator.kubernetes.objects import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    annotations_of,
    name_of,
    owner_reference,
    uid_of,
)
from barnabas_operator.reconcile.connection_secret import is_ours
from barnabas_operator.reconcile.user.connection_files import file_data, needs_secret
from barnabas_operator.user_spec import UserSpec


class NotOursError(Exception):
    """An object of the name that is wanted belongs to somebody else."""


class UserFiles:
    """Reads and writes them."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    async def find(self, user: Object, spec: UserSpec) -> Object | None:
        """What is there for a User. Raises: NotOursError; KubernetesError."""
        found = await self._read(spec, spec.secret)
        if found is not None and not is_ours(found, user):
            kind = kind_of_files(spec).kind
            raise NotOursError(f"{kind} {spec.secret} exists and was not made for this User")
        return found

    async def write(
        self,
        user: Object,
        spec: UserSpec,
        found: Object | None,
        files: Mapping[str, str],
        annotations: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Make it hold these files, no others, and these annotations. Raises: KubernetesError."""
        kind = kind_of_files(spec)
        data = file_data(files, is_secret=kind is SECRET)
        if (
            found is not None
            and (found.get("data") or {}) == data
            and annotations.items() <= annotations_of(found).items()
        ):
            return
        await self._apply(user, spec, data, annotations)

    async def copy(
        self, user: Object, spec: UserSpec, former: Object, annotations: Mapping[str, str]
    ) -> Object:
        """Make what a former one holds under the name that is wanted. Raises: KubernetesError."""
        return await self._apply(user, spec, former.get("data") or {}, annotations)

    async def _apply(
        self, user: Object, spec: UserSpec, data: Mapping[str, str], annotations: Mapping[str, str]
    ) -> Object:
        kind = kind_of_files(spec)
        manifest: Object = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "namespace": spec.namespace,
                "name": spec.secret,
                "labels": {MANAGED_BY_LABEL: MANAGED_BY},
                "ownerReferences": [owner_reference(user)],
            },
            "data": dict(data),
        }
        if annotations:
            manifest["metadata"]["annotations"] = dict(annotations)
        if kind is SECRET:
            manifest["type"] = "Opaque"
        return await self._api.apply(manifest)

    async def former(self, user: Object, spec: UserSpec) -> Object | None:
        """What has another name since the User was seen last, if it is ours.

        Raises: KubernetesError.
        """
        name = (user.get("status") or {}).get("secret")
        if name is None or name == spec.secret:
            return None
        found = await self._read(spec, name)
        return found if found is not None and is_ours(found, user) else None

    async def remove(self, spec: UserSpec, former: Object) -> None:
        """Delete what is not wanted any more. Raises: KubernetesError."""
        if kind_of_files(spec) is SECRET:
            await self._api.delete(SECRET, spec.namespace, name_of(former), uid=uid_of(former))
        else:
            await self._api.delete(CONFIG_MAP, spec.namespace, name_of(former), uid=uid_of(former))

    async def _read(self, spec: UserSpec, name: str) -> Object | None:
        if kind_of_files(spec) is SECRET:
            return await self._api.get(SECRET, spec.namespace, name)
        return await self._api.get(CONFIG_MAP, spec.namespace, name)


def kind_of_files(spec: UserSpec) -> Kind:
    """A Secret where anything in it is secret."""
    return SECRET if needs_secret(spec.authentication) else CONFIG_MAP
