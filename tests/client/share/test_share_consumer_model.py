"""Several share consumers, each with a will of its own, while brokers and sessions come and go."""

import asyncio
import contextlib
import random
from typing import Any

import pytest

from barnabas_client.errors import ClosedError
from barnabas_client.share.records import AcknowledgeType
from barnabas_client.share.share_consumer import ShareConsumer
from barnabas_protocol.errors import ErrorCode
from tests.client.share.model_share_cluster import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ModelShareCluster,
)
from tests.support.virtual_loop import run_virtual

RECORD_COUNT = 60
PARTITION_COUNT = 3
_REFUSALS = (
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
)


class Worker:
    """A program that polls, dawdles, changes its mind, crashes and comes back."""

    def __init__(self, model: ModelShareCluster, seed: int, rejected: set[tuple[int, int]]) -> None:
        self.model = model
        self.random = random.Random(seed)
        self.rejected = rejected

    async def run(self) -> None:
        """Live until cancelled, one consumer after the other."""
        while True:
            consumer = self.model.consumer(share_acknowledgement_mode="explicit")
            client = self.model.clients[-1]
            await consumer.start()
            with contextlib.suppress(_Crash, ClosedError):
                await self._work(consumer)
            if self.random.random() < 0.5:
                # Killed: nothing more arrives, and the connections are lost.
                client.is_unreachable = True
            await consumer.close(timeout_ms=500)
            self.model.drop_sessions(_member_id(client))
            self.model.clients.remove(client)

    async def _work(self, consumer: ShareConsumer) -> None:
        for _ in range(self.random.randrange(5, 40)):
            records = await consumer.poll(
                timeout_ms=self.random.choice((0, 50, 700)),
                max_records=self.random.choice((1, 3, 500)),
            )
            for record in records:
                self._check_lock(record.partition, record.offset)
                kind = self.random.choices(
                    (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT),
                    (6, 3, 1),
                )[0]
                if kind is AcknowledgeType.REJECT:
                    self.rejected.add((record.partition, record.offset))
                consumer.acknowledge(record, kind)
                if self.random.random() < 0.05:
                    raise _Crash
            if self.random.random() < 0.3:
                await consumer.commit(timeout_ms=1000)
            await asyncio.sleep(self.random.choice((0, 0, 0.02, 0.5, 4)))

    def _check_lock(self, partition: int, offset: int) -> None:
        """SHR-41: what is delivered is acquired, or was until its leader or session was lost."""
        held = self.model[partition].states[offset]
        if held.state == ACQUIRED and self.model.loop.time() < held.lock_until:
            return
        assert not self.model.is_calm, f"{partition}@{offset} was delivered without a lock"


class _Crash(Exception):
    """The program dies with records in its hands."""


def _member_id(client: Any) -> str:
    return str(client.member_id)


@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_final_once_and_none_is_lost(seed: int) -> None:
    """SHR-42, SHR-41: the client's part of it, with locks of 3 seconds."""

    async def run() -> None:
        chance = random.Random(seed)
        model = ModelShareCluster(PARTITION_COUNT, lock_ms=3000, delivery_limit=1 << 14)
        rejected: set[tuple[int, int]] = set()
        workers = [Worker(model, seed * 10 + number, rejected) for number in range(3)]
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        # In every other story nothing is lost but programs: then each delivery has its lock.
        model.is_calm = seed % 2 == 0
        for number in range(RECORD_COUNT):
            model[chance.randrange(PARTITION_COUNT)].append(b"%d" % number, None)
            await asyncio.sleep(chance.choice((0, 0.01, 0.3)))
            if model.is_calm or chance.random() < 0.6:
                continue
            match chance.randrange(3):
                case 0:
                    model.move(
                        chance.randrange(PARTITION_COUNT),
                        chance.choice((1, 2)),
                        is_told=chance.random() < 0.5,
                    )
                case 1:
                    model.refusals.setdefault(chance.choice((1, 2)), model.no_refusals()).append(
                        chance.choice(_REFUSALS)
                    )
                case 2:
                    model.cut.append(chance.choice((1, 2)))
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(ended, asyncio.CancelledError), repr(ended)
        model.cut.clear()
        model.refusals.clear()
        await asyncio.sleep(4)
        async with model.consumer() as last, asyncio.timeout(600):
            while any(
                state not in (ACKNOWLEDGED, ARCHIVED)
                for number in range(PARTITION_COUNT)
                for state in model.states(number)
            ):
                await last.poll(timeout_ms=1000)
        for number in range(PARTITION_COUNT):
            for offset, state in enumerate(model.states(number)):
                is_record = offset % 2 == 0
                was_rejected = (number, offset) in rejected
                expected = {ACKNOWLEDGED, ARCHIVED} if was_rejected else {ACKNOWLEDGED}
                assert state in (expected if is_record else {ARCHIVED}), (seed, number, offset)
                assert model[number].accepted[offset] == (state == ACKNOWLEDGED)

    run_virtual(run())
