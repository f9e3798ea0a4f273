"""How long is a cluster silent when one of its brokers goes?

Three brokers, 12 partitions of three replicas, min.insync.replicas=2, one Java producer with
default settings (idempotent, acks=all) at an even pace. One broker is killed (kill -9), comes
back and is waited for until all is in sync; then each broker in turn is told to stop (SIGTERM)
and started again. Silence is the longest time without an acknowledgement: of any partition, and
of the worst single partition. The controller of Barnabas is among the brokers that stop; of
Kafka, too.
"""

from __future__ import annotations

import time
from typing import Any

from barnabas_client.admin.admin import Admin
from benchmarks import clients
from benchmarks.clients import PacedLoad
from benchmarks.cluster import Cluster, are_in_sync, cluster, until
from benchmarks.scenario import Figure, Scenario
from benchmarks.trial import Trial

PARTITION_COUNT = 12
TOPIC = "failover-0"

FIGURES = [
    Figure(name="kill -9: silence", unit="ms", is_lower_better=True, goal_value=1000),
    Figure(
        name="kill -9: silence of the worst partition",
        unit="ms",
        is_lower_better=True,
        goal_value=1000,
    ),
    Figure(name="kill -9 of the controller: silence", unit="ms", is_lower_better=True),
    Figure(name="SIGTERM: silence", unit="ms", is_lower_better=True, goal_value=100),
    Figure(
        name="SIGTERM: silence of the worst partition",
        unit="ms",
        is_lower_better=True,
        goal_value=100,
    ),
    Figure(name="SIGTERM: p99", unit="ms", is_lower_better=True, goal_value=100),
    Figure(name="undisturbed: p99", unit="ms", is_lower_better=True),
    Figure(name="failed records", unit="", is_lower_better=True, goal_value=0),
]


def measure(trial: Trial) -> dict[str, float]:
    """The worst over all brokers; milliseconds."""
    per_second = 1000
    settle_seconds = trial.size(5, 2)
    with cluster(trial) as brokers:
        brokers.create_topics("failover", 1, PARTITION_COUNT)
        records_max = per_second * 600
        with clients.paced_failover(
            brokers, TOPIC, PARTITION_COUNT, per_second, records_max
        ) as load:
            load.mark("warm-up")
            time.sleep(settle_seconds)
            load.mark("undisturbed")
            time.sleep(settle_seconds)
            load.mark("before the kill")  # what is under way then is not undisturbed
            controller_id = brokers.controller_id()
            others = [node_id for node_id in brokers.brokers if node_id != controller_id]
            _hurt(brokers, load, others[0], "kill", settle_seconds)
            _hurt(brokers, load, controller_id, "kill-controller", settle_seconds)
            for node_id in brokers.brokers:
                _hurt(brokers, load, node_id, f"stop-{node_id}", settle_seconds)
        return _figures(load.result)


def _hurt(
    brokers: Cluster, load: PacedLoad, node_id: int, phase: str, settle_seconds: float
) -> None:
    """Take one broker away, wait, bring it back, wait until all replicas are in sync."""
    broker = brokers.brokers[node_id]
    load.mark(phase)
    if phase.startswith("kill"):
        broker.kill()
    else:
        broker.stop()
    time.sleep(settle_seconds + (10 if phase.startswith("kill") else 0))
    load.mark(f"return-{phase}")
    broker.start()

    async def caught_up(admin: Admin) -> None:
        await until(lambda: are_in_sync(admin, [TOPIC]))

    brokers.run(caught_up)
    time.sleep(settle_seconds)


def _figures(result: dict[str, Any]) -> dict[str, float]:
    phases = {phase["name"]: phase for phase in result["phases"]}
    stops = [phase for name, phase in phases.items() if name.startswith("stop-")]
    return {
        "kill -9: silence": phases["kill"]["silence_ms"],
        "kill -9: silence of the worst partition": phases["kill"]["partition_silence_ms"],
        "kill -9 of the controller: silence": phases["kill-controller"]["silence_ms"],
        "SIGTERM: silence": max(phase["silence_ms"] for phase in stops),
        "SIGTERM: silence of the worst partition": max(
            phase["partition_silence_ms"] for phase in stops
        ),
        "SIGTERM: p99": max(phase["p99_ms"] for phase in stops),
        "undisturbed: p99": phases["undisturbed"]["p99_ms"],
        "failed records": result["failures"],
    }


SCENARIOS = [
    Scenario(
        name="cluster-failover",
        question="Three brokers, 12 partitions, 1,000 records/s, acks=all: brokers killed, stopped",
        figures=FIGURES,
        measure=measure,
    )
]
