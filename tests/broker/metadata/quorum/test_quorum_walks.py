"""Random walks of real nodes through faults, and whether they would find a broken rule.

`METADATA_WALKS=n` runs n walks; `METADATA_BUG_WALKS=n` lets each planted bug be looked for in n.
"""

import os

import pytest

from barnabas_broker.metadata.quorum.node import Role
from tests.broker.metadata.quorum.quorum_bugs import BUGS, first_failure, planted
from tests.broker.metadata.quorum.quorum_scenarios import SCENARIOS
from tests.broker.metadata.quorum.quorum_world import RestoredWorld, walk

WALKS = int(os.environ.get("METADATA_WALKS", "300"))
BUG_WALKS = int(os.environ.get("METADATA_BUG_WALKS", "0"))
# Where walks find a bug soon; among the seeds of each range is one that does.
FOUND_IN = {
    "disk_keeps_voter": range(700, 1500),
    "few_promises": range(60, 500),
    "forget_promise": range(500),
    "no_recovery": range(60, 500),
    "observers": range(200, 1000),
    "outsider": range(200, 1500),
    "promise_less": range(700, 1500),
    "resume": range(500),
}
FOUND_WITH_OLD_RECORDS = {"promise_twice": range(200, 500)}


def test_no_walk_finds_a_violation() -> None:
    """The rules as specified; a failure names the seed, which repeats the walk."""
    committed = 0
    for seed in range(WALKS):
        try:
            committed += len(walk(seed).truth)
        except Exception as error:
            error.add_note(f"repeat it with: walk({seed})")
            raise
    assert committed > WALKS, "the walks hardly commit anything"


def test_no_walk_finds_a_violation_where_old_records_are_put_back() -> None:
    """Rule 10, as long as a record of the same members is put back."""
    for seed in range(WALKS):
        try:
            walk(seed, RestoredWorld)
        except Exception as error:
            error.add_note(f"repeat it with: walk({seed}, RestoredWorld)")
            raise


def test_after_any_walk_a_calm_ends_with_one_leader_and_equal_logs() -> None:
    """Nothing that happens leaves a node stuck, as long as a majority of the disks is there."""
    settled = 0
    for seed in range(WALKS // 4):
        world = walk(seed)
        world.calm()
        members, alive = world.arbiter.members, {machine.voter for machine in world.machines}
        if 2 * len(members & alive) <= len(members):
            continue
        settled += 1
        (leader,) = (m for m in world.machines if m.node.role is Role.LEADING)
        assert leader.node_id == world.arbiter.leader_id, f"walk({seed})"
        for machine in world.machines:
            assert machine.log.entries == leader.log.entries, f"walk({seed})"
            assert machine.committed == len(leader.log.entries), f"walk({seed})"
    assert settled > WALKS // 8


@pytest.mark.parametrize("bug", SCENARIOS)
def test_story_ends_well_with_the_real_rules(bug: str) -> None:
    """What the scenario for a bug does is harmless as long as the rules hold."""
    SCENARIOS[bug]()


@pytest.mark.parametrize("bug", SCENARIOS)
def test_story_shows_what_a_broken_rule_costs(bug: str) -> None:
    """Walks are too short, or would have to be too many, for these."""
    with planted(bug), pytest.raises(AssertionError, match="leads without"):
        SCENARIOS[bug]()


@pytest.mark.parametrize("bug", FOUND_IN)
def test_walks_find_a_broken_rule(bug: str) -> None:
    """The invariants bite."""
    with planted(bug):
        assert first_failure(FOUND_IN[bug], walk) is not None, BUGS[bug][0]


@pytest.mark.parametrize("bug", FOUND_WITH_OLD_RECORDS)
def test_walks_with_old_records_find_a_broken_rule(bug: str) -> None:
    """Epochs are won twice there."""
    seeds = FOUND_WITH_OLD_RECORDS[bug]
    with planted(bug):
        assert first_failure(seeds, lambda seed: walk(seed, RestoredWorld)) is not None


def test_each_broken_rule_is_found_one_way_or_the_other() -> None:
    """None is planted without a test that finds it."""
    found = SCENARIOS.keys() | FOUND_IN.keys() | FOUND_WITH_OLD_RECORDS.keys()
    assert found == BUGS.keys()


@pytest.mark.skipif(not BUG_WALKS, reason="METADATA_BUG_WALKS says in how many walks to look")
@pytest.mark.parametrize("bug", BUGS)
def test_walks_find_this_bug_by_themselves(bug: str) -> None:
    """Slow: some take ten thousands of walks."""
    with planted(bug):
        assert first_failure(range(BUG_WALKS), walk) is not None, BUGS[bug][0]
