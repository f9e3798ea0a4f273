"""What a group remembers: an offset per partition, and who may write it.

Shared by consumer (commits), producer (`send_offsets`) and admin (reset, list).
"""

from __future__ import annotations

from typing import NamedTuple


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
