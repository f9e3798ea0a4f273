"""The planner of topics: from what is declared and what exists to named steps. Pure.

Not here: looking (`TopicGateway.observe`), doing (`topic_apply`), showing (`topic_plan_text`).

Rules (the operator reference, section 2): the resource wins, one way; of several resources for one
topic the oldest wins; a topic without a resource is never touched; partitions never become fewer;
growing a compacted topic must be acknowledged, and so must deleting a topic that was there before;
internal topics are never deleted; throttles of a running reassignment are not drift.

Invariants: planning and carrying out by turns comes to a plan without steps, whatever part of the
steps was carried out before; after a whole plan the next one has no steps, except that partitions
which were added while the replicas change get theirs with the second plan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    Finding,
    GrowPartitions,
    ObservedCluster,
    ObservedTopic,
    Reason,
    ReassignReplicas,
    Step,
    TopicPlan,
)
from barnabas_operator.spec import (
    ACCEPT_KEY_MOVEMENT_ANNOTATION,
    ADOPT_ANNOTATION,
    INTERNAL_TOPICS,
    DriftPolicy,
    TopicSpec,
)
from barnabas_operator.spec import DeletionPolicy as Deletion

# A running reassignment sets these itself, and removes them.
THROTTLE_KEYS = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)

_Outcome: TypeAlias = Step | Finding


def plan_topics(specs: Sequence[TopicSpec], observed: ObservedCluster) -> TopicPlan:
    """The steps that make the topics what the specs ask for, in the order of the specs' ages."""
    claims: dict[str, list[TopicSpec]] = defaultdict(list)
    for spec in sorted(specs, key=lambda spec: (spec.is_discovered, spec.age)):
        claims[spec.topic].append(spec)
    steps: list[Step] = []
    findings: list[Finding] = []
    unchanged: list[str] = []
    for topic, claimants in claims.items():
        outcomes = list(_plan_topic(claimants, observed.topics.get(topic), observed))
        for outcome in outcomes:
            if isinstance(outcome, Finding):
                findings.append(outcome)
            else:
                steps.append(outcome)
        if not outcomes:
            unchanged.append(topic)
    return TopicPlan(steps=tuple(steps), findings=tuple(findings), unchanged=tuple(unchanged))


def _plan_topic(
    claimants: Sequence[TopicSpec], topic: ObservedTopic | None, observed: ObservedCluster
) -> Iterator[_Outcome]:
    """All about one topic. Resources on their way out decide only when nobody else claims it."""
    staying = [spec for spec in claimants if not spec.is_being_deleted]
    refusal = observed.refused.get(claimants[0].topic)
    if refusal is not None:
        for spec in claimants:
            yield _finding(spec, Reason.REFUSED, f"the brokers do not show this topic: {refusal}")
        return
    if not staying:
        yield from _plan_deletion(claimants, topic)
        return
    winner, *losers = staying
    if winner.is_discovered:
        # It shows what is, and losers of its kind are removed.
        return
    if winner.is_paused:
        yield _finding(winner, Reason.PAUSED, "paused: nothing is changed")
    elif topic is None:
        yield from _plan_creation(winner, observed)
    else:
        yield from _plan_partitions(winner, topic)
        yield from _plan_replicas(winner, topic, observed)
        yield from _plan_config(winner, topic)
    for loser in losers:
        yield _finding(
            loser,
            Reason.CONFLICT,
            f"'{winner.resource}' declared this topic first: remove one of the two",
        )


def why_kept(spec: TopicSpec, topic: ObservedTopic | None) -> str:
    """Why a topic does not go with its resource although that says Delete; empty if it does."""
    if spec.topic in INTERNAL_TOPICS:
        return f"{spec.topic} belongs to the brokers"
    if spec.is_adopted:
        return (
            f"it was there before this resource, which has no annotation {ADOPT_ANNOTATION}: 'true'"
        )
    if topic is not None and spec.known_id and topic.topic_id not in ("", spec.known_id):
        return (
            "it is not the topic that this resource has made, but another one of that name; there"
            f" is no annotation {ADOPT_ANNOTATION}: 'true'"
        )
    return ""


def _plan_deletion(
    claimants: Sequence[TopicSpec], topic: ObservedTopic | None
) -> Iterator[_Outcome]:
    """Only the resource that was in charge of the topic, the oldest, may take it along."""
    owner = claimants[0]
    if owner.deletion_policy is not Deletion.DELETE or owner.is_paused or why_kept(owner, topic):
        return
    if topic is not None:
        yield DeleteTopic(topic=topic.name, topic_id=topic.topic_id)


def _plan_creation(spec: TopicSpec, observed: ObservedCluster) -> Iterator[_Outcome]:
    if spec.replicas is not None and spec.replicas > len(observed.broker_ids):
        yield _too_many_replicas(spec, spec.replicas, observed)
        return
    yield CreateTopic(
        topic=spec.topic,
        partitions=spec.partitions,
        replicas=spec.replicas,
        config={key: value for key, value in spec.config.items() if value is not None},
    )


def _plan_partitions(spec: TopicSpec, topic: ObservedTopic) -> Iterator[_Outcome]:
    wanted = spec.partitions
    if wanted is None or wanted == topic.partitions:
        return
    if wanted < topic.partitions:
        yield _finding(
            spec,
            Reason.NOT_SUPPORTED,
            f"a topic cannot lose partitions: it has {topic.partitions}, {wanted} are declared",
        )
    elif _is_compacted(spec, topic) and not spec.accepts_key_movement:
        yield _finding(
            spec,
            Reason.NEEDS_ACKNOWLEDGEMENT,
            f"with {wanted} partitions instead of {topic.partitions} the keys of this compacted"
            " topic go to other partitions than before; to accept that, annotate the Topic with"
            f" {ACCEPT_KEY_MOVEMENT_ANNOTATION}: 'true'",
        )
    else:
        yield GrowPartitions(
            topic=topic.name, partitions=wanted, partitions_before=topic.partitions
        )


def _is_compacted(spec: TopicSpec, topic: ObservedTopic) -> bool:
    """Whether records are found by their key, before or after this plan."""
    return "compact" in topic.cleanup_policy or "compact" in (
        spec.config.get("cleanup.policy") or ""
    )


def _plan_replicas(
    spec: TopicSpec, topic: ObservedTopic, observed: ObservedCluster
) -> Iterator[_Outcome]:
    wanted = spec.replicas
    if wanted is None or all(len(replicas) == wanted for replicas in topic.assignments):
        return
    if wanted > len(observed.broker_ids):
        yield _too_many_replicas(spec, wanted, observed)
    elif not observed.can_reassign:
        yield _finding(
            spec,
            Reason.NOT_SUPPORTED,
            f"{topic.replicas} replicas cannot become {wanted}: these brokers do not move replicas",
        )
    else:
        yield ReassignReplicas(
            topic=topic.name,
            replicas=wanted,
            replicas_before=topic.replicas,
            assignments=_reassignment(topic, wanted, observed.broker_ids),
        )


def _reassignment(
    topic: ObservedTopic, wanted: int, broker_ids: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """New replicas of the partitions that have too many or too few.

    The first replica (the preferred leader) and as many others as possible stay; what is added goes
    to the brokers with the fewest replicas of this topic.
    """
    load = dict.fromkeys(broker_ids, 0)
    for replicas in topic.assignments:
        for broker_id in replicas:
            load[broker_id] = load.get(broker_id, 0) + 1
    changed: dict[int, tuple[int, ...]] = {}
    for partition, replicas in enumerate(topic.assignments):
        if len(replicas) == wanted:
            continue
        kept = list(replicas[:wanted])
        while len(kept) < wanted:
            # Of equally loaded brokers the next one in the ring, so that leaders' peers differ.
            start = bisect_right(broker_ids, kept[0])
            ring = (*broker_ids[start:], *broker_ids[:start])
            candidates = [broker_id for broker_id in ring if broker_id not in kept]
            added = min(candidates, key=load.__getitem__)
            load[added] += 1
            kept.append(added)
        changed[partition] = tuple(kept)
    return changed


def _plan_config(spec: TopicSpec, topic: ObservedTopic) -> Iterator[_Outcome]:
    declared = {key: value for key, value in spec.config.items() if value is not None}
    assigned = {key: value for key, value in declared.items() if topic.config.get(key) != value}
    undeclared = sorted(set(topic.config) - set(spec.config) - THROTTLE_KEYS)
    reset = undeclared if spec.drift_policy is DriftPolicy.REVERT else []
    if assigned or reset:
        yield ChangeConfig(
            topic=topic.name,
            assigned=dict(sorted(assigned.items())),
            reset=tuple(reset),
            before={key: topic.config[key] for key in (*assigned, *reset) if key in topic.config},
        )
    settings = ", ".join(f"{key}={topic.config[key]}" for key in undeclared)
    if settings and spec.drift_policy is DriftPolicy.WARN:
        yield _finding(
            spec,
            Reason.DRIFT,
            f"the topic has settings that are not declared: {settings} (declare them, hand them"
            " over with the value null, or choose driftPolicy Revert or Adopt)",
        )
    elif settings and spec.drift_policy is DriftPolicy.ADOPT:
        yield _finding(spec, Reason.ADOPTED, f"accepted without being declared: {settings}")


def _too_many_replicas(spec: TopicSpec, wanted: int, observed: ObservedCluster) -> Finding:
    count = len(observed.broker_ids)
    verb = "is" if count == 1 else "are"
    return _finding(
        spec,
        Reason.NOT_SUPPORTED,
        f"{wanted} replicas need {wanted} brokers and there {verb} {count}",
    )


def _finding(spec: TopicSpec, reason: Reason, message: str) -> Finding:
    return Finding(resource=spec.resource, topic=spec.topic, reason=reason, message=message)
