"""Which operations were begun for the groups of a cluster, kept in a ConfigMap beside its Broker.

A status goes with its resource. Whoever deletes a ConsumerGroup and applies it again, or declares
another one for its group, does not ask for the same reset a second time. Nor does who deletes the
Broker and makes it again on the same volumes: like those, and the arbiter's Lease, the ConfigMap is
owned by nobody and stays. It names the cluster whose data it is about.

It has room for some thousands of groups. Each namespace has an entry of its own, and where there is
no more room the oldest groups of the namespace with the most text go: whoever declares thousands of
ConsumerGroups crowds nobody else's out.

Not here: the steps of an operation, which only the status has.

Invariants: an operation is noted after its status says that it is running, and before anything of
it is done. Only the replica that leads writes here, so what was read once stays true.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from barnabas_operator.kubernetes.api import KubernetesApi, Object
from barnabas_operator.kubernetes.kinds import CONFIG_MAP
from barnabas_operator.kubernetes.objects import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    annotations_of,
    name_of,
    namespace_of,
)
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.group.group_state import Operation, Operations, Phase

# A ConfigMap has room for 1 MiB.
BYTES_MAX = 512 * 1024
_KEY_START, _KEY_END = "operations.", ".json"
CLUSTER_ID_ANNOTATION = "barnabas.dev/cluster-id"

_Groups = dict[str, dict[str, str]]  # of one namespace, the one that changed last comes last
Begun = Mapping[str, str]
"""What was asked for by `reset/ID` or `delete/ID`; empty where that is not known any more."""


def begun(operations: Operations) -> dict[str, str]:
    """What must not be done again, by what a status says."""
    found = dict.fromkeys(operations.completed, "")
    for kind, operation in _of_groups(operations):
        key = f"{kind}/{operation.id}"
        if operation.phase is Phase.RUNNING or operation.has_run or key in found:
            found[key] = operation.what
    return found


def held_back(operations: Operations) -> frozenset[str]:
    """What was taken back before anything of it was done, or has not begun."""
    return frozenset(
        f"{kind}/{operation.id}" for kind, operation in _of_groups(operations)
    ) - frozenset(begun(operations))


class OperationLedger:
    """The operations of one cluster."""

    def __init__(self, api: KubernetesApi, broker: Object) -> None:
        self._api = api
        self._namespace = namespace_of(broker)
        self._name = names.group_operations(name_of(broker))
        self._by_namespace: dict[str, _Groups] | None = None
        self._cluster_id = str((broker.get("status") or {}).get("clusterId") or "")
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read it, the first time. Raises: KubernetesError."""
        if self._by_namespace is not None:
            return
        found = await self._api.get(CONFIG_MAP, self._namespace, self._name)
        known_id = annotations_of(found or {}).get(CLUSTER_ID_ANNOTATION, "")
        is_of_another = bool(known_id and self._cluster_id and known_id != self._cluster_id)
        by_namespace = {} if is_of_another else _read(found)
        self._cluster_id = self._cluster_id or known_id
        if found is not None and found["metadata"].get("ownerReferences"):
            # As earlier releases made it: it would go with the Broker.
            await self._api.apply(self._manifest(by_namespace))
        self._by_namespace = by_namespace

    def of(self, group_id: str) -> Begun:
        """What was begun for a group."""
        for groups in (self._by_namespace or {}).values():
            if group_id in groups:
                return groups[group_id]
        return {}

    async def note(self, namespace: str, group_id: str, operations: Operations) -> None:
        """Note what the status of a ConsumerGroup says, if that is not known yet.

        Raises: KubernetesError.
        """
        async with self._lock:
            await self.load()
            known = self.of(group_id)
            kept = {key: what for key, what in known.items() if key not in held_back(operations)}
            news = {key: what for key, what in begun(operations).items() if what or key not in kept}
            after = {**kept, **news}
            if after == known:
                return
            by_namespace = {
                one: {other: keys for other, keys in groups.items() if other != group_id}
                for one, groups in (self._by_namespace or {}).items()
            }
            if after:
                by_namespace.setdefault(namespace, {})[group_id] = after
            by_namespace = _bounded({one: groups for one, groups in by_namespace.items() if groups})
            await self._api.apply(self._manifest(by_namespace))
            self._by_namespace = by_namespace

    def _manifest(self, by_namespace: Mapping[str, _Groups]) -> Object:
        return {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": {
                "namespace": self._namespace,
                "name": self._name,
                "labels": {MANAGED_BY_LABEL: MANAGED_BY},
                "annotations": {CLUSTER_ID_ANNOTATION: self._cluster_id},
            },
            "data": {
                f"{_KEY_START}{namespace}{_KEY_END}": _text(groups)
                for namespace, groups in sorted(by_namespace.items())
            },
        }


def _of_groups(operations: Operations) -> tuple[tuple[str, Operation], ...]:
    named = (("reset", operations.reset), ("delete", operations.deletion))
    return tuple((kind, operation) for kind, operation in named if operation is not None)


def _text(groups: _Groups) -> str:
    return json.dumps(groups, ensure_ascii=False, indent=1)


def _size(groups: _Groups) -> int:
    """How many bytes of text, two more where there is one group."""
    return len(_text(groups).encode())


def _bounded(by_namespace: dict[str, _Groups]) -> dict[str, _Groups]:
    sizes = {namespace: _size(groups) for namespace, groups in by_namespace.items()}
    while sum(sizes.values()) > BYTES_MAX:
        largest = max(sizes, key=lambda one: (sizes[one], one))
        groups = by_namespace[largest]
        if len(groups) == 1:
            break
        oldest = next(iter(groups))
        sizes[largest] -= _size({oldest: groups.pop(oldest)}) - 2
    return by_namespace


def _read(manifest: Mapping[str, Any] | None) -> dict[str, _Groups]:
    data = (manifest or {}).get("data") or {}
    return {
        key.removeprefix(_KEY_START).removesuffix(_KEY_END): _read_groups(str(text))
        for key, text in data.items()
        if key.startswith(_KEY_START) and key.endswith(_KEY_END)
    }


def _read_groups(text: str) -> _Groups:
    """What somebody else wrote there counts as nothing: it is not ours to guess at."""
    try:
        return {
            str(group): {str(key): str(what) for key, what in keys.items()}
            for group, keys in json.loads(text).items()
        }
    except (ValueError, AttributeError):
        return {}
