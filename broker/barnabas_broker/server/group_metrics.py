"""What this broker tells Prometheus about the groups that it coordinates: states, counters, lag.

Source: MET-6 of the behaviour list. Lag is what a consumer would still have to read: log end offset
less the committed offset, or less the log start offset where retention has passed the commit.
"""

from collections.abc import Iterator

from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_protocol.ids import TopicPartition

_COUNTERS = (
    ("rebalances_started_total", "Rebalances begun.", "started_rebalance_count"),
    ("rebalances_completed_total", "Rebalances completed.", "completed_rebalance_count"),
    ("commits_total", "Requests that committed offsets.", "commit_count"),
    ("members_expired_total", "Members whose session ended.", "expired_member_count"),
    ("offsets_expired_total", "Committed offsets that expired.", "expired_offset_count"),
    ("append_failures_total", "Appends to the offsets topic that failed.", "append_failure_count"),
)


def group_samples(groups: GroupCoordinator, replicas: ReplicaManager) -> Iterator[Sample]:
    """States, counters and the lag of each partition that a group has committed for."""
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
    for group, topic, index, committed in groups.committed_offsets():
        partition = replicas.partitions.get(TopicPartition(topic, index))
        if partition is None:
            continue
        log = partition.log
        lag = max(log.high_watermark - max(committed, log.log_start_offset), 0)
        labels = {"group": group, "topic": topic, "partition": str(index)}
        yield Sample("barnabas_group_lag_records", "gauge", "Records to be read.", labels, lag)
        yield Sample(
            "barnabas_group_committed_offset", "gauge", "Committed offset.", labels, committed
        )
