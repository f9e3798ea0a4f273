"""How long does one small request take at 5,000 a second, and what does it cost?

An own client (`java/PacedProducer.java`) sends records of 100 B at an even pace with linger 0, one
record per request. Latencies count from the moment a record was due.
"""

from __future__ import annotations

from functools import partial

from benchmarks import clients
from benchmarks.scenario import Figure, Scenario, medians
from benchmarks.trial import Trial

REQUESTS_PER_SECOND = 5_000

FIGURES = [
    Figure(name="latency p50", unit="µs", is_lower_better=True),
    Figure(name="latency p99", unit="µs", is_lower_better=True, goal_ratio=0.5),
    Figure(name="latency p99.9", unit="µs", is_lower_better=True),
    Figure(name="broker CPU per request", unit="µs", is_lower_better=True, goal_ratio=0.8),
    Figure(name="requests/s reached", unit="1/s", is_lower_better=False),
]


def measure(trial: Trial, *, acks: str) -> dict[str, float]:
    """Percentiles in microseconds; the median of several runs."""
    record_count = trial.size(20, 4) * REQUESTS_PER_SECOND
    runs = []
    with trial.broker() as broker:
        clients.create_topic(broker, "paced")
        for _ in range(trial.repeat_count):
            result, cpu_seconds = clients.produce_paced(
                broker, "paced", record_count, REQUESTS_PER_SECOND, acks
            )
            if result["failures"]:
                raise RuntimeError(f"{result['failures']} requests failed")
            runs.append(
                {
                    "latency p50": result["p50_us"],
                    "latency p99": result["p99_us"],
                    "latency p99.9": result["p999_us"],
                    "broker CPU per request": cpu_seconds / record_count * 1e6,
                    "requests/s reached": result["rate"],
                }
            )
    return medians(runs)


SCENARIOS = [
    Scenario(
        name="paced-acks-1",
        question="5,000 requests/s of one 100 B record, linger 0, acks=1",
        figures=FIGURES,
        measure=partial(measure, acks="1"),
    ),
    Scenario(
        name="paced-acks-all",
        question="5,000 requests/s of one 100 B record, linger 0, acks=all",
        figures=FIGURES,
        measure=partial(measure, acks="all"),
    ),
]
