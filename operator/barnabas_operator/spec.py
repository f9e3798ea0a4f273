"""Resources as frozen values: what a Topic manifest asks for.

Not here: checking a manifest against its CRD (`crd.py`), what exists (`reconcile/topic_plan.py`).

Source: the CRDs in `crds/`. Invariants: `from_manifest` takes what passed the CRD's schema and
applies its defaults, so a manifest means the same with and without an API server; a value of
`config` is text as the broker takes it, or None for a setting that is not managed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from barnabas_protocol.settings.kinds import as_text

API_VERSION = "barnabas.dev/v1alpha1"
# Growing a compacted topic sends keys to other partitions than before: it must be intended.
ACCEPT_KEY_MOVEMENT_ANNOTATION = "barnabas.dev/accept-key-movement"
APPROVE_ANNOTATION = "barnabas.dev/approve"

# On resources that show a topic which nobody has declared: they are never acted on.
DISCOVERED_LABEL = "barnabas.dev/discovered"
# Lets a Topic with deletionPolicy Delete take a topic along that was there before it.
ADOPT_ANNOTATION = "barnabas.dev/adopt"
# Where the topic of a Topic comes from, as its status says.
MADE = "Made"
ADOPTED = "Adopted"
INTERNAL_TOPICS = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
)


class SpecError(ValueError):
    """A manifest that passes the schema and is invalid all the same; `path` says where."""

    def __init__(self, path: tuple[str, ...], message: str) -> None:
        super().__init__(f"{'.'.join(path)}: {message}")
        self.path = path
        self.message = message


class DeletionPolicy(StrEnum):
    """What deleting the resource does to the topic."""

    RETAIN = "Retain"
    DELETE = "Delete"


class DriftPolicy(StrEnum):
    """What happens to settings of the topic that the resource does not declare."""

    REVERT = "Revert"
    WARN = "Warn"
    ADOPT = "Adopt"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """One declared topic; None for partitions and replicas leaves them to the broker.

    `age` orders resources that name the same topic: the smallest was first. A discovered one only
    shows its topic, and any other one goes before it. `is_adopted` tells that the topic was there
    before the resource, which nobody has said to delete with it. `known_id` is that of the topic
    which the resource has made, empty where any topic of that name may go with it.
    """

    resource: str
    topic: str
    age: tuple[str, int, str] = ("", 0, "")
    broker: str | None = None
    broker_namespace: str | None = None
    partitions: int | None = None
    replicas: int | None = None
    config: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    drift_policy: DriftPolicy = DriftPolicy.WARN
    is_paused: bool = False
    is_being_deleted: bool = False
    accepts_key_movement: bool = False
    is_adopted: bool = False
    known_id: str = ""
    is_discovered: bool = False
    connection_secret: str | None = None

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], position: int = 0) -> TopicSpec:
        """What a Topic resource asks for.

        `position` orders manifests that no API server has dated: the place in their files.
        Raises: SpecError.
        """
        metadata = manifest["metadata"]
        spec = manifest["spec"] or {}
        name = str(metadata["name"])
        namespace = metadata.get("namespace")
        resource = f"{namespace}/{name}" if namespace else name
        broker = spec.get("brokerRef") or {}
        annotations, status = metadata.get("annotations") or {}, manifest.get("status") or {}
        may_adopt = annotations.get(ADOPT_ANNOTATION) == "true"
        return cls(
            resource=resource,
            topic=_topic_name(spec.get("topicName") or name),
            age=(str(metadata.get("creationTimestamp") or ""), position, resource),
            broker=broker.get("name"),
            broker_namespace=broker.get("namespace") or namespace,
            partitions=spec.get("partitions"),
            replicas=spec.get("replicas"),
            config=_config(
                {**dict.fromkeys(spec.get("unmanagedConfig") or ()), **(spec.get("config") or {})}
            ),
            deletion_policy=DeletionPolicy(spec.get("deletionPolicy") or DeletionPolicy.RETAIN),
            drift_policy=DriftPolicy(spec.get("driftPolicy") or DriftPolicy.WARN),
            is_paused=bool(spec.get("paused")),
            is_being_deleted=bool(metadata.get("deletionTimestamp")),
            is_discovered=(metadata.get("labels") or {}).get(DISCOVERED_LABEL) == "true",
            connection_secret=(spec.get("connectionSecret") or {}).get("name"),
            is_adopted=not may_adopt and not _is_own(status),
            known_id="" if may_adopt else str(status.get("topicId") or ""),
            accepts_key_movement=annotations.get(ACCEPT_KEY_MOVEMENT_ANNOTATION) == "true",
        )


def _is_own(status: Mapping[str, Any]) -> bool:
    """Whether the operator made the topic of a Topic with this status.

    Statuses of earlier releases do not say so: what they knew the topic of is taken for made.
    """
    return bool(status.get("origin", MADE if status.get("topicId") else None) == MADE)


def _topic_name(name: str) -> str:
    if name in (".", ".."):
        raise SpecError(("spec", "topicName"), "a topic cannot be named . or ..")
    return name


def _config(values: Mapping[str, Any]) -> Mapping[str, str | None]:
    texts = {str(key): setting_text(str(key), value) for key, value in values.items()}
    return MappingProxyType(texts)


def setting_text(key: str, value: object) -> str | None:
    """The text of a setting: manifests may write numbers and booleans without quotes."""
    if value is None:
        return None
    try:
        if isinstance(value, list) and all(isinstance(item, str) for item in value) and value:
            return ",".join(value)
        return as_text(value)
    except ValueError:
        message = "must be a text, a number, true, false or null"
        raise SpecError(("spec", "config", key), message) from None
