"""Metrics of the groups that this broker coordinates: states, counters, lag.

Source: MET-6. Only the coordinator of a group exposes it, so that sums over
all brokers are right; what lag is and how it is found out is in `group_lag.py`. A thousand groups
are named, the rest is summed up as group `(others)`.
"""

from collections.abc import Iterator
from typing import Final

from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.group_lag import GroupLag
from barnabas_broker.metrics.sample import Sample

_COUNTERS = (
    ("rebalances_started_total", "Rebalances begun.", "started_rebalance_count"),
    ("rebalances_completed_total", "Rebalances completed.", "completed_rebalance_count"),
    ("commits_total", "Requests that committed offsets.", "commit_count"),
    ("members_expired_total", "Members whose session ended.", "expired_member_count"),
    ("offsets_expired_total", "Committed offsets that expired.", "expired_offset_count"),
    ("append_failures_total", "Appends to the offsets topic that failed.", "append_failure_count"),
)

_OFFSETS = (
    (
        "offsets",
        "Offsets in memory that groups have committed, those of open transactions included.",
        GroupCoordinator.offset_count,
    ),
    (
        "offset_metadata_bytes",
        "Metadata in memory that was committed with offsets.",
        GroupCoordinator.offset_metadata_bytes,
    ),
)

_LAGS = (
    ("committed_offset", "Committed offset."),
    ("lag_records", "Records to be read."),
    ("lag_seconds", "Age of the oldest record to be read, 0 if there is none."),
)

GROUPS_TOLD_MAX: Final = 1_000
"""Groups with metrics of their own: their names are the clients' to choose."""
OTHERS: Final = "(others)"
"""Stands for the groups beyond, and for partitions beyond the next limit."""
LAGS_TOLD_MAX: Final = 20_000
"""Partitions of groups that have a lag of their own."""


def group_samples(groups: GroupCoordinator) -> Iterator[Sample]:
    """States, members and counters."""
    for protocol, counts in (
        ("classic", groups.count_by_state()),
        ("consumer", groups.count_consumer_groups()),
        ("share", groups.count_share_groups()),
    ):
        for state, count in counts.items():
            labels = {"state": state, "protocol": protocol}
            yield Sample("barnabas_groups", "gauge", "Groups by state and protocol.", labels, count)
    for name, text, attribute in _COUNTERS:
        value = getattr(groups.metrics, attribute)
        yield Sample(f"barnabas_group_{name}", "counter", text, {}, value)
    for name, text, read in _OFFSETS:
        yield Sample(f"barnabas_group_{name}", "gauge", text, {}, read(groups))
    yield Sample(
        "barnabas_group_load_ms",
        "gauge",
        "How long loading a partition of the offsets topic took last.",
        {},
        groups.runtime.load_ms_last,
    )
    named = groups.named_groups(GROUPS_TOLD_MAX)
    others = 0
    for group_id, count in groups.member_counts():
        if group_id in named:
            yield _members(group_id, count)
        else:
            others += count
    if others:
        yield _members(OTHERS, others)


def _members(group_id: str, count: int) -> Sample:
    return Sample(
        "barnabas_group_members", "gauge", "Members of a group.", {"group": group_id}, count
    )


def lag_samples(groups: GroupCoordinator, lag: GroupLag) -> Iterator[Sample]:
    """The lag of each partition that a group has committed for; nothing where it is not known.

    Of groups that are not named, records are summed up and the oldest age is exposed.
    """
    named = groups.named_groups(GROUPS_TOLD_MAX)
    records: int | None = None
    seconds: float | None = None
    told_count = 0
    for one in lag.read():
        if one.group_id in named and told_count < LAGS_TOLD_MAX:
            told_count += 1
            yield from _lag(
                one.group_id,
                one.topic,
                str(one.partition),
                (one.committed, one.records, one.seconds),
            )
            continue
        if one.records is not None:
            records = (records or 0) + one.records
        if one.seconds is not None:
            seconds = max(seconds or 0.0, one.seconds)
    yield from _lag(OTHERS, "", "", (None, records, seconds))


def _lag(
    group_id: str,
    topic: str,
    partition: str,
    values: tuple[int | None, int | None, float | None],
) -> Iterator[Sample]:
    labels = {"group": group_id, "topic": topic, "partition": partition}
    for (name, text), value in zip(_LAGS, values, strict=True):
        if value is not None:
            yield Sample(f"barnabas_group_{name}", "gauge", text, labels, value)
