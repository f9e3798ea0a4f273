"""Topics without a resource, shown as resources on request. Pure.

A Broker with the annotation `barnabas.dev/discover-topics: "*"` (or other patterns, with commas)
has its undeclared topics listed by `kubectl get topics`: each as a Topic with a label that makes it
observed only. Taking the label off turns it into a declaration; a resource that declares the topic
replaces it; it goes with its topic, and with the annotation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.kinds import TOPIC
from barnabas_operator.kubernetes.objects import BROKER_LABEL, annotations_of, name_of, namespace_of
from barnabas_operator.spec import DISCOVERED_LABEL, TopicSpec

DISCOVER_ANNOTATION = "barnabas.dev/discover-topics"
# A cluster may have tens of thousands, and a list of resources is no place for them.
DISCOVERED_MAX = 500

_VALID_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,198}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDiscovery:
    """Topics to show, and resources (by name) that have nothing to show any more."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def patterns_of(broker: Mapping[str, Any]) -> tuple[str, ...]:
    """What the Broker wants shown, nothing by default."""
    text = annotations_of(broker).get(DISCOVER_ANNOTATION, "")
    return tuple(pattern.strip() for pattern in text.split(",") if pattern.strip())


def discovery_of(broker: Mapping[str, Any]) -> str:
    """What the Broker says of it, empty where it wants nothing shown."""
    return annotations_of(broker).get(DISCOVER_ANNOTATION, "").strip(" ,")


def discover(
    patterns: Collection[str], topics: Iterable[str], specs: Collection[TopicSpec]
) -> TopicDiscovery:
    """What to add and to remove, given the cluster's topics and what its resources say."""
    declared = {spec.topic for spec in specs if not spec.is_discovered}
    shown = {spec.topic: spec.resource for spec in specs if spec.is_discovered}
    wanted = [
        topic
        for topic in sorted(topics)
        if topic not in declared and any(fnmatchcase(topic, one) for one in patterns)
    ][:DISCOVERED_MAX]
    return TopicDiscovery(
        added=tuple(topic for topic in wanted if topic not in shown),
        removed=tuple(
            resource for topic, resource in sorted(shown.items()) if topic not in set(wanted)
        ),
    )


def discovered_resource(broker: Mapping[str, Any], topic: str) -> Object:
    """The resource that shows a topic, in the Broker's namespace."""
    return {
        "apiVersion": TOPIC.api_version,
        "kind": TOPIC.kind,
        "metadata": {
            "namespace": namespace_of(broker),
            "name": resource_name(topic),
            "labels": {DISCOVERED_LABEL: "true", BROKER_LABEL: name_of(broker)},
        },
        "spec": {"brokerRef": {"name": name_of(broker)}, "topicName": topic},
    }


def resource_name(topic: str) -> str:
    """A name that Kubernetes takes; one that had to be changed is made unique by a digest."""
    if (
        _VALID_NAME.fullmatch(topic)
        and ".." not in topic
        and ".-" not in topic
        and "-." not in topic
    ):
        return topic
    digest = hashlib.sha256(topic.encode()).hexdigest()[:8]
    plain = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")[:190]
    return f"{plain}-{digest}" if plain else f"topic-{digest}"
