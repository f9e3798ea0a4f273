"""ConsumerGroups that the operator makes by itself, so that `kubectl get bg` shows all groups.

Pure but for its memory of when groups went; the time is an argument.

Opt-in: the annotation `barnabas.dev/discover-groups` of a Broker has a glob of group ids. What is
made is only to be looked at, belongs to the Broker, and goes when its group has been gone for a
while, when the glob does not want it any more, or when somebody declares the group.

Invariants: resources that people made are never touched; there are never more than GROUPS_MAX.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from barnabas_operator.group_spec import DISCOVERED_LABEL, GroupSpec
from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.kinds import CONSUMER_GROUP
from barnabas_operator.kubernetes.objects import (
    BROKER_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    annotations_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)

DISCOVER_GROUPS_ANNOTATION = "barnabas.dev/discover-groups"
GROUPS_MAX = 100
# Consumers that are started anew take a moment, and their object should not come and go.
GONE_AFTER_MS = 600_000
_NAME_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryPlan:
    """Objects to make, and objects to delete."""

    made: tuple[Object, ...] = ()
    deleted: tuple[Object, ...] = ()


def glob_of(broker: Mapping[str, Any]) -> str:
    """Which groups are to be shown; empty for none."""
    return annotations_of(broker).get(DISCOVER_GROUPS_ANNOTATION, "").strip()


class GroupDiscovery:
    """What was seen of the groups of one cluster: for how long those with an object are gone."""

    def __init__(self) -> None:
        self._gone_since_ms: dict[str, int] = {}

    def plan(
        self,
        broker: Object,
        group_ids: Iterable[str],
        specs: Sequence[tuple[Object, GroupSpec]],
        now_ms: int,
    ) -> DiscoveryPlan:
        """What to make and delete; `specs` are all resources of the cluster."""
        glob = glob_of(broker)
        declared = {spec.group_id for _, spec in specs if not spec.is_discovered}
        existing = set(group_ids)
        wanted = {one for one in existing if glob and fnmatchcase(one, glob)} - declared
        deleted = []
        shown: set[str] = set()
        for manifest, spec in specs:
            if not spec.is_discovered:
                continue
            if spec.group_id in existing:
                self._gone_since_ms.pop(spec.group_id, None)
            is_wanted = bool(glob) and fnmatchcase(spec.group_id, glob)
            if not is_wanted or spec.group_id in declared or spec.group_id in shown:
                deleted.append(manifest)
            elif spec.group_id not in existing and self._is_gone_long(spec.group_id, now_ms):
                del self._gone_since_ms[spec.group_id]
                deleted.append(manifest)
            else:
                shown.add(spec.group_id)
        room = max(GROUPS_MAX - len(shown), 0)
        return DiscoveryPlan(
            made=tuple(_manifest(broker, one) for one in sorted(wanted - shown)[:room]),
            deleted=tuple(deleted),
        )

    def _is_gone_long(self, group_id: str, now_ms: int) -> bool:
        since_ms = self._gone_since_ms.setdefault(group_id, now_ms)
        return now_ms - since_ms >= GONE_AFTER_MS


def _manifest(broker: Object, group_id: str) -> Object:
    return {
        "apiVersion": CONSUMER_GROUP.api_version,
        "kind": CONSUMER_GROUP.kind,
        "metadata": {
            "namespace": namespace_of(broker),
            "name": object_name(name_of(broker), group_id),
            "labels": {
                DISCOVERED_LABEL: "true",
                MANAGED_BY_LABEL: MANAGED_BY,
                BROKER_LABEL: name_of(broker),
            },
            "ownerReferences": [owner_reference(broker, is_controller=False)]
            if uid_of(broker)
            else [],
        },
        "spec": {"brokerRef": {"name": name_of(broker)}, "groupId": group_id},
    }


def object_name(broker: str, group_id: str) -> str:
    """A name that an object may have; no two groups have the same."""
    plain = re.sub(r"[^a-z0-9]+", "-", group_id.lower()).strip("-")[:_NAME_CHARACTERS_MAX]
    digest = hashlib.sha256(f"{broker}/{group_id}".encode()).hexdigest()[:8]
    return f"{plain.strip('-')}-{digest}" if plain else digest
