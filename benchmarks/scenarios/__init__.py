"""One module per question; `ALL` lists their scenarios in the order of running."""

from benchmarks.scenario import Scenario
from benchmarks.scenarios import (
    cluster_failover,
    cluster_produce,
    cluster_scale,
    consume,
    create_topics,
    memory,
    paced,
    ping_pong,
    produce,
    python_clients,
    restart,
    start,
    tls,
    transactions,
)

ALL: list[Scenario] = [
    *start.SCENARIOS,
    *produce.SCENARIOS,
    *consume.SCENARIOS,
    *paced.SCENARIOS,
    *ping_pong.SCENARIOS,
    *transactions.SCENARIOS,
    *tls.SCENARIOS,
    *create_topics.SCENARIOS,
    *memory.SCENARIOS,
    *restart.SCENARIOS,
    *python_clients.SCENARIOS,
    *cluster_failover.SCENARIOS,
    *cluster_produce.SCENARIOS,
    *cluster_scale.SCENARIOS,
]
