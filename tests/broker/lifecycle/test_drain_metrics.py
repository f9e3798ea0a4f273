"""What is told of a drain while it goes on."""

from barnabas_broker.lifecycle.drain import Drain, drain_samples


def seconds(drain: Drain, now_ms: int) -> dict[str, float]:
    return {
        sample.name: sample.value
        for sample in drain_samples(drain, 100_000, now_ms)
        if isinstance(sample.value, int | float)
    }


def test_a_drain_shows_how_much_of_its_budget_it_has_used() -> None:
    """`operator.md` 4: drain seconds against the grace, before SIGKILL comes."""
    drain = Drain()
    assert seconds(drain, 5_000)["barnabas_drain_seconds"] == 0
    drain = drain.started(5_000, 100_000)
    assert seconds(drain, 90_000) == {
        "barnabas_drain_seconds": 85,
        "barnabas_drain_budget_seconds": 100,
    }
    assert seconds(drain.cut_short(), 95_000)["barnabas_drain_seconds"] == 0
