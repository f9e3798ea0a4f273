"""What do many partitions cost a cluster?

Three brokers, topics of three partitions and three replicas: how long until they are created and
until every replica is in sync, what an idle broker then takes of a core and of memory, and how
long it takes until every partition has a live leader again after one broker was killed.
"""

from __future__ import annotations

import time
from functools import partial

from barnabas_client.admin.admin import Admin
from benchmarks.cluster import Cluster, cluster, until
from benchmarks.quiet import wait_for_removed_files
from benchmarks.scenario import Figure, Scenario
from benchmarks.trial import Trial, process_of

PARTITIONS_PER_TOPIC = 3
TOPICS_PER_CALL = 500


def measure(trial: Trial, *, topic_count: int) -> dict[str, float]:
    """Seconds, percent of a core and MiB of the dearest broker."""
    topic_count = trial.size(topic_count, 20)
    wait_for_removed_files(is_quick=trial.is_quick)
    idle_seconds = trial.size(30, 3)
    with cluster(trial) as brokers:
        created = in_sync = 0.0
        for start in range(0, topic_count, TOPICS_PER_CALL):
            count = min(TOPICS_PER_CALL, topic_count - start)
            seconds = brokers.create_topics(f"scale{start}", count, PARTITIONS_PER_TOPIC)
            created += seconds["created"]
            in_sync += seconds["in sync"]
        time.sleep(idle_seconds / 3)
        before = {node_id: _cpu(brokers, node_id) for node_id in brokers.brokers}
        time.sleep(idle_seconds)
        idle = max(_cpu(brokers, node_id) - before[node_id] for node_id in before)
        memory = max(process_of(one).resident_bytes() for one in brokers.brokers.values())
        return {
            "created": created,
            "all in sync": in_sync,
            "idle CPU of a broker": idle / idle_seconds * 100,
            "memory of a broker": memory / (1 << 20),
            "failover": _failover(brokers),
        }


def _cpu(brokers: Cluster, node_id: int) -> float:
    return process_of(brokers.brokers[node_id]).cpu_seconds()


def _failover(brokers: Cluster) -> float:
    """Kill a broker; seconds until no partition is led by it or by nobody."""
    victim = next(node for node in brokers.brokers if node != brokers.controller_id())
    brokers.brokers[victim].kill()
    began = time.monotonic()

    async def wait(admin: Admin) -> None:
        async def all_led() -> bool:
            names = [topic.name for topic in await admin.topics.list()]
            described = await admin.topics.describe(names)
            return not described.errors and all(
                one.leader_id not in (None, victim)
                for topic in described.unwrap().values()
                for one in topic.partitions.values()
            )

        await until(all_led)

    brokers.run(wait)
    return time.monotonic() - began


def _scenario(topic_count: int, *, has_goals: bool) -> Scenario:
    partition_count = topic_count * PARTITIONS_PER_TOPIC
    return Scenario(
        name=f"cluster-scale-{topic_count}",
        question=f"Three brokers with {partition_count:,} partitions of three replicas",
        figures=[
            Figure(name="created", unit="s", is_lower_better=True),
            Figure(name="all in sync", unit="s", is_lower_better=True),
            Figure(
                name="idle CPU of a broker",
                unit="%",
                is_lower_better=True,
                goal_value=2 if has_goals else None,
            ),
            Figure(
                name="memory of a broker",
                unit="MiB",
                is_lower_better=True,
                goal_value=200 if has_goals else None,
            ),
            Figure(name="failover", unit="s", is_lower_better=True),
        ],
        measure=partial(measure, topic_count=topic_count),
    )


SCENARIOS = [
    _scenario(100, has_goals=False),
    _scenario(1000, has_goals=True),
    _scenario(3333, has_goals=False),
]
