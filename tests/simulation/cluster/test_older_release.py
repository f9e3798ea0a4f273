"""A release that must not touch the metadata is started on it, and changes nothing."""

import asyncio

import pytest

from barnabas_broker.controller import features
from barnabas_broker.controller.features import FeatureRange
from barnabas_broker.metadata import record_codec
from barnabas_broker.metadata.records import ConfigRecord, FeatureRecord
from tests.simulation.cluster.metadata_world import World

LEVEL = features.SUPPORTED[features.BARNABAS_VERSION].maximum


def metadata_files(world: World) -> dict[str, bytes]:
    return {
        path: bytes(content.data)
        for path, content in world.nodes[0].disk._names.items()
        if "__cluster_metadata-0/" in path
    }


def release(monkeypatch: pytest.MonkeyPatch, level: int) -> None:
    supported = {**features.SUPPORTED, features.BARNABAS_VERSION: FeatureRange(1, level)}
    monkeypatch.setattr(features, "SUPPORTED", supported)


def test_an_older_release_changes_nothing_of_newer_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It used to lead, and to write a snapshot without what it does not know, before its
    registration was refused.
    """
    world = World()

    async def tell() -> None:
        release(monkeypatch, LEVEL + 1)
        await world.begin()
        leader = next(one for one in world.nodes if one.server.control.controller.is_active)
        newer = FeatureRecord(features.BARNABAS_VERSION, LEVEL + 1)
        await leader.server.control.controller.submit(lambda image: ([newer], None))
        await asyncio.sleep(2)
        await world.stop(*world.nodes)
        before = metadata_files(world)
        release(monkeypatch, LEVEL)
        world.start(*world.nodes)
        await world.until(lambda: not any(node.is_up for node in world.nodes))
        assert world.said(f"the cluster is at barnabas.version {LEVEL + 1}")
        assert metadata_files(world) == before
        release(monkeypatch, LEVEL + 1)
        world.start(*world.nodes)
        await world.until(lambda: all("orders" in world.topics(node) for node in world.nodes))

    world.cluster.run(tell)


def test_a_running_broker_writes_no_level_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stops when the level comes, before it is on its disk."""
    world = World()

    async def tell() -> None:
        await world.begin()
        leader = next(one for one in world.nodes if one.server.control.controller.is_active)
        newer = FeatureRecord(features.BARNABAS_VERSION, LEVEL + 1)
        offset = leader.server.image.offset
        followers = [node for node in world.nodes if node is not leader]
        controller = leader.server.control.controller
        task = asyncio.ensure_future(controller.submit(lambda image: ([newer], None)))
        await world.until(lambda: not any(node.is_up for node in followers))
        await asyncio.gather(task, return_exceptions=True)
        assert world.said(f"the cluster is at barnabas.version {LEVEL + 1}")
        assert offset >= 0
        leader.kill()
        release(monkeypatch, LEVEL)
        world.start(*followers)
        await world.until(lambda: all(node.is_ready for node in followers))

    world.cluster.run(tell)


def test_no_snapshot_is_made_without_records_that_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log behind it would be trimmed, and they would be lost for good."""
    world = World()

    async def tell() -> None:
        await world.begin()
        leader = next(one for one in world.nodes if one.server.control.controller.is_active)
        setting = ConfigRecord(2, "orders", "retention.ms", "12345678")
        await leader.server.control.controller.submit(lambda image: ([setting], None))
        await asyncio.sleep(1)
        await world.stop(*world.nodes)
        for node in world.nodes:
            node.properties["metadata.log.max.record.bytes.between.snapshots"] = "1"
        readers = {**record_codec._READERS}
        del readers[ConfigRecord.type_number]
        with monkeypatch.context() as older:
            older.setattr(record_codec, "_READERS", readers)
            world.start(*world.nodes)
            await world.until(lambda: all(node.is_ready for node in world.nodes))
            await world.until(lambda: world.said("no snapshot of the metadata is made"))
            await world.stop(*world.nodes)
        assert not [path for path in metadata_files(world) if path.endswith(".checkpoint")]
        world.start(*world.nodes)
        await world.until(lambda: all(node.is_ready for node in world.nodes))
        overrides = world.nodes[0].server.image.config_overrides(2, "orders")
        assert overrides == {"retention.ms": "12345678"}

    world.cluster.run(tell)
