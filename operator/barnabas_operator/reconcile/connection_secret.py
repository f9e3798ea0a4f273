"""A Secret that tells an application how to reach its topic, where the application runs.

On request of a Topic (`spec.connectionSecret`), ready to be mounted or taken as environment. It
belongs to the Topic and goes with it. Invariant: a Secret that somebody else made is never touched.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas_operator.admin_pool import bootstrap_servers, phase_of
from barnabas_operator.conditions import Condition, from_manifest
from barnabas_operator.kubernetes.api import (
    ForbiddenError,
    InvalidError,
    KubernetesApi,
    KubernetesError,
    Object,
)
from barnabas_operator.kubernetes.kinds import SECRET
from barnabas_operator.kubernetes.objects import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    labels_of,
    metadata,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from barnabas_operator.security_spec import SecurityPhase

CONNECTION_SECRET = "ConnectionSecret"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretState:
    """What became of the Secret of a Topic, for its status.

    `name` is the one that is, or may be, there because of it: what is forgotten is never removed.
    """

    condition: Condition | None = None
    name: str | None = None


async def settle(
    api: KubernetesApi, topic: Object, wanted: Object | None, status: Mapping[str, Any]
) -> tuple[SecretState, KubernetesError | None]:
    """Make the Secret that is wanted, and remove another one that `status` remembers.

    The state is one to go on from also where something failed.
    """
    before = status.get("connectionSecret")
    name = None if wanted is None else name_of(wanted)
    remembered = None if before is None else str(before)
    try:
        if remembered is not None and remembered != name:
            await remove(api, topic, remembered)
        remembered = name
        if wanted is None:
            return SecretState(), None
        condition = await apply_plan(api, wanted, topic)
    except KubernetesError as error:
        return SecretState(condition=_failing(status, error), name=remembered), error
    is_there = condition.status == "True"
    return SecretState(condition=condition, name=name if is_there else None), None


def as_before(status: Mapping[str, Any]) -> SecretState:
    """What a status says, for a Topic whose Secret is left alone."""
    before = status.get("connectionSecret")
    return SecretState(
        condition=_condition_of(status), name=None if before is None else str(before)
    )


def _failing(status: Mapping[str, Any], error: KubernetesError) -> Condition | None:
    """A refusal is told; what may go well the next time leaves what was told before."""
    if not isinstance(error, InvalidError | ForbiddenError):
        return _condition_of(status)
    return Condition(
        type=CONNECTION_SECRET, status="False", reason="NotWritten", message=str(error)
    )


def _condition_of(status: Mapping[str, Any]) -> Condition | None:
    for one in status.get("conditions") or ():
        if one.get("type") == CONNECTION_SECRET:
            return from_manifest(one)
    return None


def connection_secret(
    topic: Mapping[str, Any], name: str, kafka_topic: str, broker: Object
) -> Object:
    """The Secret for one Topic; its keys are those of Kafka's clients."""
    values = {
        "bootstrap.servers": bootstrap_servers(broker),
        "security.protocol": _protocol(broker),
        "topic": kafka_topic,
    }
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "namespace": namespace_of(topic),
            "name": name,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY},
            "ownerReferences": [owner_reference(topic)],
        },
        "type": "Opaque",
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in values.items()},
    }


def _protocol(broker: Object) -> str:
    """How clients of the bootstrap address connect; what else they need a User's Secret tells."""
    security = (broker.get("status") or {}).get("security") or {}
    if phase_of(broker) is not SecurityPhase.SECURE:
        return "PLAINTEXT"
    return "SASL_SSL" if security.get("authentication") else "SSL"


def is_ours(secret: Mapping[str, Any], topic: Mapping[str, Any]) -> bool:
    """Whether the operator has made this Secret for this Topic."""
    owners = metadata(secret).get("ownerReferences") or ()
    return labels_of(secret).get(MANAGED_BY_LABEL) == MANAGED_BY and any(
        owner.get("uid") == uid_of(topic) for owner in owners
    )


async def apply_plan(api: KubernetesApi, wanted: Object, topic: Mapping[str, Any]) -> Condition:
    """Make the Secret what it should be; returns what to tell about it. Raises: KubernetesError."""
    name = name_of(wanted)
    found = await api.get(SECRET, namespace_of(wanted), name)
    if found is not None and not is_ours(found, topic):
        return Condition(
            type=CONNECTION_SECRET,
            status="False",
            reason="NotOurs",
            message=f"Secret {name} exists and was not made for this Topic",
        )
    if found is None or found.get("data") != wanted["data"]:
        await api.apply(wanted)
    return Condition(type=CONNECTION_SECRET, status="True", reason="Written", message="")


async def remove(api: KubernetesApi, topic: Mapping[str, Any], name: str) -> None:
    """Delete a Secret that is no longer asked for, if it is ours. Raises: KubernetesError."""
    found = await api.get(SECRET, namespace_of(topic), name)
    if found is not None and is_ours(found, topic):
        await api.delete(SECRET, namespace_of(topic), name, uid=uid_of(found))
