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
        manifest: Object = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "namespace": spec.namespace,
                "name": spec.secret,
                "labels": {MANAGED_BY_LABEL: MANAGED_BY},
                "ownerReferences": [owner_reference(user)],
            },
            "data": data,
        }
        if annotations:
            manifest["metadata"]["annotations"] = dict(annotations)
        if kind is SECRET:
            manifest["type"] = "Opaque"
        await self._api.apply(manifest)

    async def remove_former(self, user: Object, spec: UserSpec, name: str | None) -> None:
        """Delete what had another name before, if it is ours. Raises: KubernetesError."""
        if name is None or name == spec.secret:
            return
        found = await self._read(spec, name)
        if found is None or not is_ours(found, user):
            return
        if kind_of_files(spec) is SECRET:
            await self._api.delete(SECRET, spec.namespace, name, uid=uid_of(found))
        else:
            await self._api.delete(CONFIG_MAP, spec.namespace, name, uid=uid_of(found))

    async def _read(self, spec: UserSpec, name: str) -> Object | None:
        if kind_of_files(spec) is SECRET:
            return await self._api.get(SECRET, spec.namespace, name)
        return await self._api.get(CONFIG_MAP, spec.namespace, name)


def kind_of_files(spec: UserSpec) -> Kind:
    """A Secret where anything in it is secret."""
    return SECRET if needs_secret(spec.authentication) else CONFIG_MAP
