"""Which brokers the metadata log can do without, and what the plans make of it."""

from collections.abc import Iterable

import pytest

from barnabas_operator.reconcile.broker.broker_plan import max_unavailable, plan_broker
from barnabas_operator.reconcile.broker.broker_status import cluster_fields
from barnabas_operator.reconcile.broker.cluster_state import MetadataMembers
from barnabas_operator.reconcile.broker.isr_gate import hindrance, may_go
from barnabas_operator.reconcile.broker.members_gate import members_hindrance
from barnabas_operator.reconcile.broker.roll_plan import plan_roll
from tests.operator.reconcile.broker.views import (
    IMAGE,
    NOW,
    SPEC,
    cluster,
    members,
    observed,
    partition,
)

FIVE = range(5)


def spared(found: MetadataMembers, live: Iterable[int]) -> list[int]:
    """The brokers that may go."""
    view = cluster(live=live, members=found)
    return [node_id for node_id in view.brokers if not members_hindrance(view, node_id)]


@pytest.mark.parametrize(
    ("found", "live", "expected"),
    [
        (members(0, 1, 2), range(3), [0, 1, 2]),
        # One is away: no other one may go; its own absence costs nothing more.
        (members(0, 1, 2, in_touch=[0, 1]), range(3), [2]),
        # Two are away: nothing is committed, so nobody who goes could come back.
        (members(0, 1, 2, in_touch=[0]), range(3), []),
        (members(0, 1, 2, in_touch=[]), range(3), []),
        # Brokers that are no members matter as little as the one that is away.
        (members(0, 1, 2, in_touch=[0, 1]), FIVE, [2, 3, 4]),
        (members(0, 1, 2, 3, 4, in_touch=[0, 1, 2, 3], wanted=5), FIVE, [0, 1, 2, 3, 4]),
        (members(0, 1, 2, 3, 4, in_touch=[0, 1, 2], wanted=5), FIVE, [3, 4]),
        # A third one will be taken in again.
        (members(0, 1), range(3), [2]),
        (members(0), range(3), [1, 2]),
        # There are to be no more of them: no wait would help.
        (members(0, 1), range(2), [0, 1]),
        (members(0, 1, wanted=2), range(3), [0, 1, 2]),
        (members(0, wanted=1), range(3), [0, 1, 2]),
        (members(0), range(1), [0]),
        # Where nobody says how many there are to be, those that there are count.
        (members(0, 1, 2, in_touch=[0, 1], wanted=0), range(3), [2]),
        # Nobody leads the log, so nobody tells.
        (MetadataMembers(), range(3), []),
        (MetadataMembers(), range(2), [0, 1]),
    ],
)
def test_a_broker_may_go_if_a_majority_of_the_members_stays_in_touch(
    found: MetadataMembers, live: Iterable[int], expected: list[int]
) -> None:
    """architecture.md 2, rule 3: a record is committed when a majority of the members has it."""
    assert spared(found, live) == expected


def test_brokers_without_such_a_log_are_judged_by_their_partitions_alone() -> None:
    """A Broker may stand for brokers of another make."""
    view = cluster(partition("orders", [0, 1, 2], [1, 2]))
    assert [may_go(view, node_id) for node_id in range(3)] == [True, False, False]


def test_what_is_waited_for_names_the_members() -> None:
    """operator.md 3.4: waiting is a state that says what it waits for."""
    view = cluster(members=members(0, 1, 2, in_touch=[0, 1]))
    assert hindrance(view, 1) == "of the metadata log's members 0, 1, 2 only 0 would be left"
    view = cluster(members=members(0, 1, 2, in_touch=[1]))
    assert hindrance(view, 1) == "none of the metadata log's members 0, 1, 2 would be left"
    view = cluster(members=MetadataMembers())
    assert hindrance(view, 1) == "nobody tells who has the metadata log"


def test_nobody_is_restarted_while_the_metadata_log_needs_all_that_it_has() -> None:
    """operator.md 5: a broker that could not be registered again would stay away."""
    view = cluster(partition("orders", [0, 1, 2]), members=members(0, 1, 2, in_touch=[0, 1]))
    roll = plan_roll(
        SPEC, observed(view=view), {1: ["x"]}, expected=range(3), plan_hash="h", now=NOW
    )
    assert roll.restarts == ()
    assert roll.waiting_on == (
        "broker 1: of the metadata log's members 0, 1, 2 only 0 would be left"
    )


def test_safe_and_the_disruption_budget_look_at_the_members() -> None:
    """`SAFE` answers for any one broker; Kubernetes evicts nobody meanwhile."""
    whole = cluster(partition("orders", [0, 1, 2]), members=members(0, 1, 2))
    short = cluster(partition("orders", [0, 1, 2]), members=members(0, 1, 2, in_touch=[0, 2]))
    assert [cluster_fields(one, {})["safeToDrain"] for one in (whole, short)] == ["yes", "no"]
    assert [max_unavailable(observed(view=one)) for one in (whole, short)] == [1, 0]
    assert cluster_fields(cluster(live=[], fenced=[0]), {})["safeToDrain"] == "no"


def test_two_members_are_warned_of() -> None:
    """No wait would help, so nothing waits; it should be known."""
    view = cluster(partition("orders", [0, 1, 2]), live=[0, 1], members=members(0, 1))
    plan = plan_broker(SPEC, observed(view=view), now=NOW, default_image=IMAGE)
    assert [text.partition(":")[0] for text in plan.warnings] == [
        "the metadata log has two members"
    ]
    view = cluster(partition("orders", [0, 1, 2]), members=members(0, 1, 2))
    assert plan_broker(SPEC, observed(view=view), now=NOW, default_image=IMAGE).warnings == ()
