"""Committed offsets, and the group member that commits them.

Shared by consumer (commits), producer (`send_offsets`) and admin (reset, list).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas_client.errors import UsageError
from barnabas_protocol.ids import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """Where to read on: the offset of the next record, not of the last one processed.

    `leader_epoch` is that of the last record read, -1 where unknown; it lets the next reader notice
    a truncated log (KIP-320). `metadata` is text of the application's own.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """Which member of which group commits; brokers refuse a member that was replaced (KIP-447).

    `generation_id` is the member epoch in the protocol of KIP-848; -1 and an empty member id stand
    for a committer outside of the group's membership.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def checked_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A copy that the caller cannot change.

    Raises: UsageError for what is no offset, or a negative one.
    """
    copy = dict(offsets)
    for partition, offset in copy.items():
        if not isinstance(offset, OffsetAndMetadata):
            raise UsageError(f"an offset to commit is an OffsetAndMetadata: {partition} {offset!r}")
        if offset.offset < 0:
            raise UsageError(f"an offset to commit is never negative: {partition} {offset.offset}")
    return copy
