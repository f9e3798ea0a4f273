"""What Prometheus is told of the partitions led here: in sync or not, sent, ISRs that changed.

Read at scrape time. Source: MET-1 and MET-7 of the behaviour list.
"""

from collections.abc import Iterator

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.replication.isr_changes import IsrChanges
from barnabas_broker.replication.replica_manager import ReplicaManager


def leader_samples(replicas: ReplicaManager) -> Iterator[Sample]:
    """The partitions led here, and what leaders have asked of the controller."""
    led = [partition for partition in replicas.partitions.values() if partition.is_leader]
    for name, text, value in (
        (
            "under_replicated_partitions",
            "Partitions led here of which a replica is not in sync.",
            # Those that a reassignment adds are not missed yet, as in Apache Kafka.
            sum(
                len(p.image.isr) < len(p.image.replicas) - len(p.image.adding_replicas) for p in led
            ),
        ),
        (
            "under_min_isr_partitions",
            "Partitions led here with fewer replicas in sync than acks=all needs.",
            sum(p.is_under_min_isr for p in led),
        ),
        (
            "at_min_isr_partitions",
            "Replicated partitions led here with just as many in sync as acks=all needs.",
            sum(p.is_replicated and len(p.image.isr) == p.minimum_in_sync for p in led),
        ),
        (
            "reassigning_partitions",
            "Partitions led here that are being moved.",
            sum(p.image.is_reassigning for p in led),
        ),
    ):
        yield Sample(f"barnabas_{name}", "gauge", text, {}, value)
    yield Sample(
        "barnabas_replication_bytes_out_total",
        "counter",
        "Bytes of record batches that followers were sent.",
        {},
        sum(partition.bytes_to_followers for partition in replicas.partitions.values()),
    )
    changes = replicas.isr_changes
    if not isinstance(changes, IsrChanges):
        return
    yield Sample(
        "barnabas_isr_changes_pending",
        "gauge",
        "ISRs that the controller was asked for without an answer yet.",
        {},
        changes.pending_count,
    )
    for name, text, value in (
        ("isr_shrinks", "ISRs that a replica has left for lagging behind.", changes.shrinks_count),
        ("isr_expands", "ISRs that a replica has joined.", changes.expands_count),
        ("isr_change_failures", "Answers that refused an ISR.", changes.failures_count),
    ):
        yield Sample(f"barnabas_{name}_total", "counter", text, {}, value)
