"""Small questions about manifests, and the marks that the operator puts on what it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BROKER_LABEL = "barnabas.dev/broker"
BOOTSTRAP_SERVERS_ANNOTATION = "barnabas.dev/bootstrap-servers"
PAUSE_ANNOTATION = "barnabas.dev/paused"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "barnabas-operator"


def metadata(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object's metadata, empty where there is none."""
    found: Mapping[str, Any] = manifest.get("metadata") or {}
    return found


def name_of(manifest: Mapping[str, Any]) -> str:
    """The object's name."""
    return str(metadata(manifest).get("name", ""))


def namespace_of(manifest: Mapping[str, Any]) -> str:
    """The object's namespace, empty for objects of the cluster."""
    return str(metadata(manifest).get("namespace") or "")


def uid_of(manifest: Mapping[str, Any]) -> str:
    """The object's uid: an object of the same name that is made later has another."""
    return str(metadata(manifest).get("uid", ""))


def generation_of(manifest: Mapping[str, Any]) -> int:
    """How often the spec has changed."""
    return int(metadata(manifest).get("generation", 0))


def resource_version_of(manifest: Mapping[str, Any]) -> str:
    """The version of the object that this manifest is."""
    return str(metadata(manifest).get("resourceVersion", ""))


def annotations_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """The object's annotations, empty where there are none."""
    found: Mapping[str, str] = metadata(manifest).get("annotations") or {}
    return found


def labels_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """The object's labels, empty where there are none."""
    found: Mapping[str, str] = metadata(manifest).get("labels") or {}
    return found


def finalizers_of(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """What holds the object back when it is deleted."""
    return tuple(metadata(manifest).get("finalizers") or ())


def is_going(manifest: Mapping[str, Any]) -> bool:
    """Whether the object is being deleted."""
    return metadata(manifest).get("deletionTimestamp") is not None


def is_paused(manifest: Mapping[str, Any]) -> bool:
    """Whether its owner wants it left alone, by `spec.paused` or the annotation."""
    if (manifest.get("spec") or {}).get("paused") is True:
        return True
    return annotations_of(manifest).get(PAUSE_ANNOTATION, "").lower() == "true"


def is_elsewhere(broker: Mapping[str, Any]) -> bool:
    """Whether somebody else runs the brokers of this Broker, which only names their address."""
    return bool(annotations_of(broker).get(BOOTSTRAP_SERVERS_ANNOTATION))


def owner_reference(owner: Mapping[str, Any], *, is_controller: bool = True) -> dict[str, Any]:
    """A reference that lets Kubernetes delete the child when `owner` goes."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": is_controller,
        "blockOwnerDeletion": is_controller,
    }


def broker_labels(broker_name: str) -> dict[str, str]:
    """The labels of every object that belongs to a Broker."""
    return {
        "app.kubernetes.io/name": "barnabas",
        "app.kubernetes.io/instance": broker_name,
        "app.kubernetes.io/component": "broker",
        MANAGED_BY_LABEL: MANAGED_BY,
        BROKER_LABEL: broker_name,
    }


def creation_order(manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    """Sorts objects oldest first, and those of one second always the same way."""
    return (
        str(metadata(manifest).get("creationTimestamp") or ""),
        namespace_of(manifest),
        name_of(manifest),
    )
