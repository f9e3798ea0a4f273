"""Which committed offsets have expired; a pure question about one group.

Not here: the tombstones (`commits.py`) and when it is due (`shard.py`). Source: OFS-8.

    explicit expiry time of the commit            wins over everything below
    no protocol type (simple consumers)           counted from the commit
    Empty                                         counted from when the group became Empty
    Stable, protocol type consumer                from the commit, topics not subscribed to only
    any other state                               nothing expires

A consumer group: from the commit, topics not subscribed to only, in every state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.records import CommittedOffset
from barnabas_protocol.consumer_protocol import PROTOCOL_TYPE

# The wall time from which the retention of an offset counts.
Base = Callable[[CommittedOffset], int]


def expired_partitions(
    group: ClassicGroup,
    offsets: Mapping[tuple[str, int], CommittedOffset],
    now_ms: int,
    retention_ms: int,
) -> list[tuple[str, int]]:
    """Return the topics and partitions whose offsets have expired."""
    base = _base(group)
    if base is None:
        return []
    expired = []
    for (topic, partition), committed in offsets.items():
        if group.state is GroupState.STABLE and group.is_subscribed_to(topic):
            continue
        if committed.expire_ms >= 0:
            is_expired = now_ms >= committed.expire_ms
        else:
            is_expired = now_ms - base(committed) >= retention_ms
        if is_expired:
            expired.append((topic, partition))
    return expired


def expired_of_consumer_group(
    group: ConsumerGroup,
    offsets: Mapping[tuple[str, int], CommittedOffset],
    now_ms: int,
    retention_ms: int,
) -> list[tuple[str, int]]:
    """Return the same for a consumer group: counted from the commit, subscribed topics never."""
    return [
        (topic, partition)
        for (topic, partition), committed in offsets.items()
        if not group.is_subscribed_to(topic)
        and (
            now_ms >= committed.expire_ms
            if committed.expire_ms >= 0
            else now_ms - committed.commit_ms >= retention_ms
        )
    ]


def _base(group: ClassicGroup) -> Base | None:
    if group.protocol_type is None:
        return _commit_ms
    if group.state is GroupState.EMPTY:
        empty_since_ms = group.state_changed_ms
        return _commit_ms if empty_since_ms < 0 else lambda _: empty_since_ms
    if group.state is GroupState.STABLE and group.protocol_type == PROTOCOL_TYPE:
        return _commit_ms
    return None


def _commit_ms(committed: CommittedOffset) -> int:
    return committed.commit_ms
