"""How long until a broker that was killed serves its records again?

Several GiB in one partition, then SIGKILL right after the last acknowledgement, then a start on the
same folder: until ApiVersions is answered, and until ListOffsets gives the end of the partition
with every acknowledged record below it.
"""

from __future__ import annotations

import shutil

from benchmarks import clients
from benchmarks.scenario import Figure, Scenario
from benchmarks.trial import (
    Trial,
    end,
    log_end_offset,
    process_of,
    wait_until_answering,
)

_TOPIC = "restart"

FIGURES = [
    Figure(name="exec to first answer", unit="s", is_lower_better=True),
    Figure(name="exec to all records", unit="s", is_lower_better=True, goal_value=2.0),
    Figure(name="CPU until then", unit="s", is_lower_better=True),
]


def measure(trial: Trial) -> dict[str, float]:
    """Seconds from exec, after one kill; the log holds 4 GiB in a full run."""
    record_count = trial.size(4_000_000, 300_000)
    broker = trial.new_broker()
    try:
        broker.start()
        wait_until_answering(broker)
        clients.create_topic(broker, _TOPIC)
        clients.produce(broker, _TOPIC, record_count, 1024, "acks=all", "batch.size=65536")
        broker.kill()
        broker.start()
        answered = wait_until_answering(broker)
        served = wait_until_answering(broker, _TOPIC, record_count)
        cpu_seconds = process_of(broker).cpu_seconds()
        found = log_end_offset(broker.port, _TOPIC)
        if found != record_count:
            raise RuntimeError(f"{found} of {record_count} records after the kill")
    finally:
        end(broker)
        shutil.rmtree(broker.directory, ignore_errors=True)
    return {
        "exec to first answer": answered,
        "exec to all records": served,
        "CPU until then": cpu_seconds,
    }


SCENARIOS = [
    Scenario(
        name="restart",
        question="Restart after kill -9 with 4 GiB",
        figures=FIGURES,
        measure=measure,
    )
]
