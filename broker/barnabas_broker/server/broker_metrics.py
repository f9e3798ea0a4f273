"""What this broker tells Prometheus about itself, its partitions and its groups.

Read at scrape time from the objects that own the numbers. Source: MET-1 to MET-6 of the behaviour
list. Network and purgatories tell their own.
"""

from collections.abc import Callable, Iterator

from barnabas_broker.handlers.dispatch import Dispatcher
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.replication.fetch_session import FetchSessionCache
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.server.broker_state import BrokerState
from barnabas_broker.server.leader_metrics import leader_samples

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


_STATES = "0 stopped, 1 starting, 2 recovering, 3 running, 6 draining, 7 stopping"


def broker_samples(
    replicas: ReplicaManager,
    dispatcher: Dispatcher,
    sessions: FetchSessionCache,
    state: Callable[[], BrokerState],
) -> Iterator[Sample]:
    """The broker as a whole."""
    image = replicas.image
    partitions = replicas.partitions.values()
    offline = sum(
        partition.leader < 0
        for topic in image.topics.by_name.values()
        for partition in topic.partitions
    )
    for name, text, value in (
        (
            "broker_state",
            "0 stopped, 1 starting, 2 recovering, 3 running, 6 draining, 7 stopping.",
            state(),
        ),
        ("controller_epoch", "The controller epoch of the newest metadata record.", image.epoch),
        ("metadata_offset", "Offset of the newest metadata record applied.", image.offset),
        ("topics", "Topics of the cluster.", len(image.topics.by_name)),
        ("partitions", "Partitions with a replica here.", len(partitions)),
        ("leaders", "Partitions led here.", sum(p.is_leader for p in partitions)),
        ("offline_partitions", "Partitions without a leader.", offline),
        ("fetch_sessions", "Fetch sessions kept.", len(sessions)),
        ("fetch_session_partitions", "Partitions in fetch sessions.", sessions.partitions_count),
        ("handlers_running", "Requests at work in coroutines.", dispatcher.running_count),
    ):
        yield Sample(f"barnabas_{name}", "gauge", text, {}, value)
    yield from leader_samples(replicas)
    yield Sample(
        "barnabas_produce_refused_full_total",
        "counter",
        "Appends that were refused because the disk is full.",
        {},
        replicas.refused_full_count,
    )
    yield Sample(
        "barnabas_fetch_session_evictions_total",
        "counter",
        "Fetch sessions that gave way to others.",
        {},
        sessions.evictions_count,
    )
    for api in dispatcher.apis.values():
        yield Sample(
            "barnabas_request_failures_total",
            "counter",
            "Requests that failed as a whole.",
            {"api": api.key.name},
            api.errors_count,
        )
