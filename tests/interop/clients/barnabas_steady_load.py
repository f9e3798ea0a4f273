"""Our idempotent producer under steady load, through the broker's deaths: as `steady_load.py`.

Usage: barnabas_steady_load.py BOOTSTRAP TOPIC PARTITIONS ACKNOWLEDGED_FILE [PAUSE_MS]. It numbers
its records per partition and appends a line `partition number offset` for each acknowledged one.
It ends when its standard input is closed, after everything has been delivered.
"""

import asyncio
import sys
from typing import TextIO

from barnabas_client.producer import Delivery, Producer

PAYLOAD = b"." * 200
IN_FLIGHT_MAX = 20000
ROUNDS_PER_PAUSE = 20
PAUSE_SECONDS = 0.02


class Load:
    """What was sent and what came back."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.failures: list[str] = []
        self.in_flight = 0

    def acknowledged(self, number: int, delivery: Delivery) -> None:
        self.in_flight -= 1
        error = delivery.exception()
        if error is not None:
            self.failures.append(str(error))
            return
        metadata = delivery.result()
        self.file.write(f"{metadata.partition} {number} {metadata.offset}\n")


async def input_ends() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def produce(bootstrap: str, topic: str, partitions: int, load: Load, pause_ms: int) -> int:
    stop = asyncio.create_task(input_ends())
    number = 0
    async with Producer(
        bootstrap,
        linger_ms=2,
        delivery_timeout_ms=600000,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=100,
        retry_backoff_ms=20,
    ) as producer:
        while not stop.done():
            for partition in range(partitions):
                delivery = producer.send(topic, PAYLOAD, key=b"%d" % number, partition=partition)
                load.in_flight += 1

                def done(finished: Delivery, number: int = number) -> None:
                    load.acknowledged(number, finished)

                delivery.add_done_callback(done)
            number += 1
            if pause_ms or number % ROUNDS_PER_PAUSE == 0:
                # A pace that a small machine holds; without a pause some thousand a second.
                load.file.flush()
                await asyncio.sleep(pause_ms / 1000 or PAUSE_SECONDS)
            while load.in_flight > IN_FLIGHT_MAX:
                await asyncio.sleep(PAUSE_SECONDS)
        await producer.flush(120_000)
    return number


def main(bootstrap: str, topic: str, partitions: int, path: str, pause_ms: int = 0) -> None:
    with open(path, "w", encoding="ascii") as file:
        load = Load(file)
        number = asyncio.run(produce(bootstrap, topic, partitions, load, pause_ms))
    if load.in_flight or load.failures:
        sys.exit(
            f"{load.in_flight} not delivered, {len(load.failures)} failed: {load.failures[:3]}"
        )
    print(f"produced {number * partitions}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], *map(int, sys.argv[5:]))
