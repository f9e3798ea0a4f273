"""The end of a replica manager."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.replication.turn import Turn
from tests.support.virtual_loop import VirtualClock


class Stub:
    """Stands for what closing does not use."""

    def __init__(self) -> None:
        self.disk_guard = SimpleNamespace(on_change=[])

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not used")


async def nothing() -> None:
    """A read that has nothing to wait for."""


@pytest.mark.timeout(20)
def test_closing_ends_when_a_task_has_ended_but_was_not_taken_out_yet() -> None:
    """STOP-8: since Python 3.12 waiting for ended tasks need not give way to the loop."""

    async def test() -> None:
        stub: Any = Stub()
        manager = ReplicaManager(
            node_id=0,
            logs=Mock(),  # whose guard and failures it listens to
            topic_config=stub,
            turn=Turn(asyncio.get_running_loop()),
            produce_purgatory=stub,
            fetch_purgatory=stub,
            clock=VirtualClock(asyncio.get_running_loop()),
            lag_ms_max=30_000,
        )
        manager._spawn(nothing())
        await asyncio.sleep(0)  # the task has ended, its callbacks are still to run
        await manager.close()
        assert not manager._tasks

    asyncio.run(test())
