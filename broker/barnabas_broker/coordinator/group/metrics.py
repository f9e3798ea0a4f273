"""What the group coordinator counts, as plain integers that are read at scrape time."""

from __future__ import annotations


class GroupMetrics:
    """Counters over all shards of this broker, since it started."""

    __slots__ = (
        "append_failure_count",
        "commit_count",
        "completed_rebalance_count",
        "deleted_group_count",
        "deleted_offset_count",
        "expired_member_count",
        "expired_offset_count",
        "heartbeat_count",
        "join_count",
        "leave_count",
        "skipped_record_count",
        "started_rebalance_count",
        "sync_count",
    )

    def __init__(self) -> None:
        self.join_count = 0
        self.sync_count = 0
        self.heartbeat_count = 0
        self.leave_count = 0
        self.commit_count = 0
        self.started_rebalance_count = 0
        self.completed_rebalance_count = 0
        self.expired_member_count = 0
        self.expired_offset_count = 0
        self.deleted_offset_count = 0
        self.deleted_group_count = 0
        self.skipped_record_count = 0
        self.append_failure_count = 0
