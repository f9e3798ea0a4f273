"""What this broker tells Prometheus about the turns of the loop. Source: MET-1."""

from collections.abc import Iterator

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.turn import Turn


def turn_samples(turn: Turn) -> Iterator[Sample]:
    """The turns that wrote or sent something."""
    for name, text, value in (
        ("turns", "Turns of the loop that wrote or sent something.", turn.turn_count),
        ("turn_failures", "What failed at the end of a turn.", turn.failure_count),
    ):
        yield Sample(f"barnabas_{name}_total", "counter", text, {}, value)
