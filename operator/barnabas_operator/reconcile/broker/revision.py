"""The revision of a pod, kept in annotations on the pod, and what triggers its restart.

The StatefulSet's own revision changes with anything in the template, also with what needs no
restart; so pods carry two annotations instead: the parts that matter, and the declared settings
that the broker started with. Which of the settings need a restart is the brokers' own knowledge.

Invariant: an upgrade of the operator changes the layout number only where brokers have to restart
for it, so by itself it restarts nobody.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from barnabas_operator.broker_spec import DATA_VOLUME, BrokerSpec
from barnabas_operator.reconcile.broker.listener_plan import ListenerPlan

REVISION_ANNOTATION = "barnabas.dev/revision"
CONFIG_ANNOTATION = "barnabas.dev/config"
LAYOUT = "1"
# How a reason begins that somebody gives, instead of a change that waits for a window.
ASKED_FOR = "restart asked for"
PARKED = "it is parked"
_WORDS = {
    "layout": "the layout of the pods",
    "resources": "resources",
    "scheduling": "where pods may run",
    "shutdown": "terminationGracePeriodSeconds",
    "listeners": "the listeners",
    "rack": "rack.topologyKey",
    "pod": "podTemplate",
    "security": "security",
    "volumes": "storage.volumes",
}


def revision_of(spec: BrokerSpec, image: str) -> dict[str, str]:
    """The parts of a pod whose change needs another pod."""
    template = spec.pod_template
    return {
        "layout": LAYOUT,
        "image": image,
        "resources": digest(spec.resources),
        "scheduling": digest(
            [
                dict(template.node_selector),
                list(template.tolerations),
                template.affinity,
                template.priority_class_name,
            ]
        ),
        "shutdown": str(spec.termination_grace_seconds),
        "listeners": digest(repr(spec.external)),
        "rack": spec.topology_key or "",
        "pod": digest(template.pod) if template.pod else "",
        "security": _security(spec),
        "restart": spec.restart,
        **_volumes(spec),
    }


def _security(spec: BrokerSpec) -> str:
    """The phase and what it sets; nothing for plain brokers. Not: certificates (SEC-83)."""
    if not spec.phase.has_certificates:
        return ""
    external = spec.external.certificate_secret if spec.external is not None else ""
    settings = ListenerPlan(spec=spec).command_settings()
    return f"{spec.phase.text} {digest([external, *settings])}"


def _volumes(spec: BrokerSpec) -> dict[str, str]:
    """The log directories of a broker; nothing for the one that brokers have always had."""
    found = sorted(volume.name for volume in spec.volumes)
    return {} if found == [DATA_VOLUME] else {"volumes": digest([spec.metadata_volume, *found])}


def revision_annotations(spec: BrokerSpec, image: str) -> dict[str, str]:
    """What a pod of this spec carries."""
    return {
        REVISION_ANNOTATION: _compact(revision_of(spec, image)),
        CONFIG_ANNOTATION: _compact(dict(spec.config)),
    }


def read_annotation(annotations: Mapping[str, str], name: str) -> dict[str, str]:
    """One of the two annotations of a pod, empty where it is missing or unreadable."""
    try:
        found = json.loads(annotations.get(name, "{}"))
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def changes(started: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Why a pod of that revision has to be made again, empty if it does not."""
    reasons = []
    for part, value in {"volumes": "", **wanted}.items():
        if started.get(part, "") == value:
            continue
        if part == "image":
            reasons.append(f"image {started.get(part, 'unknown')} becomes {value}")
        elif part == "restart":
            reasons.append(f"{ASKED_FOR} ({value})" if value else "")
        else:
            reasons.append(f"{_WORDS[part]} changed")
    return [reason for reason in reasons if reason]


def setting_changes(
    started: Mapping[str, str], wanted: Mapping[str, str], live: Collection[str]
) -> list[str]:
    """The declared settings that differ and that cannot be changed while the broker runs."""
    return [
        f"setting {key} changed"
        for key in sorted(started.keys() | wanted.keys())
        if started.get(key) != wanted.get(key) and key not in live
    ]


def digest(value: Any) -> str:
    """A short text that changes with the value."""
    return hashlib.sha256(_compact(value).encode()).hexdigest()[:12]


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)
