"""How long until 500 new topics have leaders?

One CreateTopics call for topics of one partition (`java/CreateTopics.java`), then descriptions
until every partition has a leader. The first call warms the broker up with other topics.
"""

from __future__ import annotations

from benchmarks import clients
from benchmarks.quiet import wait_for_removed_files
from benchmarks.scenario import Figure, Scenario, medians
from benchmarks.trial import Trial, process_of

FIGURES = [
    Figure(name="until created", unit="ms", is_lower_better=True),
    Figure(name="until all have leaders", unit="ms", is_lower_better=True, goal_ratio=1.0),
    Figure(name="broker CPU", unit="s", is_lower_better=True),
]


def measure(trial: Trial) -> dict[str, float]:
    """Milliseconds seen by the client, CPU seconds of the broker."""
    topic_count = trial.size(500, 50)
    wait_for_removed_files(is_quick=trial.is_quick)
    runs = []
    with trial.broker() as broker:
        clients.create_topics(broker, "warm-up", 20, 1)
        for run in range(trial.repeat_count):
            cpu_before = process_of(broker).cpu_seconds()
            result = clients.create_topics(broker, f"run-{run}", topic_count, 1)
            runs.append(
                {
                    "until created": result["created_ms"],
                    "until all have leaders": result["ready_ms"],
                    "broker CPU": process_of(broker).cpu_seconds() - cpu_before,
                }
            )
    return medians(runs)


SCENARIOS = [
    Scenario(
        name="create-topics",
        question="Create 500 topics with one call",
        figures=FIGURES,
        measure=measure,
    )
]
