"""What is told of the arbiter's record: readings, swaps, and a store that is away."""

from __future__ import annotations

from barnabas_broker.arbiter.arbiter import ArbiterRecord, Stored
from barnabas_broker.metadata.quorum.arbiter_access import ArbiterAccess
from barnabas_broker.metadata.quorum.effects import Swap
from barnabas_broker.metadata.quorum.messages import Proposal
from tests.support.memory_arbiter import MemoryArbiter, MemoryStore
from tests.support.virtual_loop import run_virtual


def told(access: ArbiterAccess) -> dict[str, object]:
    """Values by name, less what all have in common; swaps by outcome."""
    return {
        sample.labels.get("outcome", sample.name.removeprefix("barnabas_arbiter_")): sample.value
        for sample in access.samples()
    }


def record(epoch: int) -> ArbiterRecord:
    return ArbiterRecord(
        cluster_id="cluster", controller_epoch=epoch, leader=None, members=(), renewed_ms=0
    )


def test_readings_and_swaps_are_counted_with_their_failures() -> None:
    """MET-2: a swap that comes too late, one without an answer, and a store that is back."""

    async def run() -> None:
        store = MemoryStore()
        readings: list[Stored] = []

        async def on_read(stored: Stored) -> None:
            readings.append(stored)

        access = ArbiterAccess(MemoryArbiter(store), on_read)

        async def swap(epoch: int) -> None:
            proposal = Proposal(controller_epoch=epoch, leader_id=None, members=frozenset())
            access.swap(Swap(expected_token=0, proposal=proposal), lambda _: record(epoch))
            await access.settle()

        await swap(1)
        counted = {"stored": 1, "conflict": 0, "unknown": 0}
        assert told(access) == {"reads_total": 1, "read_failures_total": 0, "away": 0, **counted}
        await swap(2)
        counted["conflict"] = 1
        assert told(access) == {"reads_total": 2, "read_failures_total": 0, "away": 0, **counted}
        store.is_away = True
        await swap(3)
        counted["unknown"] = 1
        assert told(access) == {"reads_total": 3, "read_failures_total": 1, "away": 1, **counted}
        store.is_away = False
        access.read()
        await access.settle()
        assert told(access) == {"reads_total": 4, "read_failures_total": 1, "away": 0, **counted}
        assert len(readings) == 3

    run_virtual(run())
