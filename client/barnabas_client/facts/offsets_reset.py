"""What a reset of a group's offsets would change, asked of the cluster.

Not here: the arithmetic (`group_reset.py`), which requests a kind of group takes
(`group_offset_kinds.py`), showing the table and carrying it out (the command line, the console).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.cluster.offset_ranges import OffsetRange, ResetTarget
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import IllegalStateError, NotFoundError, UsageError
from barnabas_client.facts.group_offset_kinds import (
    CONSUMER_GROUP,
    GroupOffsetKind,
    GroupOffsetsByPartition,
)
from barnabas_client.facts.group_reset import (
    Change,
    PartitionFacts,
    in_scope,
    parse_offsets,
    parse_scopes,
    plan_reset,
)
from barnabas_client.facts.moments import parse_moment_ms
from barnabas_client.facts.topic_facts import (
    Offsets,
    check_partitions,
    describe_topics,
    listed_offsets,
    offsets,
)
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.settings.durations import parse_duration_ms
from barnabas_protocol.settings.suggestions import hint

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin

_SIMPLE_TARGETS = {
    "to_earliest": ResetTarget.EARLIEST,
    "to_latest": ResetTarget.LATEST,
    "to_current": ResetTarget.CURRENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where to, and for which topics."""

    target: ResetTarget
    number: int = 0
    moment_ms: int | None = None
    from_file: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    scopes: dict[str, tuple[int, ...] | None] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, value: str, scope_texts: Sequence[str], now_ms: int) -> Wanted:
        """What the option `name` of a reset and its value mean; a file is given as its text.

        Raises: ValueError.
        """
        scopes = parse_scopes(scope_texts)
        if name in _SIMPLE_TARGETS:
            return cls(target=_SIMPLE_TARGETS[name], scopes=scopes)
        if name == "to_offset":
            return cls(target=ResetTarget.OFFSET, number=_offset(value), scopes=scopes)
        if name == "shift_by":
            return cls(target=ResetTarget.SHIFT_BY, number=int(value), scopes=scopes)
        if name == "from_file":
            return cls(target=ResetTarget.LOOKED_UP, from_file=parse_offsets(value), scopes=scopes)
        if name == "by_duration":
            moment_ms = now_ms - parse_duration_ms(value)
        elif name == "to_datetime":
            moment_ms = parse_moment_ms(value, now_ms)
        else:
            raise ValueError(f"there is no reset '{name}'")
        return cls(target=ResetTarget.LOOKED_UP, moment_ms=moment_ms, scopes=scopes)

    def to_commit(self, place: TopicPartition, offset: int | None) -> OffsetAndMetadata | None:
        """What to commit for the `new` offset of a change: all of it that a file has.

        An offset that had to be another than the file's is without what was said of that one.
        """
        if offset is None:
            return None
        in_file = self.from_file.get(place)
        is_same = in_file is not None and in_file.offset == offset
        return in_file if is_same else OffsetAndMetadata(offset)


def _offset(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(f"an offset is 0 or more, not {number}")
    return number


async def changes_of(
    admin: Admin, group_id: str, wanted: Wanted, kind: GroupOffsetKind = CONSUMER_GROUP
) -> list[Change]:
    """The old and the new offset of each partition; nothing is changed.

    Raises: NotFoundError with the nearest name; UsageError; the admin client's.
    """
    known = await kind.group_ids(admin)
    if group_id not in known and not wanted.scopes and not wanted.from_file:
        raise NotFoundError(
            f"No such group '{group_id}'.{hint(group_id, known)} (A new one needs --topic.)"
        )
    committed = await kind.offsets(admin, group_id) if group_id in known else {}
    places = await _places(admin, wanted, list(committed))
    starts, ends, times = await asyncio.gather(
        offsets(admin, places, OffsetSpec.EARLIEST),
        offsets(admin, places, OffsetSpec.LATEST),
        _offsets_at(admin, places, wanted.moment_ms),
    )
    # On a thread: of 20,000 partitions it takes a tenth of a second.
    return await asyncio.to_thread(_planned, wanted, places, committed, starts, ends, times)


def _planned(
    wanted: Wanted,
    places: Sequence[TopicPartition],
    committed: GroupOffsetsByPartition,
    starts: Offsets,
    ends: Offsets,
    times: Offsets,
) -> list[Change]:
    facts = []
    for place in places:
        start, end = starts.get(place), ends.get(place)
        if start is None or end is None:
            raise UsageError(f"{place} has no known offsets: it has no leader, or is deleted")
        in_file = wanted.from_file.get(place)
        facts.append(
            PartitionFacts(
                topic_partition=place,
                committed=committed.get(place),
                held=OffsetRange(start, end),
                looked_up=times.get(place) if in_file is None else in_file.offset,
                is_removed=bool(wanted.from_file) and in_file is None,
            )
        )
    return plan_reset(facts, wanted.target, wanted.number)


async def require_empty(admin: Admin, group_id: str, kind: GroupOffsetKind) -> None:
    """Refuse a group with members. Raises: IllegalStateError naming their clients."""
    found = await kind.members(admin, group_id)
    if found is None or (found.is_empty and not found.client_ids):
        return
    clients = ", ".join(sorted(set(found.client_ids)))
    count = len(found.client_ids)
    raise IllegalStateError(
        f"group '{group_id}' is {found.state} with {count} member{'s' if count != 1 else ''}"
        f"{f' ({clients})' if clients else ''}: stop them first"
    )


async def _places(
    admin: Admin, wanted: Wanted, committed: list[TopicPartition]
) -> list[TopicPartition]:
    """The partitions to move: those of the file, of the named topics, or all committed ones."""
    if wanted.from_file:
        return in_scope(wanted.scopes, wanted.from_file)
    if not wanted.scopes:
        if not committed:
            raise UsageError("the group has no committed offsets: name a topic with --topic")
        return committed
    described = await describe_topics(admin, list(wanted.scopes))
    for name, numbers in wanted.scopes.items():
        check_partitions(described[name], numbers or ())
    places = [
        TopicPartition(topic.name, number)
        for topic in described.values()
        for number in topic.partitions
    ]
    return in_scope(wanted.scopes, places)


async def _offsets_at(admin: Admin, places: list[TopicPartition], moment_ms: int | None) -> Offsets:
    if moment_ms is None:
        return {}
    found = await listed_offsets(admin, places, moment_ms)
    return {place: answer.offset for place, answer in found.unwrap().items()}
