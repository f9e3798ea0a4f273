"""How long from exec until a broker answers?

On a data folder that an earlier run left behind cleanly (so that formatting is not counted), until
an ApiVersions request has its answer. The CPU time up to then tells what the start costs.
"""

from __future__ import annotations

import shutil
import time

from benchmarks.scenario import Figure, Scenario, medians
from benchmarks.trial import Trial, end, process_of, wait_until_answering

FIGURES = [
    Figure(name="exec to first answer", unit="s", is_lower_better=True, goal_ratio=0.1),
    Figure(name="CPU until then", unit="s", is_lower_better=True),
    Figure(name="clean stop", unit="s", is_lower_better=True),
]


def measure(trial: Trial) -> dict[str, float]:
    """The median of several starts; the first one on an empty folder does not count."""
    broker = trial.new_broker()
    runs = []
    try:
        broker.start()
        wait_until_answering(broker)
        end(broker)
        for _ in range(max(trial.repeat_count, 3)):
            broker.start()
            seconds = wait_until_answering(broker)
            cpu_seconds = process_of(broker).cpu_seconds()
            stop_began = time.monotonic()
            end(broker)
            runs.append(
                {
                    "exec to first answer": seconds,
                    "CPU until then": cpu_seconds,
                    "clean stop": time.monotonic() - stop_began,
                }
            )
    finally:
        end(broker)
        shutil.rmtree(broker.directory, ignore_errors=True)
    return medians(runs)


SCENARIOS = [
    Scenario(
        name="start",
        question="Start on the folder of an earlier run",
        figures=FIGURES,
        measure=measure,
    )
]
