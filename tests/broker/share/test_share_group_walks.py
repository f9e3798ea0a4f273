"""Random walks of members against a real leader: writes fail, members go, leader epochs change.

And leaders come whose logs have lost their ends, where other records follow.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from barnabas_protocol.errors import ErrorCode
from tests.broker.share.share_bench import Member, ShareBench, share
from tests.support.replica_nodes import led_by, until

STEPS = 120
RECORDS = 60
ACCEPT, RELEASE = 1, 2


class Walk:
    """Members that acquire, accept, release, forget and go away."""

    def __init__(self, bench: ShareBench, seed: int, *, loses: bool = False) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.leader_epoch = 0
        self.accepted: set[int] = set()
        self.failures = self.moves = 0
        self.loses = loses
        self.ends: list[int] = []  # of the logs that have lost something
        self.bases: list[int] = []  # of the batches that are there

    async def use(self, name: str, steps: int) -> None:
        """One member, with sessions of its own."""
        chance, member = self.random, self.bench.member(name)
        for _ in range(steps):
            if chance.random() < 0.1:
                member.connection.close()
                member = self.bench.member(name)
            offsets = await self.acquire(member, chance.choice([1, 5, 50]))
            seen = len(self.ends)
            await asyncio.sleep(chance.choice([0, 0, 0.01, 1.5]))
            if offsets and chance.random() < 0.9:
                await self.acknowledge(member, offsets, seen)

    async def acquire(self, member: Member, records_max: int) -> list[int]:
        """What is acquired now; nothing that was accepted is."""
        (one,) = await member.fetch(max_wait_ms=300, records_max=records_max)
        offsets = [o for first, last, _ in one.acquired for o in range(first, last + 1)]
        assert not self.accepted.intersection(offsets), "final, and delivered again"
        return offsets

    async def acknowledge(
        self, member: Member, offsets: list[int], seen: int, *, last: bool = False
    ) -> None:
        """Accept most, and release some, of what was acquired after so many losses."""
        kinds = [ACCEPT if last or self.random.random() < 0.8 else RELEASE for _ in offsets]
        code = await member.acknowledge(
            *((offset, offset, [kind]) for offset, kind in zip(offsets, kinds, strict=True))
        )
        if code:
            self.failures += 1
            return
        # A member whose lock ran out may accept what another has accepted: below the start that is
        # ignored without an error (SHR-7).
        end = min(self.ends[seen:], default=1 << 62)  # of what is still the same record
        taken = {o for o, kind in zip(offsets, kinds, strict=True) if kind == ACCEPT and o < end}
        self.accepted |= taken

    async def disturb(self) -> None:
        """Append, fail writes, and let another leader epoch begin."""
        for _ in range(25):
            await asyncio.sleep(self.random.random() * 2)
            self.produce(self.random.choice([1, 3, 7]))
            self.bench.persister.failures["write"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            if self.random.random() < 0.3:
                self.moves += 1
                self.leader_epoch += 1
                if self.loses and self.random.random() < 0.5:
                    await self.lose()
                await self.bench.node.learn([led_by(0, self.leader_epoch, replicas=(0,))])

    async def lose(self) -> None:
        """Let a replica lead whose log ends earlier, and get other records at once."""
        node = self.bench.node
        await node.learn([led_by(1, self.leader_epoch, replicas=(0, 1))])
        end = self.random.choice(self.bases[-5:])
        self.bases = [base for base in self.bases if base < end]
        self.ends.append(end)
        self.accepted = {offset for offset in self.accepted if offset < end}
        await node.log.truncate(end)
        await node.logs.note_truncations([node.log])
        self.leader_epoch += 1
        await node.learn([led_by(0, self.leader_epoch, replicas=(0,))])
        (partition,) = node.replicas.partitions.values()
        await until(lambda: partition.is_leader)
        self.produce(self.random.choice([1, 5, 30]))

    def produce(self, count: int) -> None:
        """Append one batch."""
        self.bases.append(self.bench.node.log.log_end_offset)
        self.bench.produce(count)


@pytest.mark.parametrize("loses", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_members_of_a_real_leader_lose_nothing_and_get_nothing_twice(
    seed: int, loses: bool
) -> None:
    """SHR-42: of what was accepted nothing comes again, and all of the rest comes at last."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(delivery_count_limit=100)
        walk = Walk(bench, seed, loses=loses)
        walk.produce(RECORDS)
        users = [walk.use(name, STEPS // 3) for name in ("a", "b", "c")]
        await asyncio.gather(*users, walk.disturb())
        bench.persister.failures["write"] = []
        last, everything = bench.member("last"), set(range(bench.node.log.log_end_offset))
        for _ in range(200):
            if walk.accepted == everything:
                break
            offsets = await walk.acquire(last, 500)
            if offsets:
                await walk.acknowledge(last, offsets, len(walk.ends), last=True)
        assert walk.accepted == everything, f"seed {seed}"
        assert bench.broker.loaded().records.start_offset == bench.node.log.log_end_offset
        assert walk.failures
        assert walk.moves
        assert bool(walk.ends) is loses

    share(scenario)
