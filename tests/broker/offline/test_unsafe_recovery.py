"""Going on from one broker's copy of the metadata, after the others' disks are lost."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas_broker.arbiter.arbiter import ArbiterError, ArbiterRecord, Leader, Member, Stored
from barnabas_broker.arbiter.election import ForeignClusterError
from barnabas_broker.arbiter.local_file import LocalFileArbiter
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.manager.log_directory import LogDirectoryLockedError
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.metadata.quorum.history import first_history
from barnabas_broker.offline.unsafe_recovery import Standing, alone, fence_others, unsafe_recovery
from barnabas_cli import cluster_recover
from tests.support.in_process_broker import running_broker

ME = Member(1, b"m" * 16)
RECORD = ArbiterRecord("cluster", 7, Leader(0, "gone", 9092), (ME, Member(0, b"x" * 16)), 5)
STANDING = Standing(
    cluster_id="cluster",
    me=ME,
    last_epoch=6,
    end_offset=100,
    promised_epoch=7,
    stored=Stored(RECORD, 3),
)


def test_the_new_epoch_is_above_all_that_anybody_may_know() -> None:
    """Rule 1: nobody goes on in an epoch; a promise may be ahead of the store, and of the log."""
    record = alone(STANDING, 9)
    assert record[:5] == ArbiterRecord("cluster", 8, None, (ME,), 9)[:5]
    assert alone(replace(STANDING, promised_epoch=12), 9).controller_epoch == 13
    assert alone(replace(STANDING, last_epoch=20), 9).controller_epoch == 21
    assert alone(replace(STANDING, stored=Stored(None, 0)), 9).controller_epoch == 8
    assert STANDING.other_members == [0]


def test_a_member_whose_own_disk_is_new_is_among_those_that_lose_their_seats() -> None:
    """Rule 6: a voter belongs to a disk."""
    assert replace(STANDING, me=Member(1, b"n" * 16)).other_members == [0, 1]


def test_a_recovery_begins_a_history_that_names_those_it_goes_on_from() -> None:
    """Rule 10: whoever has one of them may follow, and nobody else."""
    new, *earlier = alone(replace(STANDING, histories=(b"h" * 16, b"g" * 16)), 9).histories
    assert earlier == [b"h" * 16, b"g" * 16]
    assert new not in earlier
    assert alone(STANDING, 9).histories[1:] == (first_history("cluster"),)


def test_what_cannot_be_right_is_refused() -> None:
    with pytest.raises(ForeignClusterError):
        alone(replace(STANDING, cluster_id="another"), 9)
    with pytest.raises(MetadataLogError):
        alone(replace(STANDING, end_offset=0), 9)


def test_the_command_completes_a_recovery_however_often_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been interrupted just after this broker had become the only member."""

    async def run_once() -> None:
        async with running_broker(tmp_path / "data"):
            pass

    asyncio.run(run_once())
    config = tmp_path / "broker.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties(tmp_path).items()))
    completed = []

    async def complete(config: BrokerConfig) -> list[int]:
        completed.append(config.log_dirs)
        return await fence_others(config)

    monkeypatch.setattr(cluster_recover, "fence_others", complete)
    for _ in range(2):
        cluster_recover.recover_cluster(config, {}, is_confirmed=True)
    assert len(completed) == 2


def properties(directory: Path) -> dict[str, str]:
    return {"node.id": "0", "log.dirs": str(directory / "data")}


def arbiter_of(config: BrokerConfig) -> LocalFileArbiter:
    return LocalFileArbiter(RealDisk(), SystemClock(), config.arbiter_file_path, 100)


def test_a_stopped_broker_becomes_the_only_member_and_leads_again(tmp_path: Path) -> None:
    """The whole way, with a record that names members that are gone."""

    async def run() -> None:
        config = BrokerConfig.parse(properties(tmp_path))
        async with running_broker(tmp_path / "data") as server:
            before = server.image
            with pytest.raises(LogDirectoryLockedError):
                async with unsafe_recovery(config):
                    pass
        arbiter = arbiter_of(config)
        stored = await arbiter.read()
        assert stored.record is not None
        gone = (Member(1, b"x" * 16), Member(2, b"y" * 16))
        lost = stored.record._replace(
            leader=Leader(1, "gone", 1), members=(*stored.record.members, *gone)
        )
        await arbiter.compare_and_swap(stored.token, lost)
        async with unsafe_recovery(config) as resort:
            assert resort.standing.other_members == [1, 2]
            recovered = await resort.carry_out()
            with pytest.raises(ArbiterError):  # the record is another now
                await resort.carry_out()
        assert recovered.controller_epoch > before.epoch
        async with running_broker(tmp_path / "data") as server:
            assert server.image.epoch > recovered.controller_epoch - 1
            assert server.image.cluster_id == before.cluster_id

    asyncio.run(run())
