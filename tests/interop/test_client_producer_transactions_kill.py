"""kill -9 of a broker under transactions of our own producer (TXN-9).

Whatever `commit_transaction` said yes to is there once, whole and in order; whatever was aborted is
not there for readers of committed records. `BARNABAS_KILLS` runs more rounds; the seed is printed
and can be given in `BARNABAS_SEED`.
"""

import asyncio
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from barnabas_client.errors import AbortableError, RetriableError
from barnabas_client.producer import Producer
from barnabas_protocol.records.record import Record
from tests.client.producer.reading import read_all
from tests.interop.started_brokers import AnyBroker, start_broker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("BARNABAS_KILLS", "3"))
PARTITIONS = 3
RECORDS = 30
TOPIC = "transactional"


@dataclass
class History:
    """The numbers of the transactions, by what became of them."""

    committed: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)


async def produce(bootstrap: str, seed: int, history: History, stop: asyncio.Event) -> None:
    randomness = random.Random(seed)
    number = 0
    async with Producer(bootstrap, transactional_id="killed", linger_ms=1) as producer:
        await producer.init_transactions()
        while not stop.is_set():
            await producer.begin_transaction()
            is_good = await fill(producer, number) and randomness.random() < 0.7
            if is_good:
                is_good = await persist(producer.commit_transaction)
            if not is_good:
                await persist(producer.abort_transaction)
            (history.committed if is_good else history.aborted).append(number)
            number += 1


async def fill(producer: Producer, number: int) -> bool:
    """Send the records of a transaction, some of them acknowledged before the end."""
    try:
        for record in range(RECORDS):
            value = b"%d" % (number * RECORDS + record)
            delivery = producer.send(TOPIC, value, partition=record % PARTITIONS)
            if record == RECORDS // 2:
                await delivery
    except AbortableError:
        return False
    return True


async def persist(call: object) -> bool:
    """Repeat a commit or an abort until it has an answer; False if only an abort is left."""
    while True:
        try:
            await call()  # type: ignore[operator]
        except AbortableError:
            return False
        except RetriableError:
            continue
        return True


async def kill_and_restart(broker: AnyBroker, randomness: random.Random, history: History) -> None:
    for _ in range(KILLS):
        wanted = len(history.committed) + randomness.randrange(5, 40)
        async with asyncio.timeout(120):
            while len(history.committed) < wanted:
                await asyncio.sleep(0.005)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)


@pytest.mark.parametrize("kind", [pytest.param("apache", marks=pytest.mark.long), "barnabas"])
def test_kills_leave_whole_transactions_or_nothing(kind: str, tmp_path: Path) -> None:
    """The coordinator finishes what it promised, the producer repeats what it was not told."""
    seed = int(os.environ.get("BARNABAS_SEED", str(time.time_ns() % 10**6)))
    print(f"seed {seed}")
    properties = {"num.partitions": str(PARTITIONS), "auto.create.topics.enable": "true"}
    broker = start_broker(kind, tmp_path / "broker", properties)
    history = History()

    async def run() -> None:
        stop = asyncio.Event()
        producing = asyncio.create_task(produce(broker.bootstrap, seed, history, stop))
        killing = asyncio.create_task(kill_and_restart(broker, random.Random(seed), history))
        await asyncio.wait((producing, killing), return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await killing
        await producing
        found: dict[int, list[Record]] = {}
        async with asyncio.timeout(30):
            # The markers of the last transaction are written a moment after its answer.
            while sum(map(len, found.values())) < len(history.committed) * RECORDS:
                found = await read_all(broker.bootstrap, TOPIC, is_committed=True)
        for partition, records in found.items():
            expected = [
                number * RECORDS + record
                for number in history.committed
                for record in range(partition, RECORDS, PARTITIONS)
            ]
            assert [int(record.value or b"") for record in records] == expected

    try:
        asyncio.run(run())
    finally:
        if broker.process is not None and broker.process.is_running():
            broker.stop()
    print(f"{len(history.committed)} committed, {len(history.aborted)} aborted")
    assert history.aborted
