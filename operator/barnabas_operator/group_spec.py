"""ConsumerGroup resources as frozen values: which group, when it lags, what to do to it once.

Not here: checking a manifest against its CRD (`crd.py`), what the group is now
(`reconcile/group/group_state.py`).

Source: `crds/group.yaml`. Invariant: a request's `text` tells all that it asks for and how, and
requests with the same text mean the same; the part up to the first semicolon tells what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from barnabas_operator.kubernetes.objects import is_paused, labels_of
from barnabas_operator.spec import SpecError

# On resources that the operator made by itself; taking it off makes the resource one's own.
DISCOVERED_LABEL = "barnabas.dev/discovered"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# What a status can write as a moment again.
LAST_MOMENT_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND


class ResetTarget(StrEnum):
    """Where a reset goes."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"
    SHIFT_BY = "shift-by"


# The field that says where exactly, for the targets that need one.
_ARGUMENTS = {
    ResetTarget.TIMESTAMP: "timestamp",
    ResetTarget.OFFSET: "offset",
    ResetTarget.SHIFT_BY: "shiftBy",
}


class WhenActive(StrEnum):
    """What an operation does while the group has members."""

    REFUSE = "Refuse"
    WAIT = "Wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """A topic, or some partitions of it; none named means all."""

    name: str
    partitions: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return it as Kafka's tools write it."""
        return (
            f"{self.name}:{','.join(map(str, self.partitions))}" if self.partitions else self.name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """A reset; only the argument that belongs to the target is set. No topics means all."""

    id: str
    target: ResetTarget
    timestamp_ms: int | None = None
    offset: int | None = None
    shift_by: int | None = None
    topics: tuple[TopicSelection, ...] = ()
    is_dry_run: bool = False
    when_active: WhenActive = WhenActive.REFUSE

    @property
    def text(self) -> str:
        """What is asked for and how."""
        flags = f"; when active: {self.when_active}" + ("; dry run" if self.is_dry_run else "")
        topics = ", ".join(map(str, self.topics)) or "all topics"
        return f"{topics} to {self._target_text()}{flags}"

    def _target_text(self) -> str:
        match self.target:
            case ResetTarget.TIMESTAMP if self.timestamp_ms is not None:
                moment = _EPOCH + self.timestamp_ms * _MILLISECOND
                return f"timestamp {moment.isoformat(timespec='milliseconds')}"
            case ResetTarget.OFFSET:
                return f"offset {self.offset}"
            case ResetTarget.SHIFT_BY:
                return f"shift-by {self.shift_by}"
            case _:
                return str(self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    """Back to before the reset of this id."""

    id: str
    when_active: WhenActive = WhenActive.REFUSE

    @property
    def text(self) -> str:
        """What is asked for and how."""
        return f"undo {self.id}; when active: {self.when_active}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest:
    """The group and its offsets are to go, once."""

    id: str
    when_active: WhenActive = WhenActive.REFUSE

    @property
    def text(self) -> str:
        """What is asked for and how."""
        return f"delete the group; when active: {self.when_active}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """More lag than this is too much; None sets no limit."""

    lag_records: int | None = None
    lag_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """One ConsumerGroup resource.

    `age` orders resources that name the same group: the smallest was first.
    """

    resource: str
    group_id: str
    age: tuple[str, int, str] = ("", 0, "")
    broker: str | None = None
    broker_namespace: str | None = None
    thresholds: Thresholds = Thresholds()
    reset: ResetRequest | None = None
    undo: UndoRequest | None = None
    deletion: DeleteRequest | None = None
    is_paused: bool = False
    is_discovered: bool = False

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], position: int = 0) -> GroupSpec:
        """What a ConsumerGroup resource asks for.

        `position` orders manifests that no API server has dated: the place in their files.
        Raises: SpecError.
        """
        metadata = manifest["metadata"]
        spec = manifest.get("spec") or {}
        name = str(metadata["name"])
        namespace = metadata.get("namespace")
        resource = f"{namespace}/{name}" if namespace else name
        broker = spec.get("brokerRef") or {}
        thresholds = spec.get("thresholds") or {}
        is_discovered = labels_of(manifest).get(DISCOVERED_LABEL) == "true"
        # Whatever somebody declares comes before what was only discovered.
        dated = f"{'~' if is_discovered else ''}{metadata.get('creationTimestamp') or ''}"
        return cls(
            resource=resource,
            group_id=str(spec.get("groupId") or name),
            age=(dated, position, resource),
            broker=broker.get("name"),
            broker_namespace=broker.get("namespace") or namespace,
            thresholds=Thresholds(
                lag_records=thresholds.get("lagRecords"), lag_seconds=thresholds.get("lagSeconds")
            ),
            reset=_reset(spec.get("reset")),
            undo=_undo(spec.get("undo")),
            deletion=_deletion(spec.get("delete")),
            is_paused=is_paused(manifest),
            is_discovered=is_discovered,
        )


def _reset(fields: Mapping[str, Any] | None) -> ResetRequest | None:
    if not fields:
        return None
    target = ResetTarget(fields["to"])
    for owner, argument in _ARGUMENTS.items():
        if (owner is target) != (fields.get(argument) is not None):
            problem = (
                f"is missing: it goes with to: {target}"
                if owner is target
                else f"goes with to: {owner}, not with to: {target}"
            )
            raise SpecError(("spec", "reset", argument), problem)
    return ResetRequest(
        id=str(fields["id"]),
        target=target,
        timestamp_ms=_timestamp_ms(fields.get("timestamp")),
        offset=fields.get("offset"),
        shift_by=fields.get("shiftBy"),
        topics=_topics(fields.get("topics") or ()),
        is_dry_run=bool(fields.get("dryRun")),
        when_active=WhenActive(fields.get("whenActive") or WhenActive.REFUSE),
    )


def _topics(selections: Any) -> tuple[TopicSelection, ...]:
    topics = tuple(
        TopicSelection(
            name=str(one["name"]), partitions=tuple(sorted(set(one.get("partitions") or ())))
        )
        for one in selections
    )
    if len({topic.name for topic in topics}) < len(topics):
        raise SpecError(("spec", "reset", "topics"), "a topic is named twice")
    return topics


def _timestamp_ms(value: object) -> int | None:
    """Milliseconds since 1970 of an RFC 3339 moment; YAML may have made a datetime of it."""
    if value is None:
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise SpecError(
            ("spec", "reset", "timestamp"),
            f"{value} is no moment: write it like 2026-01-31T12:00:00Z",
        )
    # Not by way of a datetime in UTC: the last and first moments of one zone are none in another.
    milliseconds = round((moment - _EPOCH) / _MILLISECOND)
    if milliseconds < 0:
        raise SpecError(("spec", "reset", "timestamp"), "must not be before 1970")
    if milliseconds > LAST_MOMENT_MS:
        raise SpecError(("spec", "reset", "timestamp"), "must be before the year 10000")
    return milliseconds


def _undo(fields: Mapping[str, Any] | None) -> UndoRequest | None:
    if not fields:
        return None
    return UndoRequest(id=str(fields["id"]), when_active=_when_active(fields))


def _deletion(fields: Mapping[str, Any] | None) -> DeleteRequest | None:
    if not fields:
        return None
    return DeleteRequest(id=str(fields["id"]), when_active=_when_active(fields))


def _when_active(fields: Mapping[str, Any]) -> WhenActive:
    return WhenActive(fields.get("whenActive") or WhenActive.REFUSE)
