"""The planner of topics: each rule of the reference, and what holds for all plans."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_operator.reconcile.topic_apply import apply_plan, reconcile_topics
from barnabas_operator.reconcile.topic_plan import plan_topics
from barnabas_operator.reconcile.topic_plan_text import plan_lines
from barnabas_operator.reconcile.topic_state import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    GrowPartitions,
    ObservedCluster,
    ObservedTopic,
    Reason,
    ReassignReplicas,
    TopicPlan,
)
from barnabas_operator.spec import ADOPT_ANNOTATION, DeletionPolicy, DriftPolicy, TopicSpec
from tests.support.memory_topics import CutOffError, MemoryTopics


def spec(topic: str = "orders", position: int = 0, **fields: Any) -> TopicSpec:
    resource = fields.pop("resource", topic)
    return TopicSpec(resource=resource, topic=topic, age=("", position, resource), **fields)


def existing(partitions: int = 3, **fields: Any) -> ObservedTopic:
    values: dict[str, Any] = {
        "name": "orders",
        "topic_id": "id",
        "assignments": ((1,),) * partitions,
        **fields,
    }
    return ObservedTopic(**values)


def plan(
    *specs: TopicSpec,
    topics: tuple[ObservedTopic, ...] = (),
    brokers: tuple[int, ...] = (1,),
    can_reassign: bool = True,
) -> TopicPlan:
    observed = ObservedCluster(
        broker_ids=brokers,
        topics={topic.name: topic for topic in topics},
        can_reassign=can_reassign,
    )
    return plan_topics(specs, observed)


def reasons(result: TopicPlan) -> list[Reason]:
    return [finding.reason for finding in result.findings]


def test_a_missing_topic_is_created_without_the_settings_that_are_handed_over() -> None:
    result = plan(spec(partitions=3, replicas=1, config={"a": "1", "b": None}))
    assert result.steps == (
        CreateTopic(topic="orders", partitions=3, replicas=1, config={"a": "1"}),
    )


def test_a_topic_that_is_as_declared_needs_nothing() -> None:
    result = plan(
        spec(partitions=3, config={"a": "1", "b": None}),
        topics=(existing(config={"a": "1", "b": "whatever"}),),
    )
    assert result == TopicPlan(unchanged=("orders",))


def test_partitions_grow_and_never_become_fewer() -> None:
    """operator.md 2: grown; or Ready=False NotSupported."""
    assert plan(spec(partitions=5), topics=(existing(3),)).steps == (
        GrowPartitions(topic="orders", partitions=5, partitions_before=3),
    )
    refused = plan(spec(partitions=2), topics=(existing(3),))
    assert refused.steps == ()
    assert reasons(refused) == [Reason.NOT_SUPPORTED]
    assert refused.findings[0].is_blocking


def test_growing_a_compacted_topic_must_be_acknowledged() -> None:
    """operator.md 2 and 8: keys would move to other partitions than their older records."""
    compacted = existing(3, cleanup_policy="compact")
    assert reasons(plan(spec(partitions=5), topics=(compacted,))) == [Reason.NEEDS_ACKNOWLEDGEMENT]
    accepted = plan(spec(partitions=5, accepts_key_movement=True), topics=(compacted,))
    assert isinstance(accepted.steps[0], GrowPartitions)


def test_undeclared_settings_are_reset_reported_or_accepted_as_the_policy_says() -> None:
    topic = existing(config={"retention.ms": "1"})
    revert = plan(spec(drift_policy=DriftPolicy.REVERT), topics=(topic,))
    assert revert.steps == (
        ChangeConfig(topic="orders", reset=("retention.ms",), before={"retention.ms": "1"}),
    )
    warn = plan(spec(drift_policy=DriftPolicy.WARN), topics=(topic,))
    assert (warn.steps, reasons(warn)) == ((), [Reason.DRIFT])
    assert "retention.ms=1" in warn.findings[0].message
    assert not warn.findings[0].is_blocking
    adopt = plan(spec(drift_policy=DriftPolicy.ADOPT), topics=(topic,))
    assert (adopt.steps, reasons(adopt)) == ((), [Reason.ADOPTED])


def test_throttles_of_a_running_reassignment_are_spared() -> None:
    """operator.md 2."""
    topic = existing(config={"leader.replication.throttled.replicas": "0:1"})
    assert plan(spec(drift_policy=DriftPolicy.REVERT), topics=(topic,)).unchanged == ("orders",)


def test_of_two_resources_for_one_topic_the_oldest_wins() -> None:
    """operator.md 2: the others are not ready, and the winner is named."""
    result = plan(
        spec(position=1, resource="b/orders", partitions=9),
        spec(position=0, resource="a/orders", partitions=3),
        topics=(existing(3),),
    )
    assert result.steps == ()
    (finding,) = result.findings
    assert (finding.resource, finding.reason) == ("b/orders", Reason.CONFLICT)
    assert "'a/orders'" in finding.message


@pytest.mark.parametrize(
    ("policy", "is_deleted"), [(DeletionPolicy.RETAIN, False), (DeletionPolicy.DELETE, True)]
)
def test_a_topic_goes_with_its_resource_only_where_that_is_said(
    policy: DeletionPolicy, is_deleted: bool
) -> None:
    """operator.md 3, pain 2: deleting resources must not wipe data by default."""
    result = plan(spec(is_being_deleted=True, deletion_policy=policy), topics=(existing(),))
    expected = (DeleteTopic(topic="orders", topic_id="id"),) if is_deleted else ()
    assert result.steps == expected


def test_a_topic_that_another_resource_declares_stays() -> None:
    result = plan(
        spec(is_being_deleted=True, deletion_policy=DeletionPolicy.DELETE),
        spec(position=1, resource="other"),
        topics=(existing(),),
    )
    assert result.steps == ()


def test_a_loser_that_is_deleted_does_not_take_the_winner_s_topic_along() -> None:
    leaving = {"is_being_deleted": True, "resource": "late"}
    result = plan(
        spec(deletion_policy=DeletionPolicy.RETAIN, is_being_deleted=True),
        spec(position=1, deletion_policy=DeletionPolicy.DELETE, **leaving),
        topics=(existing(),),
    )
    assert result.steps == ()


def test_a_paused_resource_changes_nothing() -> None:
    result = plan(spec(partitions=9, is_paused=True), topics=(existing(),))
    assert (result.steps, reasons(result)) == ((), [Reason.PAUSED])


def test_replicas_move_keep_their_leaders_and_spread() -> None:
    topic = existing(assignments=((1,), (2,), (3,)))
    (step,) = plan(spec(replicas=2), topics=(topic,), brokers=(1, 2, 3)).steps
    assert isinstance(step, ReassignReplicas)
    assert [replicas[0] for replicas in step.assignments.values()] == [1, 2, 3]
    added = [replicas[1] for replicas in step.assignments.values()]
    assert sorted(added) == [1, 2, 3]


def test_replicas_that_cannot_be_are_refused() -> None:
    for topics in ((), (existing(),)):
        few = plan(spec(replicas=3), topics=topics)
        assert (few.steps, reasons(few)) == ((), [Reason.NOT_SUPPORTED])
        assert "3 replicas need 3 brokers and there is 1" in few.findings[0].message
    old = plan(spec(replicas=2), topics=(existing(),), brokers=(1, 2), can_reassign=False)
    assert (old.steps, reasons(old)) == ((), [Reason.NOT_SUPPORTED])


def test_a_plan_reads_like_a_diff() -> None:
    result = plan(
        spec("new", config={"a": "1"}),
        spec(
            "orders",
            1,
            partitions=5,
            config={"b": "2", "c": "3"},
            drift_policy=DriftPolicy.REVERT,
        ),
        spec("less", 2, partitions=1),
        topics=(
            existing(config={"b": "1", "d": "4"}),
            ObservedTopic(name="less", assignments=((1,), (1,))),
        ),
    )
    assert list(plan_lines(result)) == [
        "+ topic new",
        "+   partitions: by default",
        "+   replicas: by default",
        "+   config a: 1",
        "~ topic orders",
        "~   partitions: 3 → 5",
        "~   config b: 1 → 2",
        "+   config c: 3",
        "-   config d: 4 → by default",
        "! topic less: a topic cannot lose partitions: it has 2, 1 are declared [NotSupported]",
    ]


NAMES = st.sampled_from(["a", "b", "c"])
BROKERS = (1, 2, 3)
CONFIGS = st.dictionaries(
    st.sampled_from(["x", "y", "cleanup.policy"]), st.sampled_from(["1", "compact"]), max_size=3
)
SPECS = st.lists(
    st.builds(
        spec,
        NAMES,
        st.integers(0, 5),
        resource=st.sampled_from(["r", "s", "t"]),
        partitions=st.none() | st.integers(1, 4),
        replicas=st.none() | st.integers(1, 4),
        config=CONFIGS | st.just({"x": None}),
        deletion_policy=st.sampled_from(DeletionPolicy),
        drift_policy=st.sampled_from(DriftPolicy),
        is_paused=st.booleans(),
        is_being_deleted=st.booleans(),
        accepts_key_movement=st.booleans(),
    ),
    max_size=5,
)
ASSIGNMENTS = st.lists(
    st.permutations(BROKERS).flatmap(
        lambda order: st.integers(1, 3).map(lambda count: tuple(order[:count]))
    ),
    min_size=1,
    max_size=3,
).map(tuple)
TOPICS = st.dictionaries(NAMES | st.just("foreign"), st.tuples(ASSIGNMENTS, CONFIGS), max_size=3)


def cluster(topics: dict[str, Any], can_reassign: bool) -> MemoryTopics:
    observed = [
        ObservedTopic(
            name=name,
            assignments=assignments,
            config=config,
            cleanup_policy=config.get("cleanup.policy", "delete"),
        )
        for name, (assignments, config) in topics.items()
    ]
    return MemoryTopics(BROKERS, observed, can_reassign=can_reassign)


@given(SPECS, TOPICS, st.booleans())
def test_applying_twice_is_applying_once(
    specs: list[TopicSpec], topics: dict[str, Any], can_reassign: bool
) -> None:
    """The brief of issue 4: a second apply has no steps; topics without a resource stay as is."""
    memory = cluster(topics, can_reassign)
    before = dict(memory.topics)

    async def run() -> None:
        last, _ = await reconcile_topics(specs, memory)
        assert last.steps == ()
        again, results = await reconcile_topics(specs, memory)
        assert (again, results) == (last, [])

    asyncio.run(run())
    declared = {one.topic for one in specs}
    for name, topic in before.items():
        if name not in declared:
            assert memory.topics[name] == topic
        elif name in memory.topics:
            assert memory.topics[name].partitions >= topic.partitions
        else:
            assert any(
                one.is_being_deleted and one.deletion_policy is DeletionPolicy.DELETE
                for one in specs
                if one.topic == name
            )


@given(SPECS, TOPICS)
def test_a_plan_that_is_cut_off_after_any_step_comes_to_the_same_end(
    specs: list[TopicSpec], topics: dict[str, Any]
) -> None:
    """operator.md 9: the planner interrupted after each step."""

    async def run() -> None:
        whole = cluster(topics, True)
        await reconcile_topics(specs, whole)
        names = sorted({one.topic for one in specs})
        first = plan_topics(specs, await cluster(topics, True).observe(names))
        for steps in range(len(first.steps)):
            memory = cluster(topics, True)
            memory.steps_left = steps
            with pytest.raises(CutOffError):
                await apply_plan(first, memory)
            memory.steps_left = None
            last, _ = await reconcile_topics(specs, memory)
            assert last.steps == ()
            assert {name: shape(topic) for name, topic in memory.topics.items()} == {
                name: shape(topic) for name, topic in whole.topics.items()
            }

    asyncio.run(run())


def shape(topic: ObservedTopic) -> tuple[Any, ...]:
    """All but where the replicas are: that depends on the order of the steps."""
    return topic.partitions, [len(replicas) for replicas in topic.assignments], dict(topic.config)


@pytest.mark.parametrize(
    ("known_id", "is_acknowledged", "goes"),
    [("id", False, True), ("other", False, False), ("other", True, True), (None, False, True)],
)
def test_another_topic_of_the_same_name_does_not_go_with_the_resource(
    known_id: str | None, is_acknowledged: bool, goes: bool
) -> None:
    """Somebody has made it again, or `brokerRef` names another cluster, and the resource is deleted
    before its status says so: that topic has records that nobody has asked to delete."""
    annotations = {ADOPT_ANNOTATION: "true"} if is_acknowledged else {}
    manifest = {
        "metadata": {"name": "a", "annotations": annotations, "deletionTimestamp": "now"},
        "spec": {"deletionPolicy": "Delete"},
        "status": {"origin": "Made", **({"topicId": known_id} if known_id else {})},
    }
    there = ObservedTopic(name="a", topic_id="id", assignments=((0,),))
    observed = ObservedCluster(broker_ids=(0,), topics={"a": there})
    assert bool(plan_topics([TopicSpec.from_manifest(manifest)], observed).steps) is goes


@pytest.mark.parametrize(
    ("topic", "is_adopted", "goes"),
    [("a", False, True), ("a", True, False), ("__consumer_offsets", False, False)],
)
def test_a_topic_that_was_there_before_or_is_internal_does_not_go_with_its_resource(
    topic: str, is_adopted: bool, goes: bool
) -> None:
    """Row 8 of the findings: a Topic over another one's records took them along."""
    spec = TopicSpec(
        resource="a",
        topic=topic,
        deletion_policy=DeletionPolicy.DELETE,
        is_being_deleted=True,
        is_adopted=is_adopted,
    )
    there = ObservedTopic(name=topic, topic_id="id", assignments=((0,),))
    plan = plan_topics([spec], ObservedCluster(broker_ids=(0,), topics={topic: there}))
    assert bool(plan.steps) is goes
