"""A compacted topic whose broker dies during compaction has the newest record of every key."""

import asyncio

import pytest

from tests.simulation import requests
from tests.simulation.seeds import run_seeds
from tests.support.simulated_broker import End, Life, Machine
from tests.support.simulated_random import SimulatedRandom

TOPIC = "states"
KEYS = 6


class Table:
    """Keys with rising versions: what was asked for and what was acknowledged."""

    def __init__(self, seed: int) -> None:
        self._draws = SimulatedRandom(seed)
        self._is_created = False
        self._asked = dict.fromkeys(range(KEYS), 0)
        self._acknowledged = dict.fromkeys(range(KEYS), 0)
        self.appended = 0
        self.found = 0
        self.machine = Machine(
            seed,
            {
                "barnabas.flush.policy": "group-fsync",
                "log.cleaner.backoff.ms": str(50 + self._draws.integer(500)),
                "log.cleaner.min.cleanable.ratio": "0.01",
                "log.roll.ms": str(50 + self._draws.integer(500)),
                "log.index.interval.bytes": "100",
            },
        )

    def run(self) -> None:
        for _ in range(3):
            end = (End.KILL, End.POWER_LOSS)[self._draws.integer(2)]
            self.machine.live(self._work, end=end, operations=150 + self._draws.integer(900))
        self.machine.live(self._work)
        self.machine.live(self._check)
        if self.machine.errors:
            raise AssertionError("\n".join(["the broker logged:", *self.machine.errors]))

    async def _work(self, life: Life) -> None:
        await self._check(life)
        async with await life.connect() as client:
            if TOPIC not in await requests.topics(client):
                assert not self._is_created
                code, _ = await requests.create_topic(client, TOPIC, cleanup_policy="compact")
                self._is_created = code == 0
            for _ in range(60):
                key = self._draws.integer(KEYS)
                self._asked[key] += 1
                version = self._asked[key]
                request = requests.append_request(
                    TOPIC,
                    0,
                    [b"%d" % version],
                    keys=[b"%d" % key],
                    timestamp_ms=life.machine.clock.wall_ms(),
                )
                assert (await requests.append(client, request)).error_code == 0
                self._acknowledged[key] = version
                self.appended += 1
                await asyncio.sleep(self._draws.integer(50) / 1000)

    async def _check(self, life: Life) -> None:
        await asyncio.sleep(5)
        async with await life.connect() as client:
            if TOPIC not in await requests.topics(client):
                assert not self._is_created
                return
            records = await requests.read_all(client, TOPIC, 0)
        self.found = len(records)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        newest = dict.fromkeys(range(KEYS), 0)
        for record in records:
            assert record.key is not None
            assert record.value is not None
            key, version = int(record.key), int(record.value)
            assert version > newest[key], "the versions of a key are not in order"
            newest[key] = version
        for key, version in newest.items():
            assert self._acknowledged[key] <= version <= self._asked[key], key


@pytest.mark.timeout(1200)
def test_the_newest_record_of_each_key_survives_compaction_and_crashes() -> None:
    """REC-1, REC-6: replaced segments are whole, old or new, never in between."""
    compacted = 0

    def run(seed: int) -> None:
        nonlocal compacted
        table = Table(seed)
        table.run()
        compacted += table.appended - table.found

    run_seeds(5, run)
    assert compacted > 0
