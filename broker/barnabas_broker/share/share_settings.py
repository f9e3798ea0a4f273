"""What holds for the share partitions of one group (SHR-38): settings as a value.

Not here: where they come from, the broker's settings and the group's config.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The settings of one share group, with the defaults of the broker."""

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    record_locks_max: int = 2_000
    # `latest`, `earliest`, or `by_duration:` and an ISO-8601 duration (SHR-4).
    auto_offset_reset: str = "latest"
    read_committed: bool = False
    renew_acknowledge_enable: bool = True
    # Whether what is rejected or at its limit goes to a topic first (SHR-36).
    has_dead_letters: bool = False
