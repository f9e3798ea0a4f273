"""Partitions with a replica here as metrics: leaders, followers, offsets, bytes, ISR changes.

Read at scrape time from the objects that own the numbers. Source: MET-1, MET-4, MET-7.
"""

from collections.abc import Callable, Iterator

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.replication.leader.alter_partition_manager import AlterPartitionManager
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager

PartitionValue = Callable[[Partition], float]

_PARTITION_METRICS: tuple[tuple[str, str, str, PartitionValue], ...] = (
    (
        "barnabas_partition_log_start_offset",
        "gauge",
        "First offset that can be read.",
        lambda partition: partition.log.log_start_offset,
    ),
    (
        "barnabas_partition_log_end_offset",
        "gauge",
        "Next offset to be assigned.",
        lambda partition: partition.log.log_end_offset,
    ),
    (
        "barnabas_partition_high_watermark",
        "gauge",
        "Below it records are committed.",
        lambda partition: partition.log.high_watermark,
    ),
    (
        "barnabas_partition_size_bytes",
        "gauge",
        "Bytes of record batches on disk.",
        lambda partition: partition.log.size_bytes,
    ),
    (
        "barnabas_partition_segments",
        "gauge",
        "Segments of its log.",
        lambda partition: len(partition.log.segments),
    ),
    (
        "barnabas_partition_bytes_in_total",
        "counter",
        "Bytes of record batches appended.",
        lambda partition: partition.bytes_in,
    ),
    (
        "barnabas_partition_records_in_total",
        "counter",
        "Records appended.",
        lambda partition: partition.records_in,
    ),
    (
        "barnabas_partition_bytes_out_total",
        "counter",
        "Bytes of record batches read by clients.",
        lambda partition: partition.bytes_out,
    ),
    (
        "barnabas_partition_bytes_rejected_total",
        "counter",
        "Bytes of record batches that were refused.",
        lambda partition: partition.bytes_rejected,
    ),
)


def partition_samples(replicas: ReplicaManager) -> Iterator[Sample]:
    """One sample per metric and partition."""
    for name, kind, text, read in _PARTITION_METRICS:
        for topic_partition, partition in replicas.partitions.items():
            labels = {
                "topic": topic_partition.topic,
                "partition": str(topic_partition.partition),
            }
            yield Sample(name, kind, text, labels, read(partition))


def replica_samples(replicas: ReplicaManager) -> Iterator[Sample]:
    """How many replicas are here, and which appends were refused."""
    partitions = replicas.partitions.values()
    for name, text, value in (
        ("partitions", "Partitions with a replica here.", len(partitions)),
        ("leaders", "Partitions led here.", sum(p.is_leader for p in partitions)),
    ):
        yield Sample(f"barnabas_{name}", "gauge", text, {}, value)
    yield Sample(
        "barnabas_produce_refused_full_total",
        "counter",
        "Appends that were refused because the disk is full.",
        {},
        replicas.leader_append.refused_full_count,
    )
    for reason, count in replicas.leader_append.refusals.by_reason.items():
        yield Sample(
            "barnabas_produce_refused_batches_total",
            "counter",
            "Record batches of producers that were refused, by what was wrong with them.",
            {"reason": reason.value},
            count,
        )


def leader_samples(replicas: ReplicaManager) -> Iterator[Sample]:
    """The partitions led here, and the ISRs that their leaders have proposed."""
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
    changes = replicas.alter_partition_manager
    if not isinstance(changes, AlterPartitionManager):
        return
    yield Sample(
        "barnabas_isr_changes_pending",
        "gauge",
        "Proposed ISRs without a response of the controller yet.",
        {},
        changes.pending_count,
    )
    for name, text, value in (
        ("isr_shrinks", "ISRs that a replica has left for lagging behind.", changes.shrinks_count),
        ("isr_expands", "ISRs that a replica has joined.", changes.expands_count),
        ("isr_change_failures", "Proposed ISRs that were refused.", changes.failures_count),
    ):
        yield Sample(f"barnabas_{name}_total", "counter", text, {}, value)


def replication_samples(replicas: ReplicaManager) -> Iterator[Sample]:
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
                "Truncations of followers' logs.",
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
