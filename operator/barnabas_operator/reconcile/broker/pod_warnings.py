"""What Kubernetes warns of while it cannot make a pod, or cannot start one: its Events, read. Pure.

A pod that waits for a volume says so nowhere in its status, and a pod that is not made has none;
the events of both name the cause. Which pods are worth asking for is decided here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.reconcile.broker.observed import PodView

# Of pods: what keeps containers from being made. Others, such as a probe that fails for now, come
# and go with every start.
_TOLD_OF_PODS = frozenset(
    (
        "FailedMount",
        "FailedAttachVolume",
        "FailedCreatePodSandBox",
        "FailedToRetrieveImagePullSecret",
    )
)
_NO_POD = "FailedCreate"
_IMAGE = re.compile(r"^(Err)?Image(Pull|NeverPull)")


def has_warnings(pod: PodView) -> bool:
    """Whether the events of a pod may say what its status does not."""
    if pod.is_ready or pod.is_terminating or pod.is_running or not pod.node:
        return False
    return not pod.stuck or _IMAGE.match(pod.stuck) is not None


def pod_warning(events: Iterable[Object]) -> str:
    """Reason and message of the last event that tells why a pod does not start, or empty."""
    return _last([one for one in events if one.get("reason") in _TOLD_OF_PODS])


def with_warning(pod: PodView, warning: str) -> PodView:
    """The pod with what was warned of; one that is stuck is so because of that as well."""
    if pod.stuck and warning:
        return replace(pod, warning=warning, stuck=f"{pod.stuck} ({warning})")
    return replace(pod, warning=warning)


def podless_warning(events: Iterable[Object], pod_name: str) -> str:
    """Why the StatefulSet whose events these are makes no pod of that name, or empty."""
    named = f"Pod {pod_name} in StatefulSet"
    return _last(
        [one for one in events if one.get("reason") == _NO_POD and named in str(one.get("message"))]
    )


def _last(events: Sequence[Mapping[str, Any]]) -> str:
    if not events:
        return ""
    last = max(events, key=_moment)
    return f"{last.get('reason')}: {' '.join(str(last.get('message') or '').split())}"


def _moment(event: Mapping[str, Any]) -> str:
    """When it was told of last, as RFC 3339, whose order is that of time."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or (event.get("metadata") or {}).get("creationTimestamp")
        or ""
    )
