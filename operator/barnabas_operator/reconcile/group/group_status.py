"""The status of a ConsumerGroup: what was observed, what is recorded, what is wrong. Pure.

Not here: when it is written (only where it differs).

Invariant: an idle group has the same status as long as it is idle, so it costs no writes. Hence no
times of observing, large numbers with two significant digits, and ages as the moment they count
from (`oldestUnread`) or in a few steps (`lagSeconds`). What is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any

from barnabas_operator.conditions import (
    Condition,
    merged_manifests,
    ready,
    reconciling,
    stalled,
    timestamp,
)
from barnabas_operator.group_spec import LAST_MOMENT_MS, GroupSpec
from barnabas_operator.reconcile.group.group_record import operations_fields
from barnabas_operator.reconcile.group.group_state import (
    UNKNOWN,
    GroupFinding,
    GroupReason,
    ObservedGroup,
    ObservedGroups,
    Operation,
    Operations,
    Phase,
)
from barnabas_protocol.ids import TopicPartition

ROWS_MAX = 100
LAG_EXCEEDED = "LagExceeded"
_LAG_SECONDS_STEPS = (0, 1, 10, 60, 600, 3600, 21_600, 86_400, 604_800)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind; None where nothing is known.

    `partitions` has those whose lag is known. `oldest_ms` is the timestamp of the oldest record
    that was not read.
    """

    total: int | None
    largest: int | None
    oldest_ms: int | None
    partitions: Mapping[TopicPartition, int]


def group_lag(group: ObservedGroup, observed: ObservedGroups) -> GroupLag:
    """The lag of the partitions that the group has committed offsets for.

    The total is known only where that of each partition is: a sum with parts missing would look
    like progress. Offsets of topics that do not exist any more do not count.
    """
    topic_partitions = [
        topic_partition
        for topic_partition in group.committed
        if topic_partition.topic in observed.partition_counts
    ]
    lags = {
        topic_partition: observed.lag(group, topic_partition)
        for topic_partition in topic_partitions
    }
    known = {topic_partition: lag for topic_partition, lag in lags.items() if lag is not None}
    if not known or len(known) < len(lags):
        return GroupLag(total=None, largest=None, oldest_ms=None, partitions=known)
    times = [
        _record_time(group, observed, topic_partition)
        for topic_partition, lag in known.items()
        if lag
    ]
    told = [time for time in times if time is not None]
    return GroupLag(
        total=sum(known.values()),
        largest=max(known.values()),
        oldest_ms=min(told) if told and len(told) == len(times) else None,
        partitions=known,
    )


def group_status(
    manifest: Mapping[str, Any],
    spec: GroupSpec,
    broker: str,
    operations: Operations,
    findings: Sequence[GroupFinding],
    observed: ObservedGroups,
    *,
    stuck: frozenset[TopicPartition] = frozenset(),
    now: datetime,
) -> dict[str, Any]:
    """The whole status; fields that are None are to be left out."""
    group = observed.groups[spec.group_id]
    generation = int((manifest.get("metadata") or {}).get("generation", 0))
    lag = group_lag(group, observed)
    age = None if lag.oldest_ms is None else max(now.timestamp() - lag.oldest_ms / 1000, 0.0)
    seconds = 0.0 if lag.total == 0 else age
    conditions = [
        *_conditions(group, operations, findings, generation),
        *_lag_condition(spec, lag, seconds, generation),
    ]
    rows = group.is_known and not group.is_absent
    return {
        **_observed_fields(group),
        "observedGeneration": generation or None,
        "broker": broker,
        "groupId": spec.group_id,
        "lag": rounded(lag.total),
        "maxLag": rounded(lag.largest),
        "lagSeconds": None if seconds is None else _lag_seconds(seconds),
        "oldestUnread": _moment(lag.oldest_ms),
        "stuck": bool(stuck) if rows else None,
        "recommendedReplicas": recommended_replicas(spec, group, lag, seconds),
        "partitions": (_rows(group, lag, stuck) or None) if rows else None,
        **operations_fields(operations),
        "conditions": merged_manifests(manifest.get("status"), conditions, now),
    }


def invalid_status(
    manifest: Mapping[str, Any], reason: str, message: str, now: datetime
) -> dict[str, Any]:
    """The status of a resource that is invalid, or whose cluster is not there.

    What it says of operations stays: what has been carried out is not to be done again.
    """
    before = manifest.get("status") or {}
    generation = int((manifest.get("metadata") or {}).get("generation", 0))
    kept = ("groupId", "reset", "undoSnapshot", "undo", "delete", "completed")
    conditions = stalled(reason, message, generation=generation)
    return {
        **{name: before[name] for name in kept if name in before},
        "observedGeneration": generation or None,
        "conditions": merged_manifests(before, conditions, now),
    }


def unreachable_status(manifest: Mapping[str, Any], error: str, now: datetime) -> dict[str, Any]:
    """The status while the cluster cannot be asked: nothing that was seen earlier is claimed."""
    status = invalid_status(manifest, "ClusterUnreachable", error, now)
    generation = int((manifest.get("metadata") or {}).get("generation", 0))
    conditions = [
        Condition(
            type="Ready",
            status="Unknown",
            reason="ClusterUnreachable",
            message=error,
            observed_generation=generation,
        )
    ]
    status["state"] = UNKNOWN
    status["conditions"] = merged_manifests(manifest.get("status"), conditions, now)
    return status


def rounded(number: int | None) -> int | None:
    """The number with two significant digits, rounded to the nearest; small ones are exact."""
    if number is None or number < 100:
        return number
    unit = int(10 ** (len(str(number)) - 2))
    return (number + unit // 2) // unit * unit


def recommended_replicas(
    spec: GroupSpec, group: ObservedGroup, lag: GroupLag, seconds: float | None
) -> int | None:
    """How many members would do: as many as the lag has thresholds, one at least.

    By records each member may have its threshold's worth of lag; by age the present number is
    scaled with how far it is over. More members than partitions would have nothing to read.
    """
    thresholds = spec.thresholds
    wanted: list[int] = []
    if thresholds.lag_records is not None and lag.total is not None:
        wanted.append(ceil(lag.total / thresholds.lag_records))
    if thresholds.lag_seconds is not None and seconds is not None:
        # In the steps of the status, so that it does not change by itself all the time.
        over = _lag_seconds(seconds) / thresholds.lag_seconds
        wanted.append(ceil(max(len(group.members), 1) * over))
    if not wanted:
        return None
    return min(max(*wanted, 1), max(len(group.partitions), 1))


def _record_time(
    group: ObservedGroup, observed: ObservedGroups, topic_partition: TopicPartition
) -> int | None:
    position = observed.position(group, topic_partition)
    return None if position is None else observed.record_times.get((topic_partition, position))


def _observed_fields(group: ObservedGroup) -> dict[str, Any]:
    if not group.is_known:
        return {"state": UNKNOWN, "application": group.application or None}
    partitions = group.partitions
    return {
        "state": group.state,
        "protocol": group.protocol or None,
        "assignor": group.assignor or None,
        "application": group.application or None,
        "coordinator": group.coordinator,
        "members": len(group.members),
        "topics": len({topic_partition.topic for topic_partition in partitions}),
        "partitionCount": len(partitions),
    }


def _rows(
    group: ObservedGroup, lag: GroupLag, stuck: frozenset[TopicPartition]
) -> list[dict[str, Any]]:
    readers = {
        topic_partition: member.client_id
        for member in group.members
        for topic_partition in member.assignment
    }
    # Rounded, so that the choice among more than can be shown does not change all the time.
    lags = {
        topic_partition: rounded(lag.partitions.get(topic_partition))
        for topic_partition in group.partitions
    }
    worst = sorted(
        group.partitions,
        key=lambda topic_partition: (-(lags[topic_partition] or 0), topic_partition),
    )
    rows = []
    for topic_partition in sorted(worst[:ROWS_MAX]):
        row: dict[str, Any] = {
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
        }
        if lags[topic_partition] is not None:
            row["lag"] = lags[topic_partition]
        if topic_partition in readers:
            row["member"] = readers[topic_partition]
        if topic_partition in stuck:
            row["stuck"] = True
        rows.append(row)
    return rows


def _lag_seconds(seconds: float) -> int:
    return max(step for step in _LAG_SECONDS_STEPS if step <= seconds)


def _moment(milliseconds: int | None) -> str | None:
    """None, too, for what is no moment: producers choose the timestamps of their records."""
    if milliseconds is None or not 0 <= milliseconds <= LAST_MOMENT_MS:
        return None
    return timestamp(datetime.fromtimestamp(milliseconds / 1000, UTC))


def _conditions(
    group: ObservedGroup, operations: Operations, findings: Sequence[GroupFinding], generation: int
) -> tuple[Condition, ...]:
    for finding in findings:
        if finding.reason is GroupReason.PAUSED:
            return ready(finding.reason, finding.message, generation=generation)
        return stalled(finding.reason, finding.message, generation=generation)
    if not group.is_known:
        return (
            Condition(
                type="Ready",
                status="Unknown",
                reason="GroupUnknown",
                message=group.error,
                observed_generation=generation,
            ),
        )
    kinds = (
        ("Reset", operations.reset),
        ("Undo", operations.undo),
        ("Delete", operations.deletion),
    )
    for name, operation in kinds:
        if operation is None or operation.phase in (Phase.DONE, Phase.PREVIEW):
            continue
        message = f"{name.lower()} '{operation.id}': {operation.message or operation.request}"
        make = reconciling if operation.phase in (Phase.WAITING, Phase.RUNNING) else stalled
        return make(f"{name}{operation.phase}", message, generation=generation)
    return ready(*_ready_text(group, operations.reset), generation=generation)


def _ready_text(group: ObservedGroup, reset: Operation | None) -> tuple[str, str]:
    if group.application == "spark" and not group.committed:
        return (
            "KeepsOffsetsElsewhere",
            "Spark keeps the offsets of this group in its checkpoint and commits none: its lag is"
            " not known here",
        )
    if group.is_absent:
        return "NoSuchGroup", "no member has joined and nothing is committed"
    if reset is not None and reset.phase is Phase.PREVIEW:
        return "Observed", f"reset '{reset.id}': {reset.message}"
    return "Observed", ""


def _lag_condition(
    spec: GroupSpec, lag: GroupLag, seconds: float | None, generation: int
) -> tuple[Condition, ...]:
    """Whether the lag is over a threshold; none without thresholds."""
    limits = spec.thresholds
    checks = [
        (limits.lag_records, lag.total, "records"),
        (limits.lag_seconds, None if seconds is None else int(seconds), "seconds"),
    ]
    known = [(limit, value, unit) for limit, value, unit in checks if limit is not None]
    if not known:
        return ()
    over = [
        f"more than {limit} {unit} of lag"
        for limit, value, unit in known
        if limit is not None and value is not None and value > limit
    ]
    if over:
        return (_lag_exceeded("True", "OverThreshold", "; ".join(over), generation),)
    if any(value is None for _, value, _ in known):
        return (_lag_exceeded("Unknown", "LagUnknown", "the lag is not known", generation),)
    return (_lag_exceeded("False", "UnderThreshold", "", generation),)


def _lag_exceeded(status: Any, reason: str, message: str, generation: int) -> Condition:
    return Condition(
        type=LAG_EXCEEDED,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
    )
