"""Followers of real leaders, in one loop on virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch
from tests.support.replica_nodes import (
    TOPIC_ID,
    TP,
    Links,
    ReplicaNode,
    broker_record,
    led_by,
    topic_records,
    until,
)
from tests.support.virtual_loop import run_virtual


async def pair(count: int = 2) -> tuple[Links, list[ReplicaNode]]:
    """Nodes that know the topic; node 0 leads its only partition."""
    links = Links()
    nodes = [await ReplicaNode(node_id, links).start() for node_id in range(count)]
    replicas = tuple(range(count))
    for node in nodes:
        await node.learn([*topic_records(), led_by(0, 0, replicas=replicas)])
    return links, nodes


def end_known_of(leader: ReplicaNode, follower_id: int) -> int:
    """The log end that a follower was last known to have."""
    state = leader.partition().followers.get(follower_id)
    return -1 if state is None else state.log_end_offset


async def stop(nodes: list[ReplicaNode]) -> None:
    for node in nodes:
        if node.node_id in node.links.nodes:
            await node.stop()


def test_a_follower_becomes_a_copy_of_its_leader() -> None:
    """REP-9, LOG-9: offsets, leader epochs and bytes are the leader's."""

    async def test() -> None:
        _, nodes = await pair(3)
        leader = nodes[0]
        for number in range(20):
            leader.produce(b"v%d" % number, b"w")
        for follower in nodes[1:]:
            await until(lambda node=follower: node.log.log_end_offset == 40)  # type: ignore[misc]
            assert await follower.values() == await leader.values()
            assert follower.log.leader_epochs.entries == leader.log.leader_epochs.entries
        await stop(nodes)

    run_virtual(test())


def test_the_high_watermark_follows_one_round_behind() -> None:
    """REP-4, REP-5: told with the answer after the one that brought the records."""

    async def test() -> None:
        _, nodes = await pair()
        nodes[0].produce(b"a", b"b")
        await until(lambda: nodes[1].log.log_end_offset == 2)
        nodes[0].produce(b"c")
        await until(lambda: nodes[1].log.high_watermark >= 2)
        assert nodes[1].log.high_watermark <= nodes[1].log.log_end_offset
        await stop(nodes)

    run_virtual(test())


def test_the_leader_hears_how_far_its_follower_is() -> None:
    """REP-1, REP-3: what a member of the ISR has fetched is committed."""

    async def test() -> None:
        _, nodes = await pair()
        for node in nodes:
            await node.learn([led_by(0, 0, isr=(0, 1), partition_epoch=1)])
        nodes[0].produce(b"a", acks=-1)
        assert nodes[0].log.high_watermark == 0
        await until(lambda: nodes[0].log.high_watermark == 1)
        await stop(nodes)

    run_virtual(test())


def test_the_log_start_follows_the_leaders() -> None:
    """REP-4: records that were deleted at the leader go at its followers."""

    async def test() -> None:
        _, nodes = await pair()
        nodes[0].produce(b"a", b"b", b"c")
        await until(lambda: nodes[1].log.log_end_offset == 3)
        await nodes[0].log.delete_records(2)
        nodes[0].partition().start_offset_moved()
        nodes[0].produce(b"d")
        await until(lambda: nodes[1].log.log_start_offset == 2)
        await stop(nodes)

    run_virtual(test())


def test_a_new_leader_is_followed_and_what_it_lacks_is_cut() -> None:
    """REP-13, REP-16: by leader epoch, not by the high watermark."""

    async def test() -> None:
        links, nodes = await pair()
        a, b = nodes
        a.produce(b"both")
        await until(lambda: b.log.log_end_offset == 1)
        links.cut_off(1)
        a.produce(b"only a")
        await b.learn([led_by(1, 1)])
        b.produce(b"of b", b"of b too")
        links.cut.clear()
        await a.learn([led_by(1, 1)])
        await until(lambda: a.log.log_end_offset == 3)
        assert await a.values() == await b.values()
        assert a.log.leader_epochs.entries == b.log.leader_epochs.entries
        assert a.fetchers.truncation_count == 1
        await stop(nodes)

    run_virtual(test())


@pytest.mark.parametrize("deleted_to", [2, 3], ids=["within what was cut off", "to its end"])
def test_nothing_stays_below_the_log_start_that_the_leader_may_not_have_had(
    deleted_to: int,
) -> None:
    """REP-16: a leader cannot compare what it has deleted; nor may its follower ever bring it back.

    What was deleted comes back when the log start was not written down yet before a kill, and what
    producers sent says until then which of their batches are duplicates.
    """

    async def test() -> None:
        links, nodes = await pair()
        a, b = nodes
        for node in nodes:
            await node.learn([led_by(0, 0, isr=(0, 1), partition_epoch=1)])
        a.produce(b"both")
        await until(lambda: a.log.high_watermark == 1)
        links.cut_off(1)
        a.produce(b"only a", b"only a too")
        await b.learn([led_by(1, 1, partition_epoch=2)])
        b.produce(b"of b", b"of b too")
        b.produce(b"of b as well")
        await b.log.delete_records(deleted_to)
        links.cut.clear()
        await a.learn([led_by(1, 1, partition_epoch=2)])
        await until(lambda: a.log.log_end_offset == 4)
        assert await a.values() == await b.values()
        assert a.log.log_start_offset == b.log.log_start_offset == deleted_to
        stored = b"".join(
            a.disk.read_bytes(segment.log_path) for segment in a.log.segments.values()
        )
        assert b"of b as well" in stored
        assert b"only a" not in stored
        assert a.fetchers.failed_count == 0
        await stop(nodes)

    run_virtual(test())


def test_a_leader_deposed_before_its_first_append_follows_at_once() -> None:
    """KIP-279: it noted an epoch without records, which its new leader does not know."""

    async def test() -> None:
        _, nodes = await pair()
        a, b = nodes
        a.produce(b"both")
        await until(lambda: b.log.log_end_offset == 1)
        for epoch, leader in ((1, 1), (2, 0), (3, 1)):
            for node in nodes:
                await node.learn([led_by(leader, epoch)])
        b.produce(b"of epoch 3")
        await until(lambda: a.log.log_end_offset == 2)
        assert await a.values() == await b.values()
        await stop(nodes)

    run_virtual(test())


def test_a_partition_that_joins_does_not_wait_for_a_parked_fetch() -> None:
    """REP-9: after a failover each fetcher takes over partitions while its long poll is parked."""

    async def test() -> None:
        _, nodes = await pair()
        await asyncio.sleep(5.1)  # the fetch of partition 0 is parked
        for node in nodes:
            await node.learn([led_by(0, 0, isr=(0, 1), index=1)])
        nodes[0].produce(b"new", index=1, acks=-1)
        started = asyncio.get_running_loop().time()
        await until(lambda: nodes[0].partition(1).log.high_watermark == 1)
        assert asyncio.get_running_loop().time() - started < 0.05
        await stop(nodes)

    run_virtual(test())


def test_an_unreachable_leader_is_asked_again_without_hurry() -> None:
    """REP-10: a pause that grows to the backoff; at once when the broker is back."""

    async def test() -> None:
        links, nodes = await pair()
        await asyncio.sleep(1)
        links.cut_off(0)
        await asyncio.sleep(2)
        count = len(links.requests)
        await asyncio.sleep(60)
        assert 50 <= len(links.requests) - count <= 70
        await asyncio.sleep(0.3)
        links.cut.clear()
        nodes[0].produce(b"a")
        await nodes[1].learn([broker_record(0, broker_epoch=9)])
        started = asyncio.get_running_loop().time()
        await until(lambda: nodes[1].log.log_end_offset == 1)
        assert asyncio.get_running_loop().time() - started < 0.1
        await stop(nodes)

    run_virtual(test())


def test_an_idle_follower_asks_twice_a_second_and_names_nothing() -> None:
    """REQ-9, REP-10: idle partitions cost nothing."""

    async def test() -> None:
        links, nodes = await pair()
        for node in nodes:
            await node.learn([led_by(0, 0, index=index) for index in range(1, 300)])
        await asyncio.sleep(3)
        links.requests.clear()
        await asyncio.sleep(10)
        assert 15 <= len(links.requests) <= 25
        for _, _, request in links.requests:
            assert isinstance(request, fetch.FetchRequest)
            assert not request.topics
            assert request.session_id
        await stop(nodes)

    run_virtual(test())


def test_a_leader_that_does_not_know_yet_is_asked_until_it_does() -> None:
    """REP-17: the follower's metadata may be ahead; a second's backoff would hurt a failover."""

    async def test() -> None:
        _, nodes = await pair()
        a, b = nodes
        await a.learn([led_by(1, 1)])
        await asyncio.sleep(0.2)
        await b.learn([led_by(1, 1)])
        b.produce(b"x")
        started = asyncio.get_running_loop().time()
        await until(lambda: a.log.log_end_offset == 1)
        assert asyncio.get_running_loop().time() - started < 0.6
        await stop(nodes)

    run_virtual(test())


def test_a_replica_that_was_reassigned_is_deleted() -> None:
    """LEAD-10: its log goes, its fetching ends, and a new one is made where it is assigned."""

    async def test() -> None:
        _, nodes = await pair(3)
        nodes[0].produce(b"a", b"b")
        await until(lambda: nodes[1].log.log_end_offset == 2)
        for node in nodes:
            await node.learn([led_by(0, 1, replicas=(0, 2), partition_epoch=5)])
        assert TP not in nodes[1].replicas.partitions
        assert nodes[1].logs.get(TP) is None
        assert nodes[1].fetchers.followed_count == 0
        assert any(name.endswith("-delete") for name in nodes[1].disk.list_directory("/data"))
        await until(lambda: nodes[2].log.log_end_offset == 2)
        for node in nodes:
            await node.learn([led_by(0, 2, replicas=(0, 1, 2), partition_epoch=6)])
        await until(lambda: nodes[1].log.log_end_offset == 2)
        assert await nodes[1].values() == await nodes[0].values()
        await stop(nodes)

    run_virtual(test())


def test_a_failed_directory_stops_what_is_followed_there_and_is_reported() -> None:
    """LOG-11: the broker lives on; whoever sends heartbeats hears of it."""

    async def test() -> None:
        links, nodes = await pair()
        failed = []
        nodes[1].replicas.on_directory_offline.append(lambda item: failed.append(item.path))
        await asyncio.sleep(0.1)
        nodes[1].disk.fail("append", "t-0")
        nodes[0].produce(b"a")
        await until(lambda: bool(failed))
        await asyncio.sleep(1)
        assert failed == ["/data"]
        assert nodes[1].fetchers.followed_count == 0
        links.requests.clear()
        await asyncio.sleep(5)
        assert not links.requests
        await stop(nodes)

    run_virtual(test())


def test_where_a_replica_is_is_told_also_if_its_directory_has_failed() -> None:
    """LOG-11, KIP-858: a directory may fail before the controller knows who has a log there.

    The controller elects another leader only for replicas that it knows to be in that directory.
    """

    async def test() -> None:
        node = await ReplicaNode(1, Links(), directories="/a,/b").start()
        await node.learn([*topic_records(), led_by(1, 0)])
        directory = node.logs.directory_of(node.log)
        assert node.replicas.misplaced(None) == {TP: directory.directory_id}
        node.disk.fail("append", "t-0")
        node.produce(b"a")
        await until(lambda: directory.is_offline)
        assert node.replicas.misplaced(None) == {TP: directory.directory_id}
        await node.stop()

    run_virtual(test())


def test_a_restarted_follower_goes_on_where_it_ended() -> None:
    """REP-18: after a clean stop nothing is fetched twice."""

    async def test() -> None:
        links, nodes = await pair()
        a, b = nodes
        a.produce(b"a")
        await until(lambda: b.log.log_end_offset == 1)
        image = b.image
        await b.stop()
        a.produce(b"b")
        again = ReplicaNode(1, links, disk=b.disk)
        await again.start(image)
        assert again.log.log_end_offset == 1
        await until(lambda: again.log.log_end_offset == 2)
        assert await again.values() == await a.values()
        await stop([a, again])

    run_virtual(test())


def test_a_log_that_is_not_assigned_any_more_when_the_broker_joins_is_let_go() -> None:
    """TOP-15: the first image applied may be newer than the one by which logs were loaded."""

    async def test() -> None:
        links, nodes = await pair()
        nodes[0].produce(b"a")
        await until(lambda: nodes[1].log.log_end_offset == 1)
        await nodes[1].stop()
        await nodes[0].learn([led_by(0, 1, replicas=(0, 2))])
        again = ReplicaNode(1, links, disk=nodes[1].disk)
        await again.start(nodes[0].image)
        assert not again.replicas.partitions
        assert TopicPartition("t", 0) not in again.logs.logs
        assert not again.logs.removals.paths
        assert sum(again.logs.strays.values()) == 1
        assert again.logs.put_aside_count == 1
        await stop([nodes[0], again])

    run_virtual(test())


def test_a_replica_on_a_replaced_disk_is_made_anew_only_out_of_the_isr() -> None:
    """REG-8, NODE-8: nobody may count on records that an empty log does not have."""

    async def test() -> None:
        links, nodes = await pair()
        await nodes[1].learn([led_by(0, 0, isr=(0, 1), partition_epoch=1)])
        image = nodes[1].image
        await nodes[1].stop()
        again = ReplicaNode(1, links)
        lost = replace(
            led_by(0, 0, isr=(0, 1), partition_epoch=2),
            directories=(bytes(15) + b"1", bytes(15) + b"2"),
        )
        await again.start(image)
        del again.replicas.partitions[TP]
        await again.logs.delete(TP)
        await again.logs.note_deletions()
        await again.learn([lost])
        assert TP not in again.replicas.partitions
        await again.learn([replace(lost, isr=(0,), partition_epoch=3)])
        assert TP in again.replicas.partitions
        assert again.image.topics.by_id[TOPIC_ID].partitions[0].isr == (0,)
        await stop([nodes[0], again])

    run_virtual(test())


def test_whoever_follows_leadership_hears_of_every_epoch_that_is_led_here() -> None:
    """OFS-2: a coordinator whose broker was deposed and elected again in one delta loads anew."""

    async def test() -> None:
        _, nodes = await pair()
        node = nodes[0]
        heard: list[tuple[bool, int]] = []
        node.replicas.on_leadership.append(
            lambda partition: heard.append((partition.is_leader, partition.leader_epoch))
        )
        first = node.partition().leader_epoch
        await node.learn([led_by(0, first, isr=(0,), partition_epoch=50)])
        assert heard == []  # another ISR is no leadership
        await node.learn([led_by(0, first + 1, partition_epoch=51)])
        await node.learn(
            [led_by(1, first + 2, partition_epoch=52), led_by(0, first + 3, partition_epoch=53)]
        )
        await node.learn([led_by(1, first + 4, partition_epoch=54)])
        await node.learn([led_by(1, first + 5, partition_epoch=55)])
        assert heard == [(True, first + 1), (True, first + 3), (False, first + 4)]
        await stop(nodes)

    run_virtual(test())


def test_a_leader_that_missed_another_s_epoch_counts_no_offsets_from_before() -> None:
    """REP-19: in between its follower followed another leader and cut what it had reported."""

    async def test() -> None:
        links, nodes = await pair(3)
        a, b, c = nodes
        everybody = (0, 1, 2)
        for node in nodes:
            await node.learn([led_by(0, 1, replicas=everybody, isr=everybody)])
        links.cut_off(1)
        a.produce(b"of epoch 1")
        await until(lambda: end_known_of(a, 2) == 1)
        links.cut_off(0)
        links.cut -= {(1, 2), (2, 1)}
        for node in (b, c):
            await node.learn([led_by(1, 2, replicas=everybody, isr=everybody)])
        b.produce(b"of epoch 2")
        await until(lambda: c.log.leader_epochs.latest == 2)
        links.cut.clear()
        links.cut_off(2)
        # Node 0 hears of epochs 2 and 3 in one delta: it has led all the time, as far as it knows.
        for node in (a, b):
            records = [led_by(n, e, replicas=everybody, isr=everybody) for n, e in ((1, 2), (0, 3))]
            await node.learn(records)
        await until(lambda: end_known_of(a, 1) == 1)
        assert a.log.high_watermark == 0
        await stop(nodes)

    run_virtual(test())


def test_who_becomes_the_leader_waits_for_a_truncation_that_is_being_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """REC-5: a crash could take what is appended meanwhile for flushed, or mix it with the old."""

    async def run() -> None:
        node = await ReplicaNode(1, Links()).start()
        await node.learn([*topic_records(), led_by(1, 0), led_by(0, 0, index=1)])
        for _ in range(3):
            node.produce(b"v")
        await node.log.flush()
        await node.learn([led_by(0, 1)])
        writing, may_write = asyncio.Event(), asyncio.Event()
        write = OffsetCheckpointing.write_recovery_points

        async def held_back(checkpointing: OffsetCheckpointing, directory: LogDirectory) -> bool:
            writing.set()
            await may_write.wait()
            return await write(checkpointing, directory)

        monkeypatch.setattr(OffsetCheckpointing, "write_recovery_points", held_back)
        node.log.truncate_to(1)
        settling = asyncio.ensure_future(node.logs.note_truncations([node.log]))  # the fetcher
        await writing.wait()
        # Whatever the disk does, all other partitions hear at once what the metadata says of them.
        async with asyncio.timeout(0):
            await node.learn([led_by(1, 2), led_by(1, 2, index=1)])
        assert node.partition(1).is_leader
        for _ in range(100):
            await asyncio.sleep(0)
        assert not node.partition().is_leader
        await node.learn([led_by(1, 3)])
        may_write.set()
        await settling
        await until(lambda: node.partition().is_leader)
        assert node.partition().leader_epoch == 3
        node.produce(b"w")
        assert [value for _, _, value in await node.values()] == [b"v", b"w"]
        await node.stop()

    run_virtual(run())


def test_whoever_is_to_lead_a_log_that_is_being_cut_leads_when_the_log_is_open_again() -> None:
    """REC-5: a log that found no room comes back with its truncation not noted yet."""

    async def run() -> None:
        node = await ReplicaNode(1, Links()).start()
        await node.learn([*topic_records(), led_by(1, 0)])
        for _ in range(3):
            node.produce(b"v")
        await node.log.flush()
        await node.learn([led_by(0, 1)])
        node.log.truncate_to(1)
        node.log.local.is_offline = True  # as where a write found no room
        await node.learn([led_by(1, 2)])
        await asyncio.sleep(1)
        assert not node.partition().is_leader
        node.log.local.is_offline = False
        await until(lambda: node.partition().is_leader)
        assert not node.log.is_cut_unnoted
        await node.stop()

    run_virtual(run())


@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_a_truncation_that_makes_indexes_anew_waits_for_no_device(damage: str) -> None:
    """REC-2, REC-5: `no_fsync_on_the_loop` fails this; the next flush has them."""

    async def run() -> None:
        config = LogConfig.build({}, {"segment.bytes": str(1024 * 1024)})
        node = await ReplicaNode(1, Links(), topic_config=config).start()
        await node.learn([*topic_records(), led_by(1, 0)])
        for number in range(60):
            node.produce(b"%d" % number * 50_000)
        await node.stop()
        node = await ReplicaNode(1, Links(), disk=node.disk, topic_config=config).start(node.image)
        kept = node.log.segments.values()[1]
        for suffix in (".index", ".timeindex"):
            path = kept.path(suffix)
            if damage == "gone":
                node.disk.remove(path)
            else:
                file = node.disk.open(path)
                file.truncate(0)
                file.write_at(b"\xff" * 100, 0)
                file.close()
        offset = kept.base_offset + 5
        await node.log.truncate(offset)
        await node.log.flush()
        disk = await node.crash(keep_some=False)
        again = await ReplicaNode(1, Links(), disk=disk, topic_config=config).start(node.image)
        assert [found for found, _, _ in await again.values()] == list(range(offset))
        await again.stop()

    run_virtual(run())
