"""Topics that a resource of Kubernetes declares are not changed behind its back (CON-120).

The operator would take the change back, or report it as drift: whoever wants it changes the
resource, and gets the command for that.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from barnabas_console.plans.change import Change, Draft
from barnabas_console.plans.topic_changes import ApplyTopic, RemoveTopic
from barnabas_operator.spec import SpecError, TopicSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """The Topic that declares a topic."""

    namespace: str
    name: str
    drift_policy: str

    def refusal(self, topic: str) -> str:
        """Why the console does not change it."""
        return (
            f"topic '{topic}' is declared by the Topic {self.namespace}/{self.name}"
            f" (driftPolicy {self.drift_policy}): change that"
        )


def declaring(topic: str, resources: Sequence[Mapping[str, Any]]) -> DeclaredTopic | None:
    """The resource that declares a topic; those that only show a discovered one do not."""
    for resource in resources:
        try:
            spec = TopicSpec.from_manifest(resource)
        except (SpecError, KeyError, TypeError, ValueError):
            continue
        if spec.topic == topic and not spec.is_discovered:
            metadata = resource["metadata"]
            return DeclaredTopic(
                namespace=str(metadata.get("namespace") or ""),
                name=str(metadata["name"]),
                drift_policy=str(spec.drift_policy),
            )
    return None


def topic_of(change: Change) -> str | None:
    """The topic that a change is about, where a resource may declare what it changes."""
    return change.topic if isinstance(change, ApplyTopic | RemoveTopic) else None


def kept(draft: Draft, change: Change, resource: DeclaredTopic) -> Draft:
    """The draft with its refusal, and the command that changes the resource instead."""
    topic = topic_of(change)
    assert topic is not None
    return replace(
        draft,
        refusal=resource.refusal(topic),
        commands=(_command(change, resource),),
        typed=None,
        warnings=(),
    )


def _command(change: Change, resource: DeclaredTopic) -> str:
    words = ["kubectl", "-n", resource.namespace]
    if isinstance(change, ApplyTopic):
        spec: dict[str, Any] = {}
        if change.partitions is not None:
            spec["partitions"] = change.partitions
        if change.replicas is not None:
            spec["replicas"] = change.replicas
        if change.config:
            spec["config"] = dict(change.config)
        patch = json.dumps({"spec": spec}, separators=(",", ":"))
        words += ["patch", "topics.barnabas.dev", resource.name, "--type", "merge", "-p", patch]
    else:
        words += ["delete", "topics.barnabas.dev", resource.name]
    return shlex.join(words)
