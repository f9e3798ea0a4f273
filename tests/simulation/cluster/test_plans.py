"""Plans, how they are made smaller, and how a long run goes on where it was."""

from collections import Counter
from pathlib import Path

from tests.simulation.cluster.plan import SHARES, Feature, Plan, draw
from tests.simulation.cluster.run_state import PART, RunState
from tests.simulation.cluster.shrink import Shrinker, alike


def test_a_seed_draws_the_same_plan_and_seeds_draw_all_features() -> None:
    """Swarm testing: no story has everything, and each feature is on and off in many."""
    assert draw(7) == draw(7)
    plans = [draw(seed) for seed in range(200)]
    counts = Counter(feature for plan in plans for feature in plan.features)
    assert all(0 < counts[feature] < len(plans) for feature in SHARES)
    assert len({plan.features for plan in plans}) > len(plans) // 2


def test_all_producers_rest_at_the_same_times_in_some_stories() -> None:
    """Logs stand still for seconds then, and grow for as long."""
    plan = draw(0).without(Feature.RESTS)
    times = [tenth / 10 for tenth in range(1000)]
    assert not any(map(plan.rest_seconds, times))
    rests = [plan.with_features(Feature.RESTS).rest_seconds(time) for time in times]
    assert max(rests) >= 1.5
    assert 0.4 < sum(rest > 0 for rest in rests) / len(rests) < 0.6


def test_a_failing_plan_is_made_as_small_as_it_can_be() -> None:
    """Two events and one feature are what it takes; all else goes."""
    plan = next(plan for plan in map(draw, range(100)) if len(plan.events) > 15)
    needed = {plan.events[3], plan.events[-2]}
    plan = plan.with_features(Feature.REASSIGNMENTS)

    def fails(smaller: Plan) -> str:
        is_there = needed <= set(smaller.events) and smaller.has(Feature.REASSIGNMENTS)
        return f"HistoryError: {len(smaller.events)} records are gone" if is_there else ""

    shrinker = Shrinker(fails, plan, fails(plan))
    smallest = shrinker.run()
    assert set(smallest.events) == needed
    assert smallest.features == {Feature.REASSIGNMENTS}
    assert smallest.events == tuple(sorted(smallest.events))


def test_another_failure_is_no_smaller_one() -> None:
    assert alike(
        "Error: orders-0 ends at 12, 9 is committed", "Error: orders-1 ends at 5, 1 is committed"
    )
    assert not alike("Error: two brokers lead orders-0", "Error: orders-0 is gone")


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """Also with a gap, and only the same run; a complete one begins anew."""
    path = tmp_path / "state" / "run.json"
    state = RunState(500, 3 * PART + 1)
    state.done(0, [], Counter(kill=2))
    state.done(2, [521], Counter(kill=1, stop=1))
    state.save(path)
    found = RunState.load(path, 500, 3 * PART + 1)
    assert found.missing() == [1, 3]
    assert found.told == 2 * PART
    assert found.failed_seeds == [521]
    assert found.exercised == Counter(kill=3, stop=1)
    assert RunState.load(path, 501, 3 * PART + 1).missing() == [0, 1, 2, 3]
    found.done(1, [], Counter())
    found.done(3, [], Counter())
    assert found.is_complete
    assert found.told == 3 * PART + 1
    found.save(path)
    assert RunState.load(path, 500, 3 * PART + 1).told == 0
