"""How often a cluster is read, and what is told while it cannot be (CON-110, CON-135)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from barnabas_client.admin import Admin
from barnabas_client.errors import TimedOutError
from barnabas_console.cluster.cluster_watch import READING_MS_MIN, STALE_MS, ClusterWatch
from barnabas_console.cluster.overview import brokers, health
from barnabas_console.shared_calls import SharedCalls
from tests.support.simulated_clock import SimulatedClock


def test_topics_that_cannot_be_read_anew_are_not_called_well(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last reading stays; nobody is safe by it, and brokers are not asked all the time."""
    attempts: list[int] = []
    clock = SimulatedClock()

    async def fail(*_: Any, **__: Any) -> AsyncIterator[Any]:
        attempts.append(clock.monotonic_ms())
        raise TimedOutError("no answer")
        yield

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            watch = ClusterWatch(admin, SharedCalls(clock), clock)
            first = await watch.facts()
            assert not first.outdated
            with monkeypatch.context() as broken:
                broken.setattr(type(admin.topics), "pages", fail)
                clock.advance(STALE_MS)
                for _ in range(5):
                    facts = await watch.facts()
                    assert "no answer" in facts.outdated
                    assert facts.read_ms == first.read_ms
                assert len(attempts) == 1
                rows = brokers(facts)
                assert {row["safe"] for row in rows} == {"unknown"}
                assert health(facts, rows)["state"] == "unknown"
                clock.advance(READING_MS_MIN)
                await watch.facts()
                assert len(attempts) == 2
            clock.advance(READING_MS_MIN)
            assert not (await watch.facts()).outdated
            await watch.close()

    asyncio.run(run())
