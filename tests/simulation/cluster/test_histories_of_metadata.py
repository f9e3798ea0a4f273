"""The arbiter's record is lost, or restored from an old copy: no broker gives up what it has."""

import asyncio
import copy

from barnabas_broker.controller.pending_recovery import EPOCHS_SKIPPED, ORDER_FILE
from barnabas_broker.controller.producer_ids import IDS_SKIPPED
from barnabas_broker.metadata.quorum.history import HISTORY_FILE
from barnabas_protocol.ids import uuid_to_text
from tests.simulation.cluster.metadata_world import SETTINGS, World


def test_brokers_with_a_history_refuse_a_second_founding() -> None:
    """An empty disk and a lost record: epoch 1 again, but another history; nothing is removed."""
    world = World()

    async def tell() -> None:
        await world.begin()
        await world.stop(*world.nodes)
        world.store.put(None)
        world.nodes[0].lose_disk()
        world.start(*world.nodes)
        await world.until(lambda: not world.nodes[1].is_up and not world.nodes[2].is_up)
        await asyncio.sleep(5)
        for node in world.nodes[1:]:
            assert world.folders(node) == {"orders-0"}
        assert world.said("is of another history of cluster c")

    world.cluster.run(tell)


def test_a_blank_broker_of_a_known_history_founds_nothing() -> None:
    """It has read the record, and nothing of the metadata yet, when the record is lost.

    Founding would not even be another history: the others would follow, and stop at the cut.
    """
    world = World()
    blank, *others = world.nodes

    def knows_history() -> bool:
        return any(path.endswith(HISTORY_FILE) for path in blank.disk._names)

    async def tell() -> None:
        await world.begin()
        record = world.store.stored.record
        await world.stop(*world.nodes)
        blank.lose_disk()
        world.start(blank)
        await world.until(knows_history)
        world.store.put(None)
        for _ in range(2):
            await asyncio.sleep(10)
            assert world.store.stored.record is None
            assert world.said("nobody leads the control plane")
            blank.kill()
            world.start(blank)
        world.store.put(record)
        world.start(*others)
        await world.until(lambda: all("orders" in world.topics(node) for node in world.nodes))

    world.cluster.run(tell)


def test_the_old_history_goes_on_when_its_record_comes_back() -> None:
    """What the message says helps; the founder of the other history is the one that stops."""
    world = World()

    async def tell() -> None:
        await world.begin()
        record = world.store.stored.record
        await world.stop(*world.nodes)
        world.store.put(None)
        world.nodes[0].lose_disk()
        world.start(world.nodes[0])
        await world.until(lambda: world.nodes[0].is_ready)
        world.store.put(record)
        await world.until(lambda: not world.nodes[0].is_up)
        world.start(*world.nodes[1:])
        await world.until(lambda: all(node.is_ready for node in world.nodes[1:]))
        world.nodes[0].lose_disk()
        world.start(world.nodes[0])
        await world.until(lambda: all("orders" in world.topics(node) for node in world.nodes))

    world.cluster.run(tell)


def test_an_old_copy_of_the_record_lets_nobody_lead() -> None:
    """Its members need not have what was committed since; who promised more says so and waits."""
    world = World()

    async def tell() -> None:
        await world.begin()
        old = world.store.stored.record
        for _ in range(2):  # leaderships that the copy knows nothing of
            leader = world.store.stored.record.leader.node_id
            await world.stop(world.nodes[leader])
            world.start(world.nodes[leader])
            await world.until(lambda: all(node.is_ready for node in world.nodes))
        await world.create_topic("later")
        newest = world.store.stored.record
        assert newest.controller_epoch > old.controller_epoch
        await world.stop(*world.nodes)
        world.store.put(old._replace(leader=None))
        world.start(*world.nodes)
        await world.until(lambda: world.said("an old copy of it was brought back"))
        await asyncio.sleep(20)
        assert world.store.stored.record.controller_epoch == old.controller_epoch
        world.store.put(newest)
        for node in world.nodes:
            if not node.is_up:
                node.start()
        await world.until(lambda: all(node.is_ready for node in world.nodes))
        assert all(world.topics(node) == {"orders", "later"} for node in world.nodes)

    world.cluster.run(tell)


def test_an_interrupted_recovery_is_completed_by_the_next_start() -> None:
    """Nobody has to run the command again: what it has ordered is done before the registration.

    The others are fenced, so that what the survivor has in sync it leads; numbers that the lost
    metadata may have given out are not given out again.
    """
    world = World()

    async def tell() -> None:
        await world.begin()
        await world.stop(*world.nodes)
        record = world.recovered_by(2)
        ids = [uuid_to_text(one) for one in record.histories]
        folder = "/data/__cluster_metadata-0"
        world.nodes[2].disk.write_atomically(f"{folder}/{ORDER_FILE}", f"0\n{ids[0]}\n".encode())
        world.store.put(record)
        world.nodes[2].start()
        await world.until(lambda: world.nodes[2].is_ready)
        image = world.nodes[2].server.image
        (orders,) = image.topics.by_name["orders"].partitions
        assert (orders.isr, orders.leader) == ((2,), 2)
        assert orders.leader_epoch >= EPOCHS_SKIPPED
        assert orders.partition_epoch >= EPOCHS_SKIPPED
        assert image.next_producer_id >= IDS_SKIPPED
        assert image.brokers[0].fenced
        assert image.brokers[1].fenced
        assert not world.nodes[2].disk.exists(f"{folder}/{ORDER_FILE}")
        world.start(*world.nodes[:2])
        await world.until(lambda: all(node.is_ready for node in world.nodes))

    world.cluster.run(tell)


def test_an_order_of_a_recovery_that_never_happened_is_dropped() -> None:
    """The command was interrupted before it changed the record."""
    world = World()

    async def tell() -> None:
        await world.begin()
        await world.stop(world.nodes[2])
        path = f"/data/__cluster_metadata-0/{ORDER_FILE}"
        world.nodes[2].disk.write_atomically(path, f"0\n{uuid_to_text(b'x' * 16)}\n".encode())
        world.nodes[2].start()
        await world.until(lambda: world.nodes[2].is_ready)
        assert not world.nodes[2].disk.exists(path)
        (orders,) = world.nodes[2].server.image.topics.by_name["orders"].partitions
        assert orders.leader_epoch < EPOCHS_SKIPPED

    world.cluster.run(tell)


def test_a_disk_that_was_restored_from_a_copy_does_not_count_before_it_has_caught_up() -> None:
    """It is the member that it was by its ids, but lacks what it has acknowledged."""
    world = World()
    parts = ("_names", "_safe_names", "_directories")

    async def tell() -> None:
        await world.begin()
        disk = world.nodes[1].disk
        kept = copy.deepcopy({name: getattr(disk, name) for name in parts})
        world.nodes[2].kill()
        await asyncio.sleep(5)
        await world.create_topic("later", 2)
        await world.stop(*world.nodes[:2])
        for name in parts:
            setattr(disk, name, kept[name])
        disk._unsafe_names.clear()
        world.start(*world.nodes[1:])
        await world.until(lambda: world.said("this broker's disk is older than what it has"))
        await asyncio.sleep(15)
        assert not any(node.is_ready for node in world.nodes[1:])
        world.start(world.nodes[0])
        for node in world.nodes[1:]:
            if not node.is_up:
                node.start()
        await world.until(lambda: all(node.is_ready for node in world.nodes))
        assert all(world.topics(node) == {"orders", "later"} for node in world.nodes)
        assert world.store.stored.record.ends, "it is one of them again"

    world.cluster.run(tell)


def test_members_that_come_back_follow_a_recovered_history() -> None:
    """`barnabas cluster recover` by a broker that lacks the newest topic: the others give it up,
    and keep its data as a stray.
    """
    world = World()

    async def tell() -> None:
        await world.begin()
        await world.stop(world.nodes[2])
        await world.create_topic("orders-later", 2)
        await asyncio.sleep(6)  # the high watermark is in the checkpoint
        await world.stop(*world.nodes[:2])
        world.store.put(world.recovered_by(2))
        world.start(world.nodes[2])
        await world.until(lambda: world.nodes[2].is_ready)
        world.start(*world.nodes[:2])
        await world.until(lambda: all(node.is_ready for node in world.nodes))
        assert all(world.topics(node) == {"orders"} for node in world.nodes)
        assert all(
            any(name.endswith("-stray") for name in world.folders(node)) for node in world.nodes[:2]
        )
        for node in world.nodes[:2]:
            node.kill()
            node.start()
        await world.until(lambda: all(node.is_ready for node in world.nodes))

    world.cluster.run(tell)


def test_brokers_refuse_a_cluster_that_was_founded_without_them() -> None:
    """No `cluster.id` is set: the founder with the empty disk draws one of its own.

    The others stop at once, say what helps, and have all that they had when it is done.
    """
    world = World(settings={name: SETTINGS[name] for name in SETTINGS if name != "cluster.id"})
    founder, *others = world.nodes

    async def tell() -> None:
        await world.begin()
        record = world.store.stored.record
        founder.lose_disk()
        world.store.put(None)
        world.start(founder)
        await world.until(lambda: not any(node.is_up for node in others))
        assert world.store.stored.record.cluster_id != record.cluster_id
        assert all(world.folders(node) == {"orders-0"} for node in others)
        assert world.said(f"is of cluster {world.store.stored.record.cluster_id}, not of")
        assert world.said("stop it, and bring the arbiter's record back")
        await world.stop(founder)
        world.store.put(record)
        world.start(*others)
        await world.until(lambda: all(node.is_ready for node in others))
        founder.lose_disk()
        world.start(founder)
        await world.until(lambda: all("orders" in world.topics(node) for node in world.nodes))

    world.cluster.run(tell)
