"""The states of a record in a share group, and what acknowledgements make of it.

Source: KIP-932; SHR-5, SHR-15, SHR-16. Invariants: Acquired is never stored, the final states are
never left.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from barnabas_protocol.errors import ErrorCode, KafkaError


class RecordState(IntEnum):
    """Where a record is, by the number that is stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


FINAL: Final = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))

LEGAL: Final[dict[RecordState, frozenset[RecordState]]] = {
    # Archived without an attempt: the log has no such record any more, or its transaction aborted.
    RecordState.AVAILABLE: frozenset((RecordState.ACQUIRED, RecordState.ARCHIVED)),
    RecordState.ACQUIRED: frozenset(
        (
            RecordState.AVAILABLE,
            RecordState.ACKNOWLEDGED,
            RecordState.ARCHIVING,
            RecordState.ARCHIVED,
        )
    ),
    RecordState.ARCHIVING: frozenset((RecordState.ARCHIVED,)),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVED: frozenset(),
}


class AcknowledgeType(IntEnum):
    """What a member says of a record that it has acquired."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgementBatch(NamedTuple):
    """Offsets of one request, first to last inclusive: one type for all of them, or one for each.

    The types are as the client sent them: nothing is checked.
    """

    first_offset: int
    last_offset: int
    types: list[int]


class AcknowledgedRun(NamedTuple):
    """Neighbouring offsets, first to last inclusive, that are acknowledged with one type."""

    first_offset: int
    last_offset: int
    type: AcknowledgeType


_TYPES: Final = tuple(AcknowledgeType)
_WITH_RENEW: Final = frozenset(_TYPES)
_WITHOUT_RENEW: Final = _WITH_RENEW - {AcknowledgeType.RENEW}


def acknowledged_runs(
    batches: list[AcknowledgementBatch], start_offset: int, end_offset: int, *, is_renew: bool
) -> list[AcknowledgedRun]:
    """Return what batches acknowledge, in the order of offsets; nothing below the start (SHR-7).

    `end_offset` is the last one in flight. `is_renew`: whether the request may renew locks.
    Raises: KafkaError INVALID_REQUEST for anything malformed (SHR-15).
    """
    runs: list[AcknowledgedRun] = []
    next_offset = 0
    for first, last, types in batches:
        if first < next_offset or last < first:
            raise _invalid(f"offsets {first} to {last} are out of order")
        if last > end_offset:
            raise _invalid(f"offset {last} is not in flight")
        if len(types) != 1 and len(types) != last - first + 1:
            raise _invalid(f"{len(types)} types for offsets {first} to {last}")
        next_offset = last + 1
        _check_types(types, is_renew)
        if last < start_offset:
            continue
        begin = max(first, start_offset)
        if len(types) == 1:
            runs.append(AcknowledgedRun(begin, last, _TYPES[types[0]]))
        else:
            _append_runs(runs, types[begin - first :], begin)
    return runs


def _check_types(types: list[int], is_renew: bool) -> None:
    allowed = _WITH_RENEW if is_renew else _WITHOUT_RENEW
    if not allowed.issuperset(types):
        raise _invalid("an unknown acknowledge type, or a renewal that the request does not allow")


def _append_runs(runs: list[AcknowledgedRun], types: list[int], offset: int) -> None:
    """Append the runs of one batch that has a type for each offset."""
    first, current = offset, types[0]
    for value in types:
        if value != current:
            runs.append(AcknowledgedRun(first, offset - 1, _TYPES[current]))
            first, current = offset, value
        offset += 1
    runs.append(AcknowledgedRun(first, offset - 1, _TYPES[current]))


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
