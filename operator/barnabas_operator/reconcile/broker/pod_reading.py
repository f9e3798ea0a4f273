"""Pods, claims and StatefulSets as the API server tells them, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas_operator.broker_spec import RESTART_ANNOTATION, quantity_bytes
from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.objects import (
    annotations_of,
    is_going,
    labels_of,
    name_of,
    uid_of,
)
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.drain_request import (
    DRAIN_REQUESTED_ANNOTATION,
    read_request,
)
from barnabas_operator.reconcile.broker.observed import PodView, SetView, VolumeView
from barnabas_operator.reconcile.broker.revision import (
    CONFIG_ANNOTATION,
    REVISION_ANNOTATION,
    read_annotation,
)
from barnabas_operator.spec import SpecError

DECOMMISSIONED_ANNOTATION = "barnabas.dev/decommissioned"
_STUCK_REASONS = frozenset(
    (
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    )
)
_HOST_NAME = "kubernetes.io/hostname"


def read_pod(pod: Object, node_id: int, node: Object | None, topology_key: str | None) -> PodView:
    """A pod; `node` is the one that it is on, None where there is none of that name."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    unschedulable = scheduled.get("reason") == "Unschedulable"
    node_name = str(spec.get("nodeName") or "")
    stuck = _stuck(status)
    if unschedulable and not node_name:
        stuck = f"Unschedulable: {scheduled.get('message', '')}".strip(": ")
    annotations = annotations_of(pod)
    return PodView(
        node_id=node_id,
        name=name_of(pod),
        uid=uid_of(pod),
        node=node_name,
        address=str(status.get("podIP") or ""),
        is_ready=(conditions.get("Ready") or {}).get("status") == "True",
        is_started=_is_started(status),
        own_files=_own_files(spec),
        is_terminating=is_going(pod),
        is_gated=bool(spec.get("schedulingGates")),
        is_unschedulable=unschedulable,
        stuck=stuck,
        is_node_lost=bool(node_name) and not _is_node_ready(node),
        rack=None if node is None or topology_key is None else labels_of(node).get(topology_key),
        revision=read_annotation(annotations, REVISION_ANNOTATION),
        config=read_annotation(annotations, CONFIG_ANNOTATION),
        drain_request=read_request(annotations.get(DRAIN_REQUESTED_ANNOTATION, "")),
        restart_asked=str(annotations.get(RESTART_ANNOTATION, "")),
        labels=labels_of(pod),
        annotations=annotations,
        pull_secrets=tuple(str(one.get("name")) for one in spec.get("imagePullSecrets") or ()),
    )


def read_claim(
    claim: Object, node_id: int, storage_class: Object | None, lost_node: str
) -> VolumeView:
    """A claim; `storage_class` is None where it is not known."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    conditions = {one.get("type") for one in status.get("conditions") or ()}
    return VolumeView(
        node_id=node_id,
        claim=name_of(claim),
        uid=uid_of(claim),
        requested_bytes=_bytes((spec.get("resources") or {}).get("requests")),
        capacity_bytes=_bytes(status.get("capacity")),
        is_bound=status.get("phase") == "Bound",
        storage_class=str(spec.get("storageClassName") or ""),
        can_expand=None
        if storage_class is None
        else bool(storage_class.get("allowVolumeExpansion")),
        is_waiting_for_file_system="FileSystemResizePending" in conditions,
        is_decommissioned=annotations_of(claim).get(DECOMMISSIONED_ANNOTATION) == "true",
        lost_node=lost_node,
    )


def read_set(stateful_set: Object) -> SetView:
    """A StatefulSet of ours."""
    spec = stateful_set["spec"]
    size = ""
    for template in spec.get("volumeClaimTemplates") or ():
        if template["metadata"]["name"] == names.DATA_VOLUME:
            size = str(template["spec"]["resources"]["requests"]["storage"])
    return SetView(
        uid=uid_of(stateful_set),
        replicas=int(spec.get("replicas", 1)),
        storage_size=size,
        is_going=is_going(stateful_set),
    )


def tied_to(volume: Object) -> list[str]:
    """The names of the nodes that alone have a PersistentVolume, empty where all can reach it."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    nodes: list[str] = []
    for term in required.get("nodeSelectorTerms") or ():
        for expression in (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())):
            is_name = expression.get("key") in (_HOST_NAME, "metadata.name")
            if is_name and expression.get("operator") == "In":
                nodes += expression.get("values") or ()
    return nodes


def _is_started(status: Mapping[str, Any]) -> bool:
    """Whether the broker's container has passed its startup probe since it was last started."""
    found = [
        container
        for container in status.get("containerStatuses") or ()
        if container.get("name", names.CONTAINER) == names.CONTAINER
    ]
    return bool(found) and all(container.get("started") for container in found)


def _own_files(spec: Mapping[str, Any]) -> frozenset[int]:
    """The brokers whose files the kubelet wants to find when it starts the pod."""
    return frozenset(
        node_id
        for volume in spec.get("volumes") or ()
        for item in (volume.get("configMap") or {}).get("items") or ()
        if (node_id := names.node_id_of(str(item["key"]).removesuffix(".properties"))) is not None
    )


def _stuck(status: Mapping[str, Any]) -> str:
    """Why no container of the pod gets going, empty where that is not known to be so."""
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        if reason in _STUCK_REASONS:
            return f"{reason}: {_ending(container) or waiting.get('message', '')}".strip(": ")
    return ""


def _ending(container: Mapping[str, Any]) -> str:
    """How the container ended last; the kubelet's own message counts seconds."""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    if not ended:
        return ""
    return f"exit code {ended.get('exitCode')} ({ended.get('reason', 'Error')})"


def _is_node_ready(node: Object | None) -> bool:
    if node is None:
        return False
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True


def _bytes(found: Mapping[str, Any] | None) -> int:
    try:
        return quantity_bytes(str((found or {}).get("storage", "0")))
    except SpecError:
        return 0
