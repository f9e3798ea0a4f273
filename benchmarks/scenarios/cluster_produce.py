"""What does a replicated record cost?

Three brokers, one topic of six partitions and three replicas, min.insync.replicas=2; Kafka's
ProducerPerformance with acks=all as fast as it goes. Processor time is that of all brokers.
Measured on an otherwise empty cluster, and on one with 3,000 idle partitions of three replicas.
"""

from __future__ import annotations

from functools import partial

from benchmarks import clients
from benchmarks.cluster import Cluster, cluster
from benchmarks.scenario import Figure, Scenario, medians
from benchmarks.trial import Trial

RECORD_BYTES = 1024
PARTITION_COUNT = 6
IDLE_TOPICS = 1000


def measure(trial: Trial, *, idle_topic_count: int) -> dict[str, float]:
    """Records a second and processor seconds a GiB; the median of several runs."""
    record_count = trial.size(500_000, 20_000)
    runs = []
    with cluster(trial) as brokers:
        if idle_topic_count:
            brokers.create_topics("idle", trial.size(idle_topic_count, 10), 3)
        _warm_up(brokers, trial.size(200_000, 5_000))
        for run in range(trial.repeat_count):
            brokers.create_topics(f"run{run}", 1, PARTITION_COUNT)
            load = clients.produce(brokers, f"run{run}-0", record_count, RECORD_BYTES, "acks=all")
            gibibytes = record_count * RECORD_BYTES / (1 << 30)
            runs.append(
                {
                    "records/s": load.records_per_second,
                    "CPU per GiB": load.broker_cpu_seconds / gibibytes,
                    "latency p99": load.p99_ms,
                }
            )
    return medians(runs)


def _warm_up(brokers: Cluster, record_count: int) -> None:
    """A load that does not count: a JVM compiles what it is busy with, for half a minute."""
    brokers.create_topics("warm", 1, PARTITION_COUNT)
    clients.produce(brokers, "warm-0", record_count, RECORD_BYTES, "acks=all")


SCENARIOS = [
    Scenario(
        name="cluster-produce",
        question="Three brokers, RF 3, acks=all, 1 KiB records to 6 partitions",
        figures=[
            Figure(name="records/s", unit="1/s", is_lower_better=False, goal_ratio=1.5),
            Figure(name="CPU per GiB", unit="s", is_lower_better=True, goal_ratio=0.5),
            Figure(name="latency p99", unit="ms", is_lower_better=True),
        ],
        measure=partial(measure, idle_topic_count=0),
    ),
    Scenario(
        name="cluster-produce-beside-idle",
        question="The same beside 3,000 idle partitions of three replicas",
        figures=[
            Figure(name="records/s", unit="1/s", is_lower_better=False, goal_ratio=1.5),
            Figure(name="CPU per GiB", unit="s", is_lower_better=True, goal_ratio=0.5),
            Figure(name="latency p99", unit="ms", is_lower_better=True),
        ],
        measure=partial(measure, idle_topic_count=IDLE_TOPICS),
    ),
]
