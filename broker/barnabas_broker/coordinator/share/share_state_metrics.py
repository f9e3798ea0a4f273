"""What this broker tells Prometheus about the state of share partitions. Source: KIP-932, MET-6."""

from collections.abc import Iterator

from barnabas_broker.coordinator.share.coordinator import ShareCoordinator
from barnabas_broker.coordinator.share.state_persister import StatePersister
from barnabas_broker.metrics.sample import Sample

_COUNTERS = (
    ("snapshots_total", "States of share partitions written as a whole.", "snapshot_count"),
    ("updates_total", "Changes of share partitions written.", "update_count"),
    ("tombstones_total", "Share partitions forgotten.", "tombstone_count"),
    (
        "append_failures_total",
        "Appends to the share state topic that failed.",
        "append_failure_count",
    ),
)
_REQUESTS = (
    ("requests_total", "Requests to share coordinators.", "request_count"),
    ("request_failures_total", "Those of them without a response.", "failure_count"),
    ("repetitions_total", "Operations on share partitions that were repeated.", "repetition_count"),
)


def share_state_samples(
    coordinator: ShareCoordinator, persister: StatePersister
) -> Iterator[Sample]:
    """Share partitions, writes and their time, cuts of the log, requests to coordinators."""
    metrics = coordinator.metrics
    yield Sample(
        "barnabas_share_state_partitions",
        "gauge",
        "Share partitions whose state is kept here.",
        {},
        metrics.share_partition_count,
    )
    yield Sample(
        "barnabas_share_state_bytes",
        "gauge",
        "Memory that the states of share partitions take, roughly.",
        {},
        metrics.state_bytes,
    )
    for name, text, attribute in _COUNTERS:
        value = getattr(metrics, attribute)
        yield Sample(f"barnabas_share_state_{name}", "counter", text, {}, value)
    yield Sample(
        "barnabas_share_state_writes_total",
        "counter",
        "Requests to write states of share partitions.",
        {},
        coordinator.write_count,
    )
    yield Sample(
        "barnabas_share_state_write_seconds_total",
        "counter",
        "How long these took in all, until they were committed.",
        {},
        coordinator.write_ms_total / 1000,
    )
    for partition, offset in sorted(coordinator.pruned_offsets.items()):
        yield Sample(
            "barnabas_share_state_pruned_offset",
            "gauge",
            "Below it nothing of a partition of the share state topic is needed.",
            {"partition": str(partition)},
            offset,
        )
    yield Sample(
        "barnabas_share_state_load_ms",
        "gauge",
        "How long loading a partition of the share state topic took last.",
        {},
        coordinator.runtime.load_ms_last,
    )
    for name, text, attribute in _REQUESTS:
        value = getattr(persister, attribute)
        yield Sample(f"barnabas_share_persister_{name}", "counter", text, {}, value)
