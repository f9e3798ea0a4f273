"""The limit of open files."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas_broker.network import listeners
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient

PROGRAM = """
import resource
from barnabas_broker.env.open_files import allow_many_open_files, open_files_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
assert open_files_limit() == 64
assert allow_many_open_files() > 64
assert allow_many_open_files() == open_files_limit()
assert hard == resource.RLIM_INFINITY or open_files_limit() == hard
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    """1024 partitions are not many."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


def test_connections_leave_descriptors_to_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NET-4, LOG-11: clients alone cannot keep segments from being opened."""
    monkeypatch.setattr(listeners, "open_files_limit", lambda: 8)

    async def main() -> None:
        async with running_broker(tmp_path) as server:
            clients = [await RawClient.connect(server.port) for _ in range(4)]
            async with await RawClient.connect(server.port) as refused:
                assert await refused.is_closed_by_peer()
            assert server.listeners.connection_count == len(clients) == 4
            for client in clients:
                await client.__aexit__()

    asyncio.run(main())
