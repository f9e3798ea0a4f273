"""Operations as they stand in a status: written before anything is done, read back after a crash.

Pure. Offsets of all partitions are kept as a short text for each topic, `0:15,1:20,2:none`: a list
of thousands of objects would be too large; people get the first rows beside it.

Invariant: `read_operations` of what `operations_fields` gives is what was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas_operator.reconcile.group.group_state import (
    MaybeOffsets,
    Operation,
    Operations,
    Phase,
    Snapshot,
)
from barnabas_protocol.ids import TopicPartition

ROWS_MAX = 100
_NONE = "none"


def operations_fields(operations: Operations) -> dict[str, Any]:
    """The fields of a status that keep the operations; those that are None are to be left out."""
    snapshot = operations.snapshot
    return {
        "reset": _operation_fields(operations.reset),
        "undoSnapshot": None
        if snapshot is None
        else {"id": snapshot.id, "offsets": offsets_text(snapshot.offsets)},
        "undo": _operation_fields(operations.undo),
        "delete": _operation_fields(operations.deletion),
        "completed": list(operations.completed) or None,
    }


def read_operations(status: Mapping[str, Any] | None) -> Operations:
    """The operations that a status keeps."""
    status = status or {}
    snapshot = status.get("undoSnapshot")
    return Operations(
        reset=_read_operation(status.get("reset")),
        snapshot=None
        if not snapshot
        else Snapshot(id=str(snapshot["id"]), offsets=read_offsets(snapshot.get("offsets") or {})),
        undo=_read_operation(status.get("undo")),
        deletion=_read_operation(status.get("delete")),
        completed=tuple(map(str, status.get("completed") or ())),
    )


def offsets_text(offsets: MaybeOffsets) -> dict[str, str]:
    """By topic, the partitions and their offsets."""
    by_topic: dict[str, list[str]] = {}
    for topic_partition in sorted(offsets):
        offset = offsets[topic_partition]
        entry = f"{topic_partition.partition}:{_NONE if offset is None else offset}"
        by_topic.setdefault(topic_partition.topic, []).append(entry)
    return {topic: ",".join(entries) for topic, entries in by_topic.items()}


def read_offsets(texts: Mapping[str, str]) -> dict[TopicPartition, int | None]:
    """What `offsets_text` made a text of."""
    offsets: dict[TopicPartition, int | None] = {}
    for topic, text in texts.items():
        for entry in text.split(","):
            partition, _, offset = entry.partition(":")
            topic_partition = TopicPartition(topic, int(partition))
            offsets[topic_partition] = None if offset == _NONE else int(offset)
    return offsets


def _operation_fields(operation: Operation | None) -> dict[str, Any] | None:
    if operation is None:
        return None
    fields: dict[str, Any] = {
        "id": operation.id,
        "request": operation.request,
        "phase": str(operation.phase),
        "message": operation.message or None,
        "partitionCount": len(operation.after) or None,
        "partitions": _rows(operation) or None,
        "before": offsets_text(operation.before) or None,
        "after": offsets_text(operation.after) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _rows(operation: Operation) -> list[dict[str, Any]]:
    rows = []
    for topic_partition in sorted(operation.after)[:ROWS_MAX]:
        row: dict[str, Any] = {
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
        }
        old, new = operation.before.get(topic_partition), operation.after[topic_partition]
        if old is not None:
            row["old"] = old
        if new is not None:
            row["new"] = new
        rows.append(row)
    return rows


def _read_operation(fields: Mapping[str, Any] | None) -> Operation | None:
    if not fields:
        return None
    return Operation(
        id=str(fields["id"]),
        request=str(fields.get("request", "")),
        phase=Phase(fields["phase"]),
        message=str(fields.get("message", "")),
        before=read_offsets(fields.get("before") or {}),
        after=read_offsets(fields.get("after") or {}),
    )
