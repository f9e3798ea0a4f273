"""How many transactions a second does one producer commit, and what does each cost?

An own client (`java/TransactionalProducer.java`) writes transactions one after the other, each with
100 records of 100 B over four partitions; the coordinator is the same broker.
"""

from __future__ import annotations

from benchmarks import clients
from benchmarks.scenario import Figure, Scenario, medians
from benchmarks.trial import Trial

PARTITIONS = 4

FIGURES = [
    Figure(name="transactions/s", unit="1/s", is_lower_better=False, goal_ratio=1.0),
    Figure(name="broker CPU per transaction", unit="µs", is_lower_better=True, goal_ratio=0.5),
    Figure(name="commit p50", unit="µs", is_lower_better=True),
    Figure(name="commit p99", unit="µs", is_lower_better=True),
]


def measure(trial: Trial) -> dict[str, float]:
    """The median of several runs."""
    count = trial.size(10_000, 1_000)
    runs = []
    with trial.broker() as broker:
        clients.create_topic(broker, "transactions", partition_count=PARTITIONS)
        for _ in range(trial.repeat_count):
            result, cpu_seconds = clients.commit_transactions(
                broker, "transactions", PARTITIONS, count
            )
            runs.append(
                {
                    "transactions/s": result["per_second"],
                    "broker CPU per transaction": cpu_seconds / count * 1e6,
                    "commit p50": result["commit_p50_us"],
                    "commit p99": result["commit_p99_us"],
                }
            )
    return medians(runs)


SCENARIOS = [
    Scenario(
        name="transactions",
        question="Transactions of 100 records of 100 B on four partitions, one after the other",
        figures=FIGURES,
        measure=measure,
    )
]
