"""Pods, claims and StatefulSets as the API server tells them, as values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from barnabas_operator.broker_spec import RESTART_ANNOTATION, Volume
from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.objects import (
    annotations_of,
    is_going,
    labels_of,
    name_of,
    uid_of,
)
from barnabas_operator.kubernetes.quantity import whole_quantity
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
# The kubelet starts what has crashed after 10 s, then 20, up to 300: a container that lives for a
# minute may still crash, but then brokers are restarted minutes apart and not seconds.
SETTLED_AFTER = timedelta(seconds=60)
_OWN_SCHEDULER = "default-scheduler"
# A log line of a broker begins with when, how bad and where, before it says what.
_LOG_PREFIX = re.compile(r"^[-0-9]+ [0-9:,.]+ [A-Z]+ [\w.]+: ")
HOST_NAME_LABEL = "kubernetes.io/hostname"


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
    unsettled, settles = _unsettled(status)
    return PodView(
        node_id=node_id,
        name=name_of(pod),
        uid=uid_of(pod),
        node=node_name,
        address=str(status.get("podIP") or ""),
        is_ready=(conditions.get("Ready") or {}).get("status") == "True",
        is_running=_is_running(status),
        is_started=_is_started(status),
        is_broker_ready=any(one.get("ready") is True for one in _of_broker(status)),
        scheduler=_foreign_scheduler(spec),
        own_files=_own_files(spec),
        volumes=_volumes(spec),
        is_terminating=is_going(pod),
        is_gated=bool(spec.get("schedulingGates")),
        is_unschedulable=unschedulable,
        stuck=stuck,
        unsettled=unsettled,
        settles=settles,
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
    claim: Object, volume: str, node_id: int, storage_class: Object | None, lost_node: str
) -> VolumeView:
    """A claim of a broker; `storage_class` is None where it is not known."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    conditions = {one.get("type") for one in status.get("conditions") or ()}
    return VolumeView(
        node_id=node_id,
        claim=name_of(claim),
        uid=uid_of(claim),
        volume=volume,
        is_going=is_going(claim),
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
    return SetView(
        uid=uid_of(stateful_set),
        replicas=int(spec.get("replicas", 1)),
        volumes=tuple(
            Volume(
                name=name_of(template),
                size=str(template["spec"]["resources"]["requests"]["storage"]),
                storage_class=template["spec"].get("storageClassName"),
            )
            for template in spec.get("volumeClaimTemplates") or ()
        ),
        is_going=is_going(stateful_set),
        revision=read_annotation(annotations_of(spec.get("template") or {}), REVISION_ANNOTATION),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """One of the ways in which a PersistentVolume is tied to nodes: all sets have to name a node.

    A node's host name is its label of that key, which is not always the name of the Node.
    """

    host_names: tuple[frozenset[str], ...] = ()
    node_names: tuple[frozenset[str], ...] = ()

    def holds(self, node: Object) -> bool:
        """Whether it is this node that has the volume, or one that has."""
        host_name = labels_of(node).get(HOST_NAME_LABEL)
        return all(host_name in one for one in self.host_names) and all(
            name_of(node) in one for one in self.node_names
        )


def tied_to(volume: Object) -> tuple[Tie, ...]:
    """The ways in which nodes have a PersistentVolume, any of which is enough for the scheduler.

    None where it is not said of each which nodes they are, as for volumes of a whole zone. What is
    asked of nodes besides their names does not matter here: labels may change, and the node that
    has the volume is there all the same.
    """
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    ties = tuple(
        Tie(
            host_names=_named(term.get("matchExpressions"), HOST_NAME_LABEL),
            node_names=_named(term.get("matchFields"), "metadata.name"),
        )
        for term in required.get("nodeSelectorTerms") or ()
    )
    return ties if all(tie.host_names or tie.node_names for tie in ties) else ()


def _named(expressions: Any, key: str) -> tuple[frozenset[str], ...]:
    """What each expression admits of the values of a key."""
    return tuple(
        frozenset(map(str, one.get("values") or ()))
        for one in expressions or ()
        if one.get("key") == key and one.get("operator") == "In"
    )


def _is_running(status: Mapping[str, Any]) -> bool:
    """Whether the broker's own container has a process."""
    return any("running" in (one.get("state") or {}) for one in _of_broker(status))


def _is_started(status: Mapping[str, Any]) -> bool:
    """Whether the broker's container has passed its startup probe since it was last started."""
    found = list(_of_broker(status))
    return bool(found) and all(container.get("started") for container in found)


def _of_broker(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for container in status.get("containerStatuses") or ():
        if container.get("name", names.CONTAINER) == names.CONTAINER:
            yield container


def _foreign_scheduler(spec: Mapping[str, Any]) -> str:
    scheduler = str(spec.get("schedulerName") or _OWN_SCHEDULER)
    return "" if scheduler == _OWN_SCHEDULER else scheduler


def _own_files(spec: Mapping[str, Any]) -> frozenset[int]:
    """The brokers whose files the kubelet wants to find when it starts the pod."""
    return frozenset(
        node_id
        for volume in spec.get("volumes") or ()
        for item in (volume.get("configMap") or {}).get("items") or ()
        if (node_id := names.node_id_of(str(item["key"]).partition(".")[0])) is not None
    )


def _volumes(spec: Mapping[str, Any]) -> frozenset[str]:
    """The volumes that the broker's container mounts where log directories are."""
    return frozenset(
        mount["name"]
        for container in spec.get("containers") or ()
        if container.get("name") == names.CONTAINER
        for mount in container.get("volumeMounts") or ()
        if mount.get("mountPath") == names.mount_path(mount["name"])
    )


def _stuck(status: Mapping[str, Any]) -> str:
    """Why a container of the pod does not get going, empty where that is not known to be so."""
    if status.get("phase") == "Failed":
        # The kubelet has refused it, or thrown it out: nothing of it starts any more.
        return f"{status.get('reason') or 'Failed'}: {status.get('message', '')}".strip(": ")
    for container in _all_containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        if reason not in _STUCK_REASONS:
            continue
        name = _container_name(container)
        whose = "" if name == names.CONTAINER else f"container {name}: "
        why = _ending(container) or waiting.get("message", "")
        return whose + f"{reason}: {why}".strip(": ")
    return ""


def _unsettled(status: Mapping[str, Any]) -> tuple[str, datetime | None]:
    """The container that has to run on to be believed, and until when: "" and None without one.

    One that crashes again and again makes its pod ready each time that it starts.
    """
    text, settles = "", None
    for container in _all_containers(status):
        started = ((container.get("state") or {}).get("running") or {}).get("startedAt")
        if not started or not (container.get("lastState") or {}).get("terminated"):
            continue
        until = datetime.fromisoformat(str(started)) + SETTLED_AFTER
        if settles is None or until > settles:
            settles = until
            text = f"container {_container_name(container)} ended with {_ending(container)}"
    return text, settles


def _all_containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(key) or ()


def _container_name(container: Mapping[str, Any]) -> str:
    return str(container.get("name", names.CONTAINER))


def _ending(container: Mapping[str, Any]) -> str:
    """How the container ended last; the kubelet's own message counts seconds."""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    if not ended:
        return ""
    code, reason = ended.get("exitCode"), ended.get("reason", "Error")
    last = _last_words(ended.get("message") or "")
    if reason == "OOMKilled" or not last:
        return f"exit code {code} ({reason})"
    return f"exit code {code}: {last}"


def _last_words(message: str) -> str:
    """The last line of what a process has left, without what differs each time."""
    lines = [line for line in message.splitlines() if line.strip()]
    return _LOG_PREFIX.sub("", lines[-1].strip()) if lines else ""


def _is_node_ready(node: Object | None) -> bool:
    if node is None:
        return False
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True


def _bytes(found: Mapping[str, Any] | None) -> int:
    return whole_quantity(str((found or {}).get("storage", "0"))) or 0
