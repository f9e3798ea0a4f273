"""What is to be done about volumes: growth, more and fewer of them, and disks that are lost. Pure.

Growing: each claim is asked for more where its storage class can expand; a claim that has more than
is wanted counts as grown. The claim templates of a StatefulSet cannot change, so the StatefulSet is
deleted without its pods and made again with the new ones; in between the pods run on.

More volumes: the StatefulSet is made again likewise, and the pods, which lack the volume then, are
restarted one after the other. Fewer: the same, but only when every broker says that nothing is on
that volume. Until then, and when something turns up there before all brokers do without it, the
volume stays, and a problem says why.

A disk is lost when its volume is tied to a node that is gone. Its broker never starts again by
itself. With the annotation `barnabas.dev/replace-disk` naming that volume it gets an empty one; but
only if every partition of it has another replica in sync, because what only it had is gone then.
Brokers that do not run, and others whose disks are lost, do not count for that: nobody has taken
them out of the ISR where nobody leads the control plane, or where they were the last ones. One disk
is replaced at a time.

Invariant: a claim is deleted in that one case, and in those of `claim_plan.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from barnabas_operator.broker_spec import REPLACE_DISK_ANNOTATION, BrokerSpec, Volume
from barnabas_operator.kubernetes.quantity import quantity_text
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.isr_gate import named
from barnabas_operator.reconcile.broker.members_gate import members_hindrance
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
    """`volumes` are what the StatefulSet's claim templates have to say, and what pods get.

    `recreated_set` is the uid of the StatefulSet that has to be made again for that. `problems`
    need somebody; `waiting_on` comes about by itself.
    """

    volumes: tuple[Volume, ...]
    expansions: tuple[ExpandClaim, ...] = ()
    replacements: tuple[ReplaceDisk, ...] = ()
    recreated_set: str | None = None
    problems: tuple[str, ...] = ()
    waiting_on: str = ""


def plan_storage(
    spec: BrokerSpec, observed: Observed, *, expected: Collection[int], is_rolling: bool
) -> StoragePlan:
    """What is to be done; for growth the StatefulSet is not touched while a broker restarts.

    For another set of volumes it is: the broker that does not come back may be one that waits for a
    volume which nobody can provide, and which is not wanted any more.
    """
    current = observed.stateful_set
    there = {} if current is None else {volume.name: volume for volume in current.volumes}
    problems = list(_lost(spec, observed, expected))
    kept = dict(_kept(spec, observed, problems))
    wanted = (*_possible(spec, observed, there, problems), *kept.values())
    sizes = {volume.name: volume for volume in wanted}
    expansions = []
    for claim in observed.volumes:
        volume = sizes.get(claim.volume)
        if volume is None or claim.volume in kept or claim.node_id not in expected:
            continue
        if claim.requested_bytes >= volume.size_bytes:
            continue
        if claim.can_expand is False:
            problems.append(
                f"{claim.claim} stays as it is: storage class {claim.storage_class} does not"
                " expand volumes"
            )
            continue
        expansions.append(ExpandClaim(claim=claim.claim, uid=claim.uid, size=volume.size))
    recreated = None
    if current is not None and not current.is_going and _is_outdated(there, sizes, is_rolling):
        recreated = current.uid
    return StoragePlan(
        volumes=wanted if current is None or recreated is not None else current.volumes,
        expansions=tuple(expansions),
        replacements=tuple(_replacements(spec, observed, expected)),
        recreated_set=recreated,
        problems=tuple(problems),
        waiting_on=_growing(sizes, observed, expected),
    )


def permission(volume: VolumeView) -> str:
    """What the annotation has to say for this very volume to be replaced."""
    return f"{volume.node_id}/{volume.uid[:8]}"


def claim_hindrance(observed: Observed, node_id: int) -> str:
    """Why the pod of a broker has to stay for its disk's sake, empty if it need not.

    A claim that somebody has deleted stays as long as its pod does, and no longer.
    """
    going = going_claims(observed, node_id)
    if not going:
        return ""
    held_back = _only_there(observed, node_id)
    if not held_back and observed.cluster is not None:
        # One broker alone has what is in the metadata log, too.
        held_back = "" if observed.cluster.live_ids - {node_id} else "the broker, which is alone"
    if not held_back:
        return ""
    return f"claim {going[0]}, which is deleted and goes with its pod, stays because of {held_back}"


def going_claims(observed: Observed, node_id: int) -> list[str]:
    """The claims that go with the next restart of a broker, because somebody has deleted them."""
    pod = observed.pods.get(node_id)
    return [
        one.claim
        for one in observed.volumes
        if one.node_id == node_id and one.is_going and pod is not None and one.volume in pod.volumes
    ]


def _possible(
    spec: BrokerSpec, observed: Observed, there: Mapping[str, Volume], problems: list[str]
) -> Iterator[Volume]:
    """The declared volumes, with what cannot change as it is.

    A size that no claim was ever asked for, such as one that a quota refused, can be taken back.
    """
    for volume in spec.volumes:
        old = there.get(volume.name)
        requested = max(
            (one.requested_bytes for one in observed.volumes if one.volume == volume.name),
            default=0,
        )
        if old is not None and requested > volume.size_bytes < old.size_bytes:
            size = quantity_text(requested)
            problems.append(f"volume {volume.name} cannot shrink from {size} to {volume.size}")
            volume = replace(volume, size=old.size)
        if old is not None and volume.storage_class is None:
            # Who names none has no other one in mind; a claim's own is the default by its name.
            volume = replace(volume, storage_class=old.storage_class)
        elif old is not None and old.storage_class != volume.storage_class:
            problems.append(
                f"volume {volume.name} cannot change its storage class from"
                f" {old.storage_class or 'the default'} to {volume.storage_class}"
            )
            volume = replace(volume, storage_class=old.storage_class)
        yield volume


def _is_outdated(
    there: Mapping[str, Volume], wanted: Mapping[str, Volume], is_rolling: bool
) -> bool:
    if there.keys() != wanted.keys():
        return True
    differs = any(there[name].size_bytes != one.size_bytes for name, one in wanted.items())
    return differs and not is_rolling


def _kept(
    spec: BrokerSpec, observed: Observed, problems: list[str]
) -> Iterator[tuple[str, Volume]]:
    """The volumes that brokers have, that are not declared, and that may hold something."""
    declared = {volume.name for volume in spec.volumes}
    current = observed.stateful_set
    known = {} if current is None else {volume.name: volume for volume in current.volumes}
    mounted = {name for pod in observed.pods.values() for name in pod.volumes}
    for claim in observed.volumes:
        if claim.volume not in known and (current is None or claim.volume in mounted):
            known[claim.volume] = Volume(
                name=claim.volume,
                size=str(claim.requested_bytes),
                storage_class=claim.storage_class or None,
            )
    for name in sorted(known.keys() - declared):
        if why := _held(observed, name):
            problems.append(
                f"volume {name} is not declared any more, and stays: {why}; move it to another"
                " volume, or declare the volume again"
            )
            yield name, known[name]


def _held(observed: Observed, name: str) -> str:
    """What is on a volume, or may be, for all that is known; empty if surely nothing.

    Once the StatefulSet does without it, because nothing was there, only something that turns up
    counts: a broker that is being restarted tells nothing.
    """
    current = observed.stateful_set
    is_dropped = current is not None and name not in {one.name for one in current.volumes}
    for claim in observed.volumes:
        if claim.volume != name or claim.is_decommissioned or not claim.is_bound:
            continue
        node_id = claim.node_id
        pod, process = observed.pods.get(node_id), observed.processes.get(node_id)
        if pod is not None and name not in pod.volumes:
            # It does without: what is there is nothing of the cluster's.
            continue
        is_told = pod is not None and process is not None and process.node_id == node_id
        count = process.held.get(names.log_directory(name)) if process and is_told else None
        if count:
            return f"broker {node_id} has {count} logs there"
        if count is None and not is_dropped:
            return f"broker {node_id} does not tell what it has there"
    return ""


def _growing(wanted: Mapping[str, Volume], observed: Observed, expected: Collection[int]) -> str:
    for claim in observed.volumes:
        volume = wanted.get(claim.volume)
        if volume is None or claim.node_id not in expected or not claim.is_bound:
            continue
        if claim.is_waiting_for_file_system:
            return f"the file system of {claim.claim} to grow"
        if claim.capacity_bytes < min(volume.size_bytes, claim.requested_bytes):
            return f"the volume of {claim.claim} to grow"
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
        return


def _lost_volumes(observed: Observed, expected: Collection[int]) -> list[VolumeView]:
    return [
        volume for volume in observed.volumes if volume.node_id in expected and volume.lost_node
    ]


def _only_there(observed: Observed, node_id: int) -> str:
    """What would be lost with the disk, or why that is not known; empty when nothing would."""
    cluster = observed.cluster
    if cluster is None:
        return "the other brokers, which do not answer"
    if cluster.controller_id is None:
        return "the control plane, which nobody leads: who is in sync may be known no more"
    lost = {volume.node_id for volume in observed.volumes if volume.lost_node}
    having = cluster.live_ids - lost - {node_id}
    alone = [one for one in cluster.held_by(node_id) if not one.in_sync & having]
    if alone:
        return f"{named(alone)}, which no other broker that runs has in sync"
    held_back = members_hindrance(cluster, node_id)
    return f"the metadata log: {held_back}" if held_back else ""
