"""What this broker tells Prometheus about giving its leaderships away before it stops.

Read at scrape time. Source: STOP-1 to STOP-7 of the behaviour list.
"""

from collections.abc import Iterator

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.server.drain import Drain, DrainPhase


def drain_samples(drain: Drain, budget_ms: int, now_ms: int) -> Iterator[Sample]:
    """How long the drain has been going on, and how long it may at most."""
    is_draining = drain.phase is DrainPhase.DRAINING
    for name, text, value in (
        (
            "seconds",
            "Time since the drain began; 0 while there is none under way.",
            (now_ms - drain.started_ms) / 1000 if is_draining else 0,
        ),
        ("budget_seconds", "How long a drain may take.", budget_ms / 1000),
    ):
        yield Sample(f"barnabas_drain_{name}", "gauge", text, {}, value)
