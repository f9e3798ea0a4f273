"""What the status of a Topic says. Pure.

From what was declared, planned, done and observed comes the whole status of one resource; the same
facts give the same status, letter by letter, so an idle cluster is never written to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from barnabas_operator import conditions
from barnabas_operator.conditions import Condition
from barnabas_operator.reconcile.connection_secret import SecretState
from barnabas_operator.reconcile.rounding import rate_text, significant
from barnabas_operator.reconcile.topic_plan import THROTTLE_KEYS, plan_topics
from barnabas_operator.reconcile.topic_plan_text import step_summary
from barnabas_operator.reconcile.topic_state import Finding, ObservedCluster, ObservedTopic, Reason
from barnabas_operator.spec import ADOPTED, MADE, TopicSpec
from barnabas_protocol.settings.sizes import size_text

DRIFT_DETECTED = "DriftDetected"
PAUSED = "Paused"
_KEYS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """All that is known about one resource after a pass; None where it is not known.

    `failure` says what the brokers refused, `is_passing` whether trying again may help.
    """

    spec: TopicSpec
    generation: int
    topic: ObservedTopic | None
    findings: Sequence[Finding] = ()
    failure: str = ""
    is_passing: bool = False
    size_bytes: int | None = None
    messages_per_second: float | None = None
    secret: SecretState | None = None
    is_made: bool = False  # by us, as far as this process knows


def topic_status(
    facts: TopicFacts,
    observed: ObservedCluster,
    old: Mapping[str, Any] | None,
    now: datetime,
) -> dict[str, Any]:
    """The status of a resource whose cluster was looked at."""
    old = old or {}
    status: dict[str, Any] = {
        "observedGeneration": facts.generation,
        "topicName": facts.spec.topic,
        "conditions": conditions.merged_manifests(old, _conditions(facts, observed), now),
    }
    is_winner = all(finding.reason is not Reason.CONFLICT for finding in facts.findings)
    if facts.topic is not None and is_winner:
        status |= _of_topic(facts, facts.topic, old)
    elif facts.is_made and is_winner:
        status["origin"] = MADE
    if facts.secret is not None and facts.secret.name is not None:
        status["connectionSecret"] = facts.secret.name
    return status


def status_without_cluster(
    spec_name: str,
    generation: int,
    verdict: Sequence[Condition],
    old: Mapping[str, Any] | None,
    now: datetime,
) -> dict[str, Any]:
    """The status of a resource whose cluster cannot be asked: what was seen last stays."""
    kept = {key: value for key, value in (old or {}).items() if key != "conditions"}
    observed = [replace(one, observed_generation=generation) for one in verdict]
    return {
        **kept,
        "observedGeneration": generation,
        **({"topicName": spec_name} if spec_name else {}),
        "conditions": conditions.merged_manifests(old, observed, now),
    }


def without_broker(namespace: str, name: str, brokers: int) -> tuple[Condition, ...]:
    """The verdict on a resource whose Broker is not there, or not clear without a name."""
    if name:
        return conditions.stalled("BrokerNotFound", f"there is no Broker {namespace}/{name}")
    if brokers:
        return conditions.stalled(
            "BrokerAmbiguous",
            f"namespace {namespace} has {brokers} Brokers: name one in spec.brokerRef",
        )
    return conditions.stalled(
        "BrokerNotFound", f"namespace {namespace} has no Broker: name one in spec.brokerRef"
    )


def without_brokers_answer(servers: str) -> tuple[Condition, ...]:
    """The verdict on a resource whose brokers do not answer."""
    reason, message = "BrokersUnreachable", f"no broker answers at {servers}"
    return (
        Condition(type=conditions.READY, status="Unknown", reason=reason, message=message),
        Condition(type=conditions.RECONCILING, status="True", reason=reason, message=message),
    )


def is_ready(status: Mapping[str, Any]) -> bool:
    """Whether the status says that the resource is as declared."""
    return any(
        one.get("type") == conditions.READY and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )


def is_settled(status: Mapping[str, Any], generation: int) -> bool:
    """Whether the status says that the resource is as this generation declares."""
    return is_ready(status) and status.get("observedGeneration") == generation


def is_moving(status: Mapping[str, Any]) -> bool:
    """Whether the resource is on its way, and worth looking at again soon."""
    return any(
        one.get("type") == conditions.RECONCILING and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )


def _conditions(facts: TopicFacts, observed: ObservedCluster) -> tuple[Condition, ...]:
    verdict = [*_verdict(facts, observed)]
    if facts.secret is not None and facts.secret.condition is not None:
        verdict.append(facts.secret.condition)
    for finding in facts.findings:
        if finding.reason is Reason.DRIFT:
            verdict.append(conditions.holding(DRIFT_DETECTED, Reason.DRIFT, finding.message))
        elif finding.reason is Reason.PAUSED:
            verdict.append(conditions.holding(PAUSED, Reason.PAUSED, finding.message))
    return tuple(replace(one, observed_generation=facts.generation) for one in verdict)


def _verdict(facts: TopicFacts, observed: ObservedCluster) -> tuple[Condition, ...]:
    """Ready, and why not: the first reason that holds."""
    for finding in facts.findings:
        if finding.is_blocking:
            return conditions.stalled(finding.reason, finding.message)
    if facts.failure:
        if facts.is_passing:
            return conditions.reconciling("Retrying", facts.failure)
        return conditions.stalled(Reason.REFUSED, facts.failure)
    if facts.spec.is_being_deleted:
        return conditions.reconciling("Deleting", "the topic is being deleted")
    if any(finding.reason is Reason.PAUSED for finding in facts.findings):
        return _paused(facts, observed)
    topic = facts.topic
    if topic is None:
        return conditions.reconciling("Creating", "the topic is being created")
    if topic.moving:
        return conditions.reconciling(
            "Reassigning",
            f"replicas of {topic.moving} of {topic.partitions} partitions are being moved",
        )
    if topic.leaderless:
        return conditions.reconciling(
            "WaitingForLeaders", f"{topic.leaderless} of {topic.partitions} have no leader"
        )
    return conditions.ready("Discovered" if facts.spec.is_discovered else "AsDeclared")


def _paused(facts: TopicFacts, observed: ObservedCluster) -> tuple[Condition, ...]:
    """Whether it happens to be as declared although nothing is changed."""
    plan = plan_topics([replace(facts.spec, is_paused=False)], observed)
    if plan.steps:
        waiting = ", ".join(map(step_summary, plan.steps))
        return conditions.stalled(Reason.PAUSED, f"waits for the end of the pause: {waiting}")
    return conditions.ready("AsDeclared")


def _origin(facts: TopicFacts, topic: ObservedTopic, old: Mapping[str, Any]) -> str | None:
    """Where the topic comes from; one that somebody made anew under its name is adopted."""
    known = old.get("topicId")
    if facts.is_made or (known is None and old.get("origin") == MADE):
        return MADE
    if known is not None and known == topic.topic_id:
        # Statuses of earlier releases have no origin, and keep none; but what only showed a topic
        # never made it, and may be a declaration soon.
        origin = old.get("origin", ADOPTED if facts.spec.is_discovered else None)
        return None if origin is None else str(origin)
    return ADOPTED


def _of_topic(facts: TopicFacts, topic: ObservedTopic, old: Mapping[str, Any]) -> dict[str, Any]:
    """The columns, and more of what is."""
    fields: dict[str, Any] = {
        "topicId": topic.topic_id or None,
        "origin": _origin(facts, topic, old),
        "partitions": topic.partitions,
        "replicas": topic.replicas,
        "leaders": f"{topic.partitions - topic.leaderless}/{topic.partitions}",
        "underReplicatedPartitions": topic.under_replicated,
        "offlinePartitions": topic.leaderless,
        "drift": None if facts.spec.is_discovered else drift_text(facts.spec, topic),
        "config": dict(sorted(topic.config.items())) or None,
        "reassignment": f"{topic.moving}/{topic.partitions}" if topic.moving else None,
    }
    if facts.size_bytes is None:
        fields |= {key: old.get(key) for key in ("size", "sizeBytes")}
    else:
        fields["size"] = size_text(facts.size_bytes, digits=2)
        fields["sizeBytes"] = int(significant(facts.size_bytes))
    before = str(old.get("messagesPerSecond") or "")
    if facts.messages_per_second is None:
        fields["messagesPerSecond"] = before or None
    else:
        fields["messagesPerSecond"] = rate_text(facts.messages_per_second, before)
    return {key: value for key, value in fields.items() if value is not None}


def drift_text(spec: TopicSpec, topic: ObservedTopic) -> str:
    """The settings that the resource does not declare, `none` without any."""
    keys = sorted(set(topic.config) - set(spec.config) - THROTTLE_KEYS)
    shown = ",".join(keys[:_KEYS_SHOWN])
    return f"{shown},+{len(keys) - _KEYS_SHOWN}" if len(keys) > _KEYS_SHOWN else shown or "none"
