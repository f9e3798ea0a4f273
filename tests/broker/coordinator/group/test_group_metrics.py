"""Labels that clients choose are bounded (security-findings 9)."""

import asyncio

import pytest

from barnabas_broker.coordinator.group import group_metrics
from barnabas_broker.coordinator.group.group_lag import GroupLag, PartitionLag
from barnabas_broker.coordinator.group.group_metrics import OTHERS, group_samples, lag_samples
from tests.broker.coordinator.group.coordinator_world import PARTITION, World, virtually


class KnownLag(GroupLag):
    """Lag of which nothing has to be found out."""

    def __init__(self, lags: list[PartitionLag]) -> None:
        self.lags = lags

    def read(self) -> "list[PartitionLag]":  # type: ignore[override]
        return self.lags


def test_groups_beyond_a_number_are_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were there first keep their names; records are summed, the oldest age told."""

    async def scenario() -> None:
        monkeypatch.setattr(group_metrics, "GROUPS_TOLD_MAX", 2)
        world = World()
        world.groups.runtime.start()
        for partition in range(50):
            world.groups.runtime.load(partition, 1)
            await world.groups.runtime.wait_until_loaded(partition)
        world.groups.runtime.unload(PARTITION)
        for number in range(5):
            assert (await world.join(group=f"made-{number}")).error_code in (0, 16)
        named = world.groups.named_groups(2)
        assert len(named) == 2
        members = {
            sample.labels["group"]: sample.value
            for sample in group_samples(world.groups)
            if sample.name == "barnabas_group_members"
        }
        total = sum(count for _, count in world.groups.member_counts())
        assert set(members) == {*named, OTHERS}
        assert sum(members.values()) == total
        lags = [
            PartitionLag(group, "t", index, 5, 10, age)
            for group in (*sorted(named), "x", "y")
            for index, age in ((0, 1.0), (1, 3.0))
        ]
        samples = list(lag_samples(world.groups, KnownLag(lags)))
        others = {each.name: each.value for each in samples if each.labels["group"] == OTHERS}
        assert others == {"barnabas_group_lag_records": 40, "barnabas_group_lag_seconds": 3.0}
        assert len(samples) == 3 * 4 + 2
        await world.groups.runtime.close()
        await asyncio.sleep(0)

    virtually(scenario())


def test_committed_offsets_and_their_metadata_are_told() -> None:
    """MET-6: groups times partitions have no bound but this one to look at (hostile-clients)."""

    async def scenario() -> None:
        world = await World().start()
        told = []
        for metadata in ("abc", "\u00e9"):
            await world.commit(5, metadata=metadata)
            samples = {sample.name: sample.value for sample in group_samples(world.groups)}
            told.append(samples["barnabas_group_offset_metadata_bytes"])
        assert samples["barnabas_group_offsets"] == 1
        assert told == [3, 2]
        await world.groups.runtime.close()

    virtually(scenario())
