"""How much memory does a broker hold, idle and under load?

Resident memory as the kernel counts it: some seconds after a start with nothing to do, and the peak
after a producer and a consumer moved some GiB through four topics of four partitions.
"""

from __future__ import annotations

import time

from benchmarks import clients
from benchmarks.scenario import Figure, Scenario
from benchmarks.trial import Trial, peak_resident_bytes, process_of

_MEBIBYTE = 1 << 20
_SETTLE_SECONDS = 5

FIGURES = [
    Figure(name="idle", unit="MiB", is_lower_better=True, goal_value=80),
    Figure(name="peak under load", unit="MiB", is_lower_better=True, goal_value=250),
    Figure(name="after the load", unit="MiB", is_lower_better=True),
    Figure(name="idle CPU", unit="ms/s", is_lower_better=True),
]


def measure(trial: Trial) -> dict[str, float]:
    """Mebibytes of resident memory; CPU milliseconds per second while nothing happens."""
    record_count = trial.size(500_000, 50_000)
    with trial.broker() as broker:
        time.sleep(_SETTLE_SECONDS)
        process = process_of(broker)
        idle = process.resident_bytes()
        cpu_before = process.cpu_seconds()
        time.sleep(_SETTLE_SECONDS * 2)
        idle_cpu = (process.cpu_seconds() - cpu_before) / (_SETTLE_SECONDS * 2)
        for number in range(4):
            topic = f"memory-{number}"
            clients.create_topic(broker, topic, partition_count=4)
            clients.produce(broker, topic, record_count, 1024, "acks=all", "batch.size=131072")
            clients.consume(broker, topic, record_count)
        time.sleep(_SETTLE_SECONDS)
        return {
            "idle": idle / _MEBIBYTE,
            "peak under load": peak_resident_bytes(broker) / _MEBIBYTE,
            "after the load": process.resident_bytes() / _MEBIBYTE,
            "idle CPU": idle_cpu * 1000,
        }


SCENARIOS = [
    Scenario(
        name="memory",
        question="Resident memory, idle and loaded",
        figures=FIGURES,
        measure=measure,
    )
]
