"""Leaders that send damaged, misplaced or unasked-for answers, and disks that forget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.replication.follower.fetch_plan import Progress
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch, list_offsets
from barnabas_protocol.records.batch import stamp
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.replica_nodes import (
    TOPIC_ID,
    TP,
    Links,
    ReplicaNode,
    led_by,
    topic_records,
    until,
)
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import run_virtual


def batch(base_offset: int, *values: bytes, leader_epoch: int = 0) -> bytes:
    """A batch as a leader has it in its log."""
    records = [Record(index, 1, b"k", value) for index, value in enumerate(values)]
    data = bytearray(encode_batch(records))
    stamp(data, 0, base_offset, leader_epoch)
    return bytes(data)


class ScriptedLeader:
    """Node 0, whose answers a test gives one after the other; then it has nothing to say."""

    def __init__(self, *answers: fetch.PartitionData) -> None:
        self.answers = list(answers)
        self.asked: list[fetch.FetchPartition] = []
        self.ends = (0, 0)
        self.extra: list[fetch.FetchableTopicResponse] = []

    def __call__(self, asker: int, request: Any, version: int) -> Any:
        if isinstance(request, list_offsets.ListOffsetsRequest):
            return self._list_offsets(request)
        return self._fetch(request)

    async def _fetch(self, request: fetch.FetchRequest) -> fetch.FetchResponse:
        self.asked += [p for topic in request.topics for p in topic.partitions]
        partitions = [self.answers.pop(0)] if self.answers else []
        if not partitions:
            await asyncio.sleep(request.max_wait_ms / 1000)
        extra, self.extra = self.extra, []
        return fetch.FetchResponse(
            session_id=1,
            responses=[
                fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions),
                *extra,
            ],
        )

    def _list_offsets(
        self, request: list_offsets.ListOffsetsRequest
    ) -> list_offsets.ListOffsetsResponse:
        timestamp = request.topics[0].partitions[0].timestamp
        offset = self.ends[1] if timestamp == -1 else self.ends[0]
        partition = list_offsets.ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return list_offsets.ListOffsetsResponse(
            topics=[list_offsets.ListOffsetsTopicResponse(name="t", partitions=[partition])]
        )


def data(
    *batches: bytes,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    error: ErrorCode = ErrorCode.NONE,
    index: int = 0,
    diverging: tuple[int, int] | None = None,
) -> fetch.PartitionData:
    """What a leader says of partition 0."""
    answered = fetch.PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        records=b"".join(batches),
    )
    if diverging is not None:
        answered.diverging_epoch = fetch.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return answered


async def follower_of(leader: ScriptedLeader, **options: Any) -> ReplicaNode:
    """Node 1, which follows node 0 in leader epoch 5."""
    links = Links()
    links.scripts[0] = leader
    node = await ReplicaNode(1, links, **options).start()
    await node.learn([*topic_records(), led_by(0, 5)])
    return node


def run(leader: ScriptedLeader, work: Callable[[ReplicaNode], Coroutine[Any, Any, None]]) -> None:
    async def test() -> None:
        node = await follower_of(leader)
        try:
            await work(node)
        finally:
            await node.stop()

    run_virtual(test())


def end_is(node: ReplicaNode, offset: int) -> Callable[[], bool]:
    return lambda: node.log.log_end_offset == offset


def progress_of(node: ReplicaNode) -> Progress:
    (fetcher,) = node.fetchers._fetchers.values()
    return fetcher.plan.followed[TP].progress


def test_an_empty_segment_that_is_cut_first_leads_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log ends where it did before, but the next answer cuts it: no complaint, no backoff."""
    leader = ScriptedLeader(data(batch(0, b"a"), batch(1, b"b", leader_epoch=5)))

    async def work(node: ReplicaNode) -> None:
        await until(end_is(node, 2))
        await node.log.flush()
        node.log.roll()
        assert node.log.segments.active.base_offset == 2
        leader.answers = [data(diverging=(5, 1)), data(diverging=(5, 1))]
        await until(end_is(node, 1))
        assert "leads no further" not in caplog.text

    run(leader, work)


def test_a_damaged_batch_is_fetched_again_and_nothing_of_it_kept() -> None:
    """REP-11: retried after the backoff, not appended; what is whole then is taken."""
    whole = batch(0, b"a", b"b")
    damaged = whole[:-1] + bytes([whole[-1] ^ 1])
    leader = ScriptedLeader(data(damaged), data(whole))

    async def work(node: ReplicaNode) -> None:
        await asyncio.sleep(0.5)
        assert node.log.log_end_offset == 0
        await until(end_is(node, 2), 3)
        assert [value for _, _, value in await node.values()] == [b"a", b"b"]

    run(leader, work)


def test_a_batch_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    """KIP-74: a byte limit may cut the last batch."""
    second = batch(1, b"b")
    leader = ScriptedLeader(data(batch(0, b"a"), second[:-3]), data(second))

    async def work(node: ReplicaNode) -> None:
        await until(lambda: len(leader.asked) == 3, 1)
        assert [asked.fetch_offset for asked in leader.asked] == [0, 1, 2]

    run(leader, work)


def test_nothing_but_a_part_of_a_batch_is_no_progress_and_no_busy_loop() -> None:
    """REP-11: a leader that never sends a whole batch is asked once a second."""
    leader = ScriptedLeader(*[data(batch(0, b"a")[:-1]) for _ in range(100)])

    async def work(node: ReplicaNode) -> None:
        await asyncio.sleep(10)
        assert 80 <= len(leader.answers) <= 95
        assert node.log.log_end_offset == 0

    run(leader, work)


def test_offsets_that_do_not_rise_are_refused() -> None:
    """LOG-9: neither a batch before the end nor two of the same offsets."""
    leader = ScriptedLeader(
        data(batch(0, b"a", b"b")),
        data(batch(1, b"again")),
        data(batch(2, b"c"), batch(2, b"d")),
        data(batch(2, b"c")),
    )

    async def work(node: ReplicaNode) -> None:
        await until(end_is(node, 3), 10)
        assert [value for _, _, value in await node.values()] == [b"a", b"b", b"c"]

    run(leader, work)


def test_a_gap_in_offsets_is_what_compaction_leaves() -> None:
    """LOG-9: offsets must rise, not follow one another."""
    leader = ScriptedLeader(data(batch(3, b"a")), data(batch(10, b"b"), batch(20, b"c")))

    async def work(node: ReplicaNode) -> None:
        await until(end_is(node, 21), 1)
        assert [offset for offset, _, _ in await node.values()] == [3, 10, 20]

    run(leader, work)


def test_what_was_never_asked_for_changes_nothing() -> None:
    """REP-11: other partitions, other topic ids, and partitions that are led here."""
    leader = ScriptedLeader(data(batch(0, b"a")))
    other = fetch.FetchableTopicResponse(
        topic_id=bytes(16), partitions=[data(batch(0, b"foreign"))]
    )
    same = fetch.FetchableTopicResponse(
        topic_id=TOPIC_ID, partitions=[data(batch(0, b"foreign"), index=1)]
    )
    leader.extra = [other, same]

    async def work(node: ReplicaNode) -> None:
        await node.learn([led_by(1, 5, index=1)])
        await until(end_is(node, 1), 2)
        led = node.replicas.partitions[TopicPartition("t", 1)]
        assert led.log.log_end_offset == 0
        assert [value for _, _, value in await node.values()] == [b"a"]

    run(leader, work)


def test_the_same_partition_twice_in_one_answer_is_taken_once() -> None:
    """LOG-9: the second comes before the end of what the first brought."""
    leader = ScriptedLeader(data(batch(0, b"a")))
    leader.extra = [
        fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data(batch(0, b"a"))])
    ]

    async def work(node: ReplicaNode) -> None:
        await until(end_is(node, 1), 1)
        await asyncio.sleep(3)
        assert [value for _, _, value in await node.values()] == [b"a"]

    run(leader, work)


def test_batches_of_a_later_leader_epoch_are_left_for_later() -> None:
    """LOG-9 (today): they belong to a leadership that the follower has not heard of."""
    leader = ScriptedLeader(
        data(batch(0, b"a", leader_epoch=5), batch(1, b"b", leader_epoch=6), high_watermark=2)
    )

    async def work(node: ReplicaNode) -> None:
        await until(end_is(node, 1), 1)
        await asyncio.sleep(2)
        assert [value for _, _, value in await node.values()] == [b"a"]
        assert node.log.high_watermark == 1

    run(leader, work)


def test_a_high_watermark_never_passes_the_own_end() -> None:
    """REP-4: min(HW in the response, own LEO)."""
    leader = ScriptedLeader(data(batch(0, b"a"), high_watermark=1_000_000))

    async def work(node: ReplicaNode) -> None:
        await until(end_is(node, 1), 1)
        await until(lambda: node.log.high_watermark == 1, 1)
        assert node.log.last_stable_offset == 1

    run(leader, work)


def test_answers_that_come_after_the_leader_changed_are_not_used() -> None:
    """LEAD-11, REP-17: an answer under way when the follower becomes the leader, or follows on."""

    async def test() -> None:
        links = Links()
        let_go = asyncio.Event()

        async def slow(asker: int, request: Any, version: int) -> fetch.FetchResponse:
            if let_go.is_set():
                await asyncio.sleep(1)
                return fetch.FetchResponse(session_id=1)
            await let_go.wait()
            return fetch.FetchResponse(
                session_id=1,
                responses=[
                    fetch.FetchableTopicResponse(
                        topic_id=TOPIC_ID,
                        partitions=[data(batch(0, b"late")), data(batch(0, b"late"), index=1)],
                    )
                ],
            )

        links.scripts[0] = slow
        node = await ReplicaNode(1, links).start()
        await node.learn([*topic_records(), led_by(0, 5), led_by(0, 5, index=1)])
        await asyncio.sleep(0.1)
        await node.learn([led_by(1, 6), led_by(0, 6, index=1)])
        let_go.set()
        await asyncio.sleep(0.01)
        assert [node.partition(index).log.log_end_offset for index in (0, 1)] == [0, 0]
        await node.stop()

    run_virtual(test())


@pytest.mark.parametrize(
    ("code", "fastest", "slowest"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 10, 20),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, 10, 20),
        (ErrorCode.UNKNOWN_TOPIC_ID, 10, 20),
        (ErrorCode.FENCED_LEADER_EPOCH, 8, 11),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 8, 11),
    ],
)
def test_errors_are_asked_again_without_hurry(code: ErrorCode, fastest: int, slowest: int) -> None:
    """REP-10, REP-17: soon where the leader is about to know; never in a busy loop."""
    leader = ScriptedLeader(*[data(error=code) for _ in range(100)])

    async def work(node: ReplicaNode) -> None:
        await asyncio.sleep(10)
        assert fastest <= 100 - len(leader.answers) <= slowest

    run(leader, work)


@pytest.mark.parametrize(
    ("ends", "expected_start", "expected_end"),
    [((0, 2), 0, 2), ((7, 20), 7, 7), ((1, 20), 0, 4)],
)
def test_out_of_range_is_put_right_by_the_leaders_ends(
    ends: tuple[int, int], expected_start: int, expected_end: int
) -> None:
    """REP-12: truncated, begun anew, or fetched again."""
    leader = ScriptedLeader(
        data(batch(0, b"a", b"b"), batch(2, b"c", b"d")),
        data(error=ErrorCode.OFFSET_OUT_OF_RANGE),
    )
    leader.ends = ends

    async def work(node: ReplicaNode) -> None:
        await until(lambda: len(leader.asked) >= 3, 5)
        await asyncio.sleep(0.1)
        assert (node.log.log_start_offset, node.log.log_end_offset) == (
            expected_start,
            expected_end,
        )
        assert leader.asked[-1].fetch_offset == expected_end

    run(leader, work)


@pytest.mark.parametrize("is_registered", [True, False])
def test_a_leader_epoch_that_no_leader_had_is_cut_off(is_registered: bool) -> None:
    """REP-16: a wrong bit of what was not synced; the leader cannot compare it, and says so.

    Not before the metadata has this broker's registration: until then it may be the older one.
    """

    async def test() -> None:
        leader = ScriptedLeader(data(batch(0, b"a", leader_epoch=5), high_watermark=1))
        node = await follower_of(leader)
        await until(lambda: [one.fetch_offset for one in leader.asked] == [0, 1], 1)
        await node.learn([led_by(-1, 6, isr=(0,))])
        node.log.append_as_follower(batch(1, b"b", leader_epoch=2**29))
        node.log.write_staged()
        if not is_registered:
            node.fetchers._broker_epoch = lambda: 77
        leader.answers = [
            data(error=ErrorCode.OFFSET_OUT_OF_RANGE),
            data(batch(1, b"c", leader_epoch=5), high_watermark=2),
        ]
        leader.ends, leader.asked = (0, 20), []
        await node.learn([led_by(0, 7)])
        await until(lambda: len(leader.asked) >= 2, 5)
        asked = [(one.fetch_offset, one.last_fetched_epoch) for one in leader.asked[:2]]
        assert asked == [(2, 2**29), (1, 5) if is_registered else (2, 2**29)]
        if is_registered:
            await until(lambda: node.log.log_end_offset == 2, 1)
            assert [value for _, _, value in await node.values()] == [b"a", b"c"]
        await node.stop()

    run_virtual(test())


def test_a_divergence_that_leads_nowhere_is_not_asked_about_in_a_busy_loop() -> None:
    """REP-16: the leader says that our epoch ends behind our end, yet that we diverge."""
    leader = ScriptedLeader(data(batch(0, b"a")), *[data(diverging=(0, 50)) for _ in range(100)])

    async def work(node: ReplicaNode) -> None:
        await asyncio.sleep(10)
        assert 85 <= len(leader.answers) <= 95
        assert node.log.log_end_offset == 1

    run(leader, work)


def test_going_back_through_epochs_ends_at_the_common_beginning() -> None:
    """KIP-279: the leader answers with its epoch before each one that it does not know."""
    leader = ScriptedLeader(
        data(
            batch(0, b"1", leader_epoch=1),
            batch(1, b"2", leader_epoch=2),
            batch(2, b"4", leader_epoch=4),
        ),
        data(diverging=(3, 9)),
        data(diverging=(1, 1)),
    )

    async def work(node: ReplicaNode) -> None:
        await until(lambda: len(leader.asked) == 4, 5)
        assert [(a.fetch_offset, a.last_fetched_epoch) for a in leader.asked] == [
            (0, -1),
            (3, 4),
            (2, 2),
            (1, 1),
        ]

    run(leader, work)


def test_records_without_any_epoch_are_kept_up_to_the_high_watermark_only() -> None:
    """REP-13, REP-16: the high watermark is used only when no epoch is known."""

    async def test() -> None:
        leader = ScriptedLeader(
            data(
                batch(0, b"a", leader_epoch=-1), batch(1, b"b", leader_epoch=-1), high_watermark=1
            ),
            data(batch(2, b"c", leader_epoch=-1), high_watermark=1),
        )
        node = await follower_of(leader)
        await until(end_is(node, 3), 1)
        await node.learn([led_by(0, 6)])
        await until(end_is(node, 1), 1)
        await node.stop()

    run_virtual(test())


def test_a_cut_log_is_known_to_be_cut_before_more_is_fetched() -> None:
    """REC-5, SEG-9: a recovery point above the cut would vouch for records that come later."""

    async def test() -> None:
        first = [batch(index, b"old", leader_epoch=1) for index in range(5)]
        leader = ScriptedLeader(data(*first))
        node = await follower_of(leader)
        await until(end_is(node, 5), 1)
        await node.log.flush()
        directory = node.logs.directories[0]
        await node.logs.checkpointing.write_all(directory)
        assert directory.recovery_points.read()[TP] == 5
        asked_before = len(leader.asked)
        leader.answers += [data(diverging=(1, 2))]
        await node.learn([led_by(0, 6)])
        await until(end_is(node, 2), 1)
        await until(lambda: len(leader.asked) > asked_before + 1, 5)
        assert directory.recovery_points.read()[TP] <= 2
        await node.stop()

    run_virtual(test())


def run_crash(seed: int, *, is_group_fsync: bool) -> None:
    """Follow, lose power somewhere, follow again: the copy ends right, and nothing told is lost."""

    async def test() -> None:
        links = Links()
        overrides = {"barnabas.flush.policy": "group-fsync"} if is_group_fsync else {}
        config = LogConfig.build({}, overrides)
        leader = await ReplicaNode(0, links).start()
        follower = ReplicaNode(1, links, topic_config=config)
        follower.disk.random = SimulatedRandom(seed)
        await follower.start()
        for node in (leader, follower):
            await node.learn([*topic_records(), led_by(0, 0)])
        random = SimulatedRandom(seed + 1)
        for epoch in range(1, 6):
            for _ in range(random.integer(6)):
                leader.produce(*[b"%d" % random.integer(100)] * (1 + random.integer(3)))
                await asyncio.sleep(random.fraction() / 50)
            told = [
                p.fetch_offset
                for asker, _, request in links.requests
                if asker == 1 and isinstance(request, fetch.FetchRequest)
                for topic in request.topics
                for p in topic.partitions
            ]
            image = follower.image
            disk = await follower.crash()
            if random.integer(2):
                await leader.learn([led_by(0, epoch)])
            follower = ReplicaNode(1, links, disk=disk, topic_config=config)
            await follower.start(leader.image if random.integer(2) else image)
            if is_group_fsync and TP in follower.replicas.partitions and told:
                assert follower.log.log_end_offset >= max(told), f"seed {seed}"
            links.requests.clear()
            await follower.learn([led_by(0, leader.partition().leader_epoch)])
        leader.produce(b"last")
        await until(lambda: _equal_ends(leader.log, follower.log), 30)
        assert await follower.values() == await leader.values(), f"seed {seed}"
        await follower.stop()
        await leader.stop()

    run_virtual(test())


def _equal_ends(a: PartitionLog, b: PartitionLog) -> bool:
    return a.log_end_offset == b.log_end_offset


@pytest.mark.parametrize("is_group_fsync", [False, True])
def test_a_follower_that_loses_power_becomes_a_copy_again(is_group_fsync: bool) -> None:
    """REP-18; under group-fsync what it reported is on its disk (a fetch offset acknowledges)."""
    for seed in range(25):
        run_crash(seed, is_group_fsync=is_group_fsync)


def test_a_log_that_was_cut_last_is_known_to_be_cut_when_its_fetcher_ends() -> None:
    """REC-5: the follower becomes the leader before its next fetch would have settled that."""

    async def test() -> None:
        first = [batch(index, b"old", leader_epoch=1) for index in range(5)]
        leader = ScriptedLeader(data(*first))
        node = await follower_of(leader)
        await until(end_is(node, 5), 1)
        await node.log.flush()
        directory = node.logs.directories[0]
        await node.logs.checkpointing.write_all(directory)
        (fetcher,) = node.fetchers._fetchers.values()
        fetcher._target._truncate(node.log, 2)
        await node.learn([led_by(1, 7)])
        await until(lambda: directory.recovery_points.read()[TP] <= 2, 1)
        assert len(node.fetchers) == 0
        await node.stop()

    run_virtual(test())
