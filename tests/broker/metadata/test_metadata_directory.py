"""Which log directory holds the metadata log: `metadata.log.dir`, or the one that has it."""

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.log.manager.log_identity import IdentityError
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from tests.support.in_process_broker import broker_on, running_broker

METADATA = "-".join(map(str, METADATA_PARTITION))


async def voter_and_directory(root: Path, log_dirs: str, **settings: str) -> tuple[str, str]:
    """The directories, by their last letter, of the voter's voter and of the metadata log."""
    paths = ",".join(str(root / name) for name in log_dirs)
    async with running_broker(root, log_dirs=paths, **settings) as server:
        quorum = server.control.quorum
        ids = {one.directory_id: one.path for one in server.logs.directories}
        assert quorum.record.members == {quorum.voter}
        return ids[quorum.voter.directory_id][-1], Path(quorum.log.directory).parent.name


@pytest.mark.parametrize("home", ["a", "b"])
def test_the_metadata_log_and_the_voter_are_in_metadata_log_dir(tmp_path: Path, home: str) -> None:
    """A new disk in another place must not have the voter of what is lost with an old one."""
    place = str(tmp_path / home)
    found = asyncio.run(voter_and_directory(tmp_path, "ab", metadata_log_dir=place))
    assert found == (home, home)
    assert [path.parent.name for path in tmp_path.glob(f"*/{METADATA}")] == [home]
    assert [path.parent.name for path in tmp_path.glob("*/arbiter.json")] == [home]


def test_log_dirs_may_be_reordered(tmp_path: Path) -> None:
    """Without `metadata.log.dir`, the directory that has the metadata log keeps it."""

    async def run() -> None:
        for order in ("ab", "ba", "cba"):
            assert await voter_and_directory(tmp_path, order) == ("a", "a")

    asyncio.run(run())


def test_another_metadata_log_dir_is_refused(tmp_path: Path) -> None:
    """Its voter would go with it: the message names the setting that is right."""
    asyncio.run(voter_and_directory(tmp_path, "ab"))
    with pytest.raises(IdentityError, match=f"set metadata.log.dir to {tmp_path / 'a'}"):
        asyncio.run(voter_and_directory(tmp_path, "ab", metadata_log_dir=str(tmp_path / "b")))
    assert not (tmp_path / "b" / METADATA).exists()
    assert asyncio.run(voter_and_directory(tmp_path, "ab")) == ("a", "a")


def test_two_metadata_logs_are_refused(tmp_path: Path) -> None:
    """One of them is old: which one, the broker cannot know."""
    asyncio.run(voter_and_directory(tmp_path, "ab"))
    (tmp_path / "b" / METADATA).mkdir()
    with pytest.raises(IdentityError, match="one of them is a copy"):
        asyncio.run(voter_and_directory(tmp_path, "ab"))


def test_no_metadata_log_is_made_while_a_directory_is_offline(tmp_path: Path) -> None:
    """The one that is offline may have it."""
    asyncio.run(voter_and_directory(tmp_path, "ab"))
    (tmp_path / "a").rename(tmp_path / "kept")
    (tmp_path / "a").write_text("no directory")

    async def run() -> None:
        server = broker_on(tmp_path, log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
        with pytest.raises(OSError, match="may hold the metadata log"):
            await server.start()

    asyncio.run(run())
    assert not (tmp_path / "b" / METADATA).exists()
