"""What a timeline tells of two looks: few lines, the cause in them (CON-123)."""

import asyncio
from collections.abc import Mapping

from barnabas_client.admin.values.cluster import BrokerDescription, ClusterDescription
from barnabas_client.facts.group_diagnosis import Finding, State
from barnabas_console.history.changes import (
    NO_LEADER,
    Leadership,
    SeenGroup,
    cluster_changes,
    group_changes,
    setting_changes,
    topic_changes,
)
from barnabas_console.history.timeline import CHANGES_MAX, ClusterChange, Timeline
from tests.support.loop_turns import spent_slices, turns_beside


def cluster(*node_ids: int, controller: int | None = 1, fenced: int = -1) -> ClusterDescription:
    return ClusterDescription(
        cluster_id="c",
        controller_id=controller,
        brokers=tuple(
            BrokerDescription(node_id=one, host="h", port=9, is_fenced=one == fenced)
            for one in node_ids
        ),
    )


def words(changes: list[ClusterChange]) -> list[tuple[str, str]]:
    return [(change.subject, change.words) for change in changes]


def changes_of_topics(
    before: Mapping[str, Leadership], after: Mapping[str, Leadership]
) -> list[ClusterChange]:
    return asyncio.run(topic_changes(before, after, spent_slices()))


def test_brokers_and_the_controller() -> None:
    assert cluster_changes(cluster(1, 2), cluster(1, 2)) == []
    found = cluster_changes(cluster(1, 2, 3), cluster(1, 2, 4, controller=2, fenced=2))
    assert words(found) == [
        ("3", "gone"),
        ("2", "fenced"),
        ("4", "ready"),
        ("2", "broker 2 is the controller now"),
    ]
    assert words(cluster_changes(cluster(1), cluster(1, controller=None))) == [
        ("none", "no controller")
    ]


def test_a_broker_that_stops_is_a_few_lines_however_many_partitions_it_led() -> None:
    """A thousand lines would drive out all that came before."""
    before = {f"t{n}": Leadership((1, 2), ((1, 2), (1, 2))) for n in range(1_000)}
    after = {name: Leadership((2, 2), ((2,), (2,))) for name in before}
    found = changes_of_topics(before, after)
    assert words(found) == [
        ("1,000 partitions", "leader 2, was 1"),
        ("2,000 partitions", "broker 1 out of sync"),
    ]
    assert all(len(change.topics) == 20 for change in found)


def test_all_topics_are_compared_in_slices() -> None:
    """CON-174: ten thousand topics whose broker stopped held the loop for 60 ms."""
    before = {f"t{n:05}": Leadership((1, 2), ((1, 2), (1, 2))) for n in range(10_000)}
    after = {name: Leadership((2, 2), ((2,), (2,))) for name in before}
    found, turns = asyncio.run(turns_beside(topic_changes(before, after, spent_slices())))
    assert words(found)[0] == ("10,000 partitions", "leader 2, was 1")
    assert turns >= 100


def test_a_leader_that_is_away_and_comes_back() -> None:
    there, away = Leadership((1,), ((1,),)), Leadership((NO_LEADER,), ((1,),))
    (lost,) = changes_of_topics({"orders": there}, {"orders": away})
    assert (lost.subject, lost.words, lost.state) == ("orders-0", "no leader, was 1", "critical")
    (back,) = changes_of_topics({"orders": away}, {"orders": there})
    assert (back.words, back.topics) == ("leader 1 again", ("orders",))


def test_topics_that_come_go_and_grow() -> None:
    one, two = Leadership((1,), ((1,),)), Leadership((1, 1), ((1,), (1,)))
    found = changes_of_topics({"a": one, "b": one}, {"b": two, "c": one})
    assert words(found) == [("c", "created"), ("a", "deleted"), ("b", "has 2 partitions, had 1")]
    many = changes_of_topics({}, {f"t{number}": one for number in range(500)})
    assert words(many) == [("500 topics", "created")]


def seen(state: State, rule: str = "nothing_wrong", **members: str) -> SeenGroup:
    return SeenGroup("Stable", members, Finding(rule=rule, state=state, evidence=f"It is {rule}."))


def test_members_and_troubles_of_groups() -> None:
    """What ended is told as well as what began, and no members is told once."""
    fine, stuck = seen(State.FINE, a="web-1"), seen(State.CRITICAL, "standing_still", a="web-1")
    assert words(group_changes({"g": fine}, {"g": stuck})) == [("g", "It is standing_still.")]
    assert words(group_changes({"g": stuck}, {"g": fine})) == [("g", "Over: It is standing_still.")]
    empty = seen(State.WARNING, "no_members")
    assert words(group_changes({"g": fine}, {"g": empty})) == [("g", "web-1 left: no members")]
    assert words(group_changes({"g": fine}, {"h": fine})) == [("g", "gone"), ("h", "new")]
    unknown = seen(State.UNKNOWN, "unknown", a="web-1")
    assert group_changes({"g": stuck}, {"g": unknown}) == [], "nobody knows whether it is over"


def test_settings_that_were_set_changed_and_taken_off() -> None:
    before = {"topic orders": {"retention.ms": "1", "x": "2"}}
    after = {"topic orders": {"retention.ms": "3", "secret": None}, "topic new": {"a": "b"}}
    assert words(setting_changes(before, after)) == [
        ("topic orders", "retention.ms: 1 → 3"),
        ("topic orders", "secret: default → (hidden)"),
        ("topic orders", "x: 2 → default"),
    ]


def test_a_timeline_keeps_the_last_thousand_and_numbers_go_on() -> None:
    """CON-123: a page asks for what is behind the last one that it has."""
    timeline = Timeline()
    timeline.add(
        (
            ClusterChange(kind="broker", subject=str(n), words="gone")
            for n in range(CHANGES_MAX + 7)
        ),
        5,
    )
    rows = timeline.rows()
    assert (len(rows), rows[0]["number"], rows[-1]["number"]) == (1_000, 1_007, 8)
    assert [row["number"] for row in timeline.rows(after=1_005)] == [1_007, 1_006]
    assert len(timeline.rows(limit=3)) == 3
    assert timeline.rows(kinds=["group"]) == []
    assert timeline.rows(is_visible=lambda change: change.subject == "9")[0]["subject"] == "9"
