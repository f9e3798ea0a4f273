"""Whose log is the best, who is waited for, and what the controller makes of it (LEAD-7)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from barnabas_broker.controller import elections
from barnabas_broker.controller.event_queue import Command
from barnabas_broker.controller.log_comparison import (
    PARTITIONS_MAX,
    LogComparison,
    LogEnds,
    TopicIdPartition,
    Undecided,
    compare,
    undecided,
)
from barnabas_broker.metadata.image import (
    NO_LEADER,
    RESOURCE_BROKER,
    MetadataImage,
    PartitionImage,
)
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.records import ConfigRecord, FeatureRecord, MetadataRecord
from tests.support.partition_images import (
    SETTINGS,
    TOPIC_ID,
    applied,
    cluster,
    directory,
    partition,
    state_of,
    with_topic,
)
from tests.support.virtual_loop import VirtualClock, run_virtual

TOPIC_ID_PARTITION: TopicIdPartition = (TOPIC_ID, 0)
WAIT_MS = 6000
LEVEL_2 = [
    ConfigRecord(RESOURCE_BROKER, "", "min.insync.replicas", "2"),
    FeatureRecord("barnabas.version", 2),
]


def lost(
    known: Sequence[int] = (0, 1, 2),
    directories: Sequence[bytes] = (),
    eligible: Sequence[int] = (),
) -> PartitionImage:
    """A partition of which all members have been down with their machines."""
    state = partition([0, 1, 2], [], NO_LEADER, directories=directories)
    return replace(state, last_known_elr=tuple(known), eligible_leader_replicas=tuple(eligible))


def image_of(
    state: PartitionImage, *, live: Sequence[int] = (0, 1, 2), unclean: bool = False, level: int = 2
) -> MetadataImage:
    gone = [node for node in (0, 1, 2) if node not in live]
    image = applied(cluster(live, fenced=gone), LEVEL_2 if level == 2 else [])
    return with_topic(image, state, unclean=unclean)


def answers(**ends: tuple[int, int]) -> dict[int, LogEnds]:
    """What brokers say: last epoch and end, by `b0`, `b1`, `b2`."""
    return {
        int(name[1:]): LogEnds(100 + int(name[1:]), {TOPIC_ID_PARTITION: LogEnd(*end)})
        for name, end in ends.items()
    }


def decide(
    image: MetadataImage, found: dict[int, LogEnds], *, is_late: bool = False
) -> PartitionImage:
    """The partition after one round."""
    for one in undecided(image, SETTINGS):
        comparison = compare(one, image, found, is_late=is_late)
        if comparison is not None:
            records, _ = elections.compared(image, {one.topic_id_partition: comparison})
            image = applied(image, records)
    return state_of(image)


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        (((5, 10), (5, 12), (5, 11)), 1),
        (((5, 10), (4, 99), (5, 11)), 2),  # the epoch counts first
        (((5, 10), (5, 10), (5, 10)), 0),
        (((-1, 0), (-1, 0), (0, 1)), 2),
    ],
)
def test_the_highest_epoch_then_the_longest_log_leads(
    ends: tuple[tuple[int, int], ...], leader: int
) -> None:
    """LEAD-7: as an election of Raft compares logs."""
    found = answers(b0=ends[0], b1=ends[1], b2=ends[2])
    state = decide(image_of(lost()), found)
    known = max(ends)
    assert ends[state.leader] == known
    assert ends[leader] == known
    assert state.isr == (state.leader,)
    assert (state.eligible_leader_replicas, state.last_known_elr) == ((), ())
    assert state.leader_epoch == 6


def test_those_that_had_everything_are_waited_for_until_it_is_late() -> None:
    """LEAD-7: the one that is missing may have most."""
    image = image_of(lost(), live=(0, 1))
    found = answers(b0=(5, 10), b1=(5, 12))
    assert decide(image, found).leader == NO_LEADER
    assert decide(image, found, is_late=True).leader == 1


def test_a_replica_that_was_never_eligible_does_not_lead_because_it_is_first() -> None:
    """LEAD-7: it may have lagged for a week; also when it is late."""
    image = image_of(lost(known=(2,)), live=(0, 1))
    found = answers(b0=(5, 10), b1=(5, 12))
    assert decide(image, found, is_late=True).leader == NO_LEADER
    assert decide(image_of(lost(known=(2,))), answers(b0=(5, 10), b2=(5, 9))).leader == 0


def test_with_unclean_elections_those_that_live_decide() -> None:
    """LEAD-2: but the best of them, and nobody who does not live is waited for."""
    image = image_of(lost(known=(), eligible=(2,)), live=(0, 1), unclean=True)
    assert decide(image, answers(b0=(5, 10))).leader == NO_LEADER
    assert decide(image, answers(b0=(5, 10), b1=(5, 12))).leader == 1
    assert decide(image, answers(), is_late=True).leader == 0  # nobody answers: any will do


def test_an_answer_of_an_earlier_life_counts_for_nothing() -> None:
    """REG-4: the broker may have lost its page cache since."""
    found = answers(b0=(5, 10), b1=(5, 12), b2=(5, 11))
    found[1] = found[1]._replace(broker_epoch=7)
    assert decide(image_of(lost()), found).leader == NO_LEADER
    assert decide(image_of(lost()), found, is_late=True).leader == 2


def test_a_replica_in_a_directory_that_is_gone_does_not_lead() -> None:
    """KIP-858: its broker has another disk; what that holds is another replica."""
    directories = [directory(0), b"a directory gone", directory(2)]
    image = image_of(lost(directories=directories))
    assert decide(image, answers(b0=(5, 10), b1=(5, 12), b2=(5, 11))).leader == 2


def test_only_partitions_that_nothing_else_can_give_a_leader_are_compared() -> None:
    """LEAD-7: an eligible replica is waited for; before level 2 there is none."""
    assert undecided(image_of(lost(), level=1), SETTINGS) == []
    assert undecided(image_of(lost(), live=()), SETTINGS) == []
    assert undecided(image_of(lost(known=(0, 1), eligible=(2,))), SETTINGS) == []
    assert undecided(image_of(partition([0, 1, 2])), SETTINGS) == []
    (found,) = undecided(image_of(lost()), SETTINGS)
    assert found == Undecided(TOPIC_ID_PARTITION, lost(), False)


def test_what_has_changed_meanwhile_is_left_alone() -> None:
    """CTL-8: commands decide on what is so when their turn comes."""
    image = image_of(lost())
    (one,) = undecided(image, SETTINGS)
    comparison = compare(one, image, answers(b0=(5, 1), b1=(5, 1), b2=(5, 1)), is_late=False)
    assert comparison is not None
    stale = comparison._replace(partition_epoch=8)
    assert elections.compared(image, {TOPIC_ID_PARTITION: stale}) == ([], 0)
    assert elections.compared(image_of(partition([0, 1, 2])), {TOPIC_ID_PARTITION: comparison}) == (
        [],
        0,
    )
    assert elections.compared(cluster([0]), {TOPIC_ID_PARTITION: comparison}) == ([], 0)


class World:
    """The task, over an image that its commands change."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.answers: dict[int, LogEnds] = {}
        self.asked: list[tuple[int, int]] = []
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.comparison = LogComparison(
            clock=self.clock,
            image=lambda: self.image,
            configs=SETTINGS,
            ask=self.ask,
            enqueue=self.enqueue,
            wait_ms_max=WAIT_MS,
        )

    async def ask(
        self, node_id: int, partitions: Sequence[TopicIdPartition], timeout_ms: int
    ) -> LogEnds | None:
        self.asked.append((node_id, len(partitions)))
        await asyncio.sleep(0.01)
        return self.answers.get(node_id)

    async def enqueue(self, command: Command[int]) -> int:
        records, elected = command(self.image)
        self.decide(records)
        return elected

    def decide(self, records: Sequence[MetadataRecord]) -> None:
        self.image = applied(self.image, records)
        self.comparison.note(records)


def test_the_task_asks_until_somebody_leads_and_then_rests() -> None:
    """LEAD-7: as soon as all have answered; nobody is asked for nothing."""

    async def run() -> None:
        world = World(image_of(partition([0, 1, 2])))
        world.comparison.start()
        await asyncio.sleep(10)
        assert world.asked == []
        world.answers = answers(b0=(5, 10))
        world.image = image_of(lost())
        world.comparison.note([FeatureRecord("x", 1)])
        await asyncio.sleep(1)
        assert state_of(world.image).leader == NO_LEADER
        assert {node for node, _ in world.asked} == {0, 1, 2}
        world.answers = answers(b0=(5, 10), b1=(5, 12), b2=(5, 11))
        await asyncio.sleep(1)
        assert state_of(world.image).leader == 1
        assert world.comparison.elected_count == 1
        count = len(world.asked)
        await asyncio.sleep(10)
        assert len(world.asked) == count
        world.comparison.stop()

    run_virtual(run())


def test_the_task_does_not_wait_for_ever() -> None:
    """LEAD-7: who does not answer within a session timeout is done without."""

    async def run() -> None:
        world = World(image_of(lost(), live=(0, 1)))
        world.answers = answers(b0=(5, 10), b1=(5, 12))
        world.comparison.start()
        started_ms = world.clock.monotonic_ms()
        while state_of(world.image).leader == NO_LEADER:
            await asyncio.sleep(0.1)
            assert world.clock.monotonic_ms() - started_ms < 2 * WAIT_MS
        assert world.clock.monotonic_ms() - started_ms >= WAIT_MS
        assert {node for node, _ in world.asked} == {0, 1}
        world.comparison.stop()

    run_virtual(run())


def test_questions_are_bounded() -> None:
    """Many partitions are asked for in several requests."""

    async def run() -> None:
        image = applied(cluster([0, 1, 2]), LEVEL_2)
        image = with_topic(image, *[lost()] * (PARTITIONS_MAX + 1))
        world = World(image)
        ends = {(TOPIC_ID, index): LogEnd(1, 1) for index in range(PARTITIONS_MAX + 1)}
        world.answers = {node: LogEnds(100 + node, ends) for node in range(3)}
        world.comparison.start()
        await asyncio.sleep(1)
        assert set(world.asked) == set(product(range(3), (PARTITIONS_MAX, 1)))
        assert world.comparison.elected_count == PARTITIONS_MAX + 1
        world.comparison.stop()

    run_virtual(run())
