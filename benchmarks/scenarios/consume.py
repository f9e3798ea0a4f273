"""How many records a second does one consumer read, and what does a GiB cost?

Kafka's ConsumerPerformance, a group of one member, from the start of a topic of one partition that
lies in the page cache but mostly not in the broker's own memory.
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
]


def measure(trial: Trial, *, record_bytes: int, full: int) -> dict[str, float]:
    """Rate and CPU of the broker for records of one size; every run reads all of them."""
    record_count = trial.size(full, full // 10)
    runs = []
    with trial.broker() as broker:
        clients.create_topic(broker, "consume")
        clients.produce(broker, "consume", record_count, record_bytes, "acks=all")
        clients.consume(broker, "consume", record_count // 2)
        for _ in range(trial.repeat_count):
            load = clients.consume(broker, "consume", record_count)
            gibibytes = record_count * record_bytes / _GIBIBYTE
            runs.append(
                {
                    "records/s": load.records_per_second,
                    "broker CPU per GiB": load.broker_cpu_seconds / gibibytes,
                }
            )
    return medians(runs)


SCENARIOS = [
    Scenario(
        name="consume-1k",
        question="Consume 1 KiB records",
        figures=FIGURES,
        measure=partial(measure, record_bytes=1024, full=2_000_000),
    ),
    Scenario(
        name="consume-100b",
        question="Consume 100 B records",
        figures=FIGURES,
        measure=partial(measure, record_bytes=100, full=6_000_000),
    ),
]
