"""What is to be done about volumes: growth, and disks that are lost. Pure.

Growing: each claim is asked for more where its storage class can expand; a claim that has more than
is wanted counts as grown. The claim template of a StatefulSet cannot change, so the StatefulSet is
deleted without its pods and made again with the new size; in between the pods run on.

A disk is lost when its volume is tied to a node that is gone. Its broker never starts again by
itself. With the annotation `barnabas.dev/replace-disk` naming that volume it gets an empty one; but
only if every partition of it has another replica in sync, because what only it had is gone then.

Invariant: a claim is deleted in that one case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from barnabas_operator.broker_spec import REPLACE_DISK_ANNOTATION, BrokerSpec, quantity_bytes
from barnabas_operator.reconcile.broker.isr_gate import named
from barnabas_operator.reconcile.broker.observed import Observed, VolumeView


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandClaim:
    """Ask for a larger volume."""

    claim: str
    uid: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceDisk:
    """Delete a claim whose volume is lost, and the pod that waits for it."""

    node_id: int
    claim: str
    claim_uid: str
    pod_uid: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """`template_size` is what the StatefulSet's claim template has to say.

    `recreated_set` is the uid of the StatefulSet that has to be made again for that. `problems`
    need somebody; `waiting_on` comes about by itself.
    """

    template_size: str
    expansions: tuple[ExpandClaim, ...] = ()
    replacements: tuple[ReplaceDisk, ...] = ()
    recreated_set: str | None = None
    problems: tuple[str, ...] = ()
    waiting_on: str = ""


def plan_storage(
    spec: BrokerSpec, observed: Observed, *, expected: Collection[int], is_rolling: bool
) -> StoragePlan:
    """What is to be done; the StatefulSet is not touched while a broker is being restarted."""
    current = observed.stateful_set
    template_size = spec.storage_size if current is None else current.storage_size
    problems = list(_lost(spec, observed, expected))
    if current is not None and quantity_bytes(current.storage_size) > spec.storage_bytes:
        problems.append(
            f"a volume cannot shrink from {current.storage_size} to {spec.storage_size}"
        )
        return StoragePlan(
            template_size=template_size,
            problems=tuple(problems),
            replacements=tuple(_replacements(spec, observed, expected)),
        )
    expansions = []
    for volume in observed.volumes.values():
        if volume.node_id not in expected or volume.requested_bytes >= spec.storage_bytes:
            continue
        if volume.can_expand is False:
            problems.append(
                f"{volume.claim} stays as it is: storage class {volume.storage_class} does not"
                " expand volumes"
            )
            continue
        expansions.append(ExpandClaim(claim=volume.claim, uid=volume.uid, size=spec.storage_size))
    growing = current is not None and quantity_bytes(current.storage_size) < spec.storage_bytes
    recreated = current.uid if current and growing and not is_rolling else None
    return StoragePlan(
        template_size=template_size,
        expansions=tuple(expansions),
        replacements=tuple(_replacements(spec, observed, expected)),
        recreated_set=recreated,
        problems=tuple(problems),
        waiting_on=_growing(spec, observed, expected),
    )


def permission(volume: VolumeView) -> str:
    """What the annotation has to say for this very volume to be replaced."""
    return f"{volume.node_id}/{volume.uid[:8]}"


def _growing(spec: BrokerSpec, observed: Observed, expected: Collection[int]) -> str:
    for volume in observed.volumes.values():
        if volume.node_id not in expected or not volume.is_bound:
            continue
        if volume.is_waiting_for_file_system:
            return f"the file system of {volume.claim} to grow"
        if volume.capacity_bytes < min(spec.storage_bytes, volume.requested_bytes):
            return f"the volume of {volume.claim} to grow"
    return ""


def _lost(spec: BrokerSpec, observed: Observed, expected: Collection[int]) -> Iterator[str]:
    for volume in _lost_volumes(observed, expected):
        text = f"the disk of broker {volume.node_id} was on node {volume.lost_node}, which is gone"
        if permission(volume) not in spec.replaced_disks:
            yield (
                f"{text}; bring the node back, or give the broker an empty disk with the"
                f" annotation {REPLACE_DISK_ANNOTATION}: '{permission(volume)}'"
            )
        elif held_back := _only_there(observed, volume.node_id):
            yield f"{text}, and it is not replaced because of {held_back}"


def _replacements(
    spec: BrokerSpec, observed: Observed, expected: Collection[int]
) -> Iterator[ReplaceDisk]:
    for volume in _lost_volumes(observed, expected):
        if permission(volume) not in spec.replaced_disks or _only_there(observed, volume.node_id):
            continue
        pod = observed.pods.get(volume.node_id)
        yield ReplaceDisk(
            node_id=volume.node_id,
            claim=volume.claim,
            claim_uid=volume.uid,
            pod_uid=None if pod is None else pod.uid,
        )


def _lost_volumes(observed: Observed, expected: Collection[int]) -> list[VolumeView]:
    return [
        volume
        for volume in observed.volumes.values()
        if volume.node_id in expected and volume.lost_node
    ]


def _only_there(observed: Observed, node_id: int) -> str:
    """What would be lost with the disk, or why that is not known; empty when nothing would."""
    if observed.cluster is None:
        return "the other brokers, which do not answer"
    alone = [one for one in observed.cluster.held_by(node_id) if not one.in_sync - {node_id}]
    return f"{named(alone)}, which no other broker has in sync" if alone else ""
