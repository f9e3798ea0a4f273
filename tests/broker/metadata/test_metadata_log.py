"""The metadata log: commit, recovery, snapshots, epochs."""

import asyncio

import pytest

from barnabas_broker.controller.topics import NewTopic
from barnabas_broker.metadata import snapshot
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_log import FETCH_BYTES, ImageLog
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.metadata.publisher import NotAppliedError
from barnabas_broker.metadata.quorum.voters import (
    Voter,
    committed_end_offset,
    has_majority,
    majority_end_offset,
)
from barnabas_broker.metadata.records import ConfigRecord
from barnabas_broker.metadata.snapshot_generator import SnapshotGenerator
from barnabas_protocol.errors import KafkaError, ParseError
from tests.support.control_plane import CLUSTER_ID, ControlPlane
from tests.support.memory_log import MemoryLog

A, B, C = Voter(1, b"a"), Voter(2, b"b"), Voter(3, b"c")


def test_majority_is_more_than_half_of_the_members() -> None:
    """Rule 3."""
    assert has_majority([A], [A])
    assert not has_majority([A, B], [A])
    assert has_majority([A, B, C], [A, C, Voter(9, b"x")])
    assert majority_end_offset([A, B, C], {A: 9, B: 5}) == 5
    assert majority_end_offset([A, B], {A: 9}) == 0
    assert majority_end_offset([], {A: 9}) == 0


def test_copies_of_older_epochs_commit_nothing() -> None:
    """Rule 3: a majority must hold a record of the leader's own epoch, which begins at 5."""
    assert committed_end_offset([[A, B, C]], {A: 6, B: 5}, own_epoch_start=5) == 0
    assert committed_end_offset([[A, B, C]], {A: 6, B: 6}, own_epoch_start=5) == 6


def test_old_and_new_members_must_agree_while_they_change() -> None:
    """Rule 4."""
    held = {A: 9, B: 7}
    assert committed_end_offset([[A]], held, 0) == 9
    assert committed_end_offset([[A], [A, B]], held, 0) == 7
    assert committed_end_offset([[A], [B, C]], held, 0) == 0


def test_everything_committed_is_there_after_a_crash_and_nothing_staged_is() -> None:
    """CTL-11."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        await plane.controller.create_topics([NewTopic(name="a", partition_count=2)])
        before = plane.image
        plane.quorum.stage([ConfigRecord(2, "a", "retention.ms", "1")])
        await plane.restart(previous_broker_epoch=before.brokers[0].epoch)
        assert plane.image.topics == before.topics
        assert plane.image.configs == before.configs
        assert plane.image.cluster_id == CLUSTER_ID
        await plane.close()

    asyncio.run(run())


def test_first_image_after_a_start_is_published_whole_and_leads_in_its_own_epoch() -> None:
    """CTL-6: with no delta, for there is nothing that it could be compared with."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        plane.published.clear()
        await plane.restart()
        delta, image = plane.published[0]
        assert delta is None
        assert (image.epoch, image.controller_id) == (2, 0)
        assert plane.log.leader_epochs.latest == 2
        await plane.close()

    asyncio.run(run())


def image_of_disk(plane: ControlPlane) -> ImageLog:
    return ImageLog(plane.log, plane.disk, plane.clock)


async def log_of_follower(plane: ControlPlane) -> tuple[ImageLog, MemoryLog]:
    """A log of its own with the leader's records, of which it knows none as committed."""
    records, _ = await image_of_disk(plane).records(0)
    log = MemoryLog("data/follower")
    plane.disk.make_directories(log.directory)
    follower = ImageLog(log, plane.disk, plane.clock)
    follower.append(records)
    return follower, log


def test_snapshot_and_the_rest_of_the_log_make_the_same_image() -> None:
    """CTL-12: with the log trimmed to what the older snapshot kept still needs."""

    async def run() -> None:
        plane = ControlPlane()
        plane.snapshot_interval_bytes = 2000
        await plane.restart()
        for index in range(40):
            await plane.controller.create_topics(
                [NewTopic(name=f"t{index}", configs={"retention.ms": "5"})]
            )
        await plane.controller.delete_topics(["t0", "t1"])
        await plane.controller.allocate_producer_ids()
        await plane.kill()
        names = snapshot.list_snapshots(plane.disk, plane.log.directory)
        assert len(names) == snapshot.SNAPSHOTS_KEPT
        log = image_of_disk(plane)
        before = await log.recover()
        assert "t39" in before.topics.by_name
        assert plane.log.log_start_offset > 0
        assert log.log_start_epoch == 1
        newest = f"{plane.log.directory}/{names[0].file_name}"
        plane.disk.write_atomically(newest, plane.disk.read_bytes(newest)[:-1])
        assert await image_of_disk(plane).recover() == before
        await plane.start(previous_broker_epoch=before.brokers[0].epoch)
        assert plane.image.topics == before.topics
        await plane.close()

    asyncio.run(run())


def test_a_log_that_does_not_follow_a_snapshot_stops_the_start() -> None:
    """A gap in the metadata is not something to go on with."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        image = plane.image
        await plane.kill()
        plane.log.log_start_offset = 1
        with pytest.raises(MetadataLogError, match="begins at 1"):
            await image_of_disk(plane).recover()
        plane.log.log_start_offset = 0
        await plane.disk.run(snapshot.write, plane.disk, plane.log.directory, image, 0)
        plane.log.log_end_offset = 0
        with pytest.raises(MetadataLogError, match="ends at 0"):
            await image_of_disk(plane).recover()

    asyncio.run(run())


def test_snapshot_that_cannot_be_written_does_no_harm() -> None:
    """The log still has everything."""

    async def run() -> None:
        plane = ControlPlane()
        plane.snapshot_interval_bytes = 500
        plane.disk.fail("rename", ".checkpoint")
        await plane.restart()
        for index in range(5):
            (result,) = await plane.controller.create_topics([NewTopic(name=f"t{index}")])
            assert result.error is None
        await plane.close()
        assert "t4" in (await image_of_disk(plane).recover()).topics.by_name

    asyncio.run(run())


def test_any_damage_of_a_snapshot_is_noticed() -> None:
    """By CRC, by count, and by both ends."""

    async def run() -> MetadataImage:
        plane = ControlPlane()
        await plane.start()
        await plane.controller.create_topics([NewTopic(name="a", partition_count=3)])
        await plane.close()
        return plane.image

    image = asyncio.run(run())
    data = snapshot.encode_snapshot(image, 0)
    assert snapshot.decode_snapshot(data) == image
    for position in range(21, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(ParseError):
            snapshot.decode_snapshot(bytes(damaged))
    for size in (0, 20, 61, len(data) - 1):
        with pytest.raises(ParseError):
            snapshot.decode_snapshot(data[:size])


def test_a_broker_that_cannot_act_on_committed_metadata_stops() -> None:
    """CTL-12: the others hear of the change, and nobody of a later one; it never goes on stale."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        heard: list[int] = []

        async def slow(_: object, image: MetadataImage) -> None:
            await asyncio.sleep(0)
            heard.append(image.offset)

        def broken(_: object, image: MetadataImage) -> None:
            raise ZeroDivisionError

        plane.publisher.subscribe(broken)
        plane.publisher.subscribe(slow)
        creations = [plane.controller.create_topics([NewTopic(name=name)]) for name in "abc"]
        await asyncio.gather(*creations, return_exceptions=True)
        with pytest.raises(KafkaError):
            await plane.controller.create_topics([NewTopic(name="d")])
        assert len(heard) == 1
        (failure,) = plane.failures
        assert isinstance(failure, NotAppliedError)
        assert isinstance(failure.__cause__, ZeroDivisionError)
        assert not plane.controller.is_active
        await plane.close()

    asyncio.run(run())


def test_a_follower_is_sent_few_records_at_a_time() -> None:
    """It applies them on its loop: 7,000 of a whole MiB held it up for 50 to 140 ms."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        for index in range(60):
            topic = NewTopic(name=f"t{index}", configs={"retention.ms": "5"}, partition_count=20)
            await plane.controller.create_topics([topic])
        log, offset, sizes = image_of_disk(plane), 0, []
        while offset < plane.log.log_end_offset:
            records, offset = await log.records(offset)
            sizes.append(len(records))
        assert len(sizes) > 1
        assert max(sizes) <= 2 * FETCH_BYTES
        await plane.close()

    asyncio.run(run())


def test_a_snapshot_from_the_leader_leads_on_from_what_was_committed() -> None:
    """CTL-12: the change is found before the log is cut; records that commit after it follow."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        await plane.controller.create_topics([NewTopic(name="a")])
        log, follower_log = await log_of_follower(plane)
        (first,) = log.take_committed(follower_log.log_end_offset)
        assert first.delta is None
        await plane.controller.create_topics([NewTopic(name="b")])
        image = plane.image
        name = snapshot.SnapshotName(image.offset + 1, image.epoch)
        data = snapshot.encode_snapshot(image, 0)
        await log.install(name, data, image)
        (change,) = log.take_committed(name.end_offset)
        assert change.delta is not None
        assert change.delta.image is first.image
        assert list(change.delta.created) == ["b"]
        assert change.image == image
        await plane.close()

    asyncio.run(run())


def test_no_snapshot_ends_behind_what_is_flushed() -> None:
    """A follower hears what is committed before it has flushed it; a power cut must do no harm."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        await plane.controller.create_topics([NewTopic(name="a")])
        log, follower_log = await log_of_follower(plane)
        log.take_committed(follower_log.log_end_offset)
        assert follower_log.flush_count == 0
        snapshotting = SnapshotGenerator(log, plane.disk, plane.clock, interval_bytes=1)
        snapshotting.start_if_due(lambda name: None)
        assert snapshotting._task is not None
        await snapshotting._task
        (name,) = snapshot.list_snapshots(plane.disk, follower_log.directory)
        assert name.end_offset == follower_log.log_end_offset
        follower_log.crash()
        recovered = await ImageLog(follower_log, plane.disk, plane.clock).recover()
        assert "a" in recovered.topics.by_name
        await plane.close()

    asyncio.run(run())
