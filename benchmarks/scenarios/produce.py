"""How many records a second does one producer get into one partition, and what does a GiB cost?

Kafka's ProducerPerformance with its defaults (batches of 16 KiB, linger 5 ms) against a topic of
one partition: after a warm-up, several runs; the median counts. acks=all makes the producer
idempotent, as the Java client does by default.
"""

from __future__ import annotations

from functools import partial

from benchmarks import clients
from benchmarks.scenario import Figure, Scenario, medians
from benchmarks.trial import Trial

_GIBIBYTE = 1 << 30

FIGURES = [
    Figure(name="records/s", unit="1/s", is_lower_better=False, goal_ratio=1.0),
    Figure(name="broker CPU per GiB", unit="s", is_lower_better=True, goal_ratio=0.8),
    Figure(name="latency p99 at full load", unit="ms", is_lower_better=True),
]


def measure(
    trial: Trial, *, record_bytes: int, full: int, properties: tuple[str, ...]
) -> dict[str, float]:
    """Rate and CPU of the broker for records of one size."""
    record_count = trial.size(full, full // 10)
    runs = []
    with trial.broker() as broker:
        clients.create_topic(broker, "produce")
        clients.produce(broker, "produce", record_count // 2, record_bytes, *properties)
        for _ in range(trial.repeat_count):
            load = clients.produce(broker, "produce", record_count, record_bytes, *properties)
            gibibytes = record_count * record_bytes / _GIBIBYTE
            runs.append(
                {
                    "records/s": load.records_per_second,
                    "broker CPU per GiB": load.broker_cpu_seconds / gibibytes,
                    "latency p99 at full load": load.p99_ms,
                }
            )
    return medians(runs)


def _scenario(name: str, question: str, record_bytes: int, *properties: str) -> Scenario:
    full = 1_000_000 if record_bytes > 500 else 3_000_000
    bound = partial(measure, record_bytes=record_bytes, full=full, properties=properties)
    return Scenario(name=name, question=question, figures=FIGURES, measure=bound)


SCENARIOS = [
    _scenario("produce-1k-acks-1", "Produce 1 KiB records, acks=1", 1024, "acks=1"),
    _scenario("produce-1k-acks-all", "Produce 1 KiB records, acks=all", 1024, "acks=all"),
    _scenario("produce-100b-acks-1", "Produce 100 B records, acks=1", 100, "acks=1"),
    _scenario("produce-100b-acks-all", "Produce 100 B records, acks=all", 100, "acks=all"),
    _scenario(
        "produce-1k-lz4",
        "Produce 1 KiB records, acks=all, lz4 (GiB before compression)",
        1024,
        "acks=all",
        "compression.type=lz4",
    ),
]
