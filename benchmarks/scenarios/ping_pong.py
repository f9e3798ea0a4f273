"""How long does a record take from a producer to a waiting consumer?

An own client (`java/PingPong.java`) sends a record of 100 B with acks=all, waits until its consumer
has it, then sends the next: nothing else happens on the broker.
"""

from __future__ import annotations

from benchmarks import clients
from benchmarks.scenario import Figure, Scenario, medians
from benchmarks.trial import Trial

FIGURES = [
    Figure(name="round trip p50", unit="µs", is_lower_better=True, goal_ratio=1.0),
    Figure(name="round trip p99", unit="µs", is_lower_better=True, goal_ratio=1.0),
    Figure(name="broker CPU per round", unit="µs", is_lower_better=True, goal_ratio=0.8),
]


def measure(trial: Trial) -> dict[str, float]:
    """Percentiles in microseconds; the median of several runs."""
    round_count = trial.size(20_000, 2_000)
    runs = []
    with trial.broker() as broker:
        clients.create_topic(broker, "ping-pong")
        for _ in range(trial.repeat_count):
            result, cpu_seconds = clients.ping_pong(broker, "ping-pong", round_count, "all")
            runs.append(
                {
                    "round trip p50": result["p50_us"],
                    "round trip p99": result["p99_us"],
                    "broker CPU per round": cpu_seconds / round_count * 1e6,
                }
            )
    return medians(runs)


SCENARIOS = [
    Scenario(
        name="ping-pong",
        question="One record to a waiting consumer, one after the other",
        figures=FIGURES,
        measure=measure,
    )
]
