"""What Prometheus is told of following and moving replicas (MET-7).

Read from the owners' integers when it is asked for.
"""

from collections.abc import Iterator

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.replication.replica_set import ReplicaSet


def replication_samples(replicas: ReplicaSet) -> Iterator[Sample]:
    """What is followed from other brokers, and what moves between directories."""
    fetchers = replicas.fetchers
    if fetchers is not None:
        for name, text, value in (
            ("followed_partitions", "Partitions that are followed.", fetchers.followed_count),
            (
                "failed_partitions",
                "Partitions that are no longer fetched after a fault of this broker.",
                fetchers.failed_count,
            ),
            ("fetchers", "Connections over which leaders are followed.", len(fetchers)),
            (
                "lag_records_max",
                "The most committed records that a partition followed here lacks.",
                fetchers.lag_max,
            ),
        ):
            yield Sample(f"barnabas_replication_{name}", "gauge", text, {}, value)
        for name, text, value in (
            ("bytes_in_total", "Bytes that were fetched from leaders.", fetchers.bytes_in),
            (
                "truncations_total",
                "Logs cut to their leaders'.",
                fetchers.truncation_count,
            ),
        ):
            yield Sample(f"barnabas_replication_{name}", "counter", text, {}, value)
    yield Sample(
        "barnabas_log_moves",
        "gauge",
        "Replicas on their way to another log directory.",
        {},
        len(replicas.future_logs.moving),
    )
