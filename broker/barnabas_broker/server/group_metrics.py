"""What this broker tells Prometheus about the groups that it coordinates: states, counters, lag.

Source: MET-6 of the behaviour list. Only the coordinator of a group tells of it, so that sums over
all brokers are right; what lag is and how it is found out is in `group_lag.py`.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.server.group_lag import GroupLag

_COUNTERS = (
    ("rebalances_started_total", "Rebalances begun.", "started_rebalance_count"),
    ("rebalances_completed_total", "Rebalances completed.", "completed_rebalance_count"),
    ("commits_total", "Requests that committed offsets.", "commit_count"),
    ("members_expired_total", "Members whose session ended.", "expired_member_count"),
    ("offsets_expired_total", "Committed offsets that expired.", "expired_offset_count"),
    ("append_failures_total", "Appends to the offsets topic that failed.", "append_failure_count"),
)


GROUPS_TOLD_MAX: Final = 1_000
"""Groups with metrics of their own: their names are the clients' to choose."""
OTHERS: Final = "(others)"
"""Stands for the groups beyond."""
LAGS_TOLD_MAX: Final = 20_000
"""Partitions of groups whose lag is told."""


def group_samples(groups: GroupCoordinator) -> Iterator[Sample]:
    """States, members and counters."""
    for state, count in groups.count_by_state().items():
        yield Sample("barnabas_groups", "gauge", "Groups by state.", {"state": state}, count)
    for name, text, attribute in _COUNTERS:
        value = getattr(groups.metrics, attribute)
        yield Sample(f"barnabas_group_{name}", "counter", text, {}, value)
    yield Sample(
        "barnabas_group_load_ms",
        "gauge",
        "How long loading a partition of the offsets topic took last.",
        {},
        groups.runtime.load_ms_last,
    )
    others = 0
    for index, (group_id, count) in enumerate(groups.member_counts()):
        if index >= GROUPS_TOLD_MAX:
            others += count
            continue
        yield Sample(
            "barnabas_group_members", "gauge", "Members of a group.", {"group": group_id}, count
        )
    if others:
        yield Sample(
            "barnabas_group_members", "gauge", "Members of a group.", {"group": OTHERS}, others
        )


def lag_samples(lag: GroupLag) -> Iterator[Sample]:
    """The lag of each partition that a group has committed for; nothing where it is not known."""
    for one in islice(lag.read(), LAGS_TOLD_MAX):
        labels = {"group": one.group_id, "topic": one.topic, "partition": str(one.partition)}
        for name, text, value in (
            ("committed_offset", "Committed offset.", one.committed),
            ("lag_records", "Records to be read.", one.records),
            (
                "lag_seconds",
                "Age of the oldest record to be read, 0 if there is none.",
                one.seconds,
            ),
        ):
            if value is not None:
                yield Sample(f"barnabas_group_{name}", "gauge", text, labels, value)
