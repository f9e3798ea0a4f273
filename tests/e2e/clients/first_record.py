"""Produces one record as soon as somebody takes it, reads it back, and prints when each was done,
in seconds since 1970.

Arguments: bootstrap topic. It is started before there is a broker, or even a name for one.
"""

import asyncio
import sys
import time

from barnabas_client import Consumer, Producer
from barnabas_client.errors import BarnabasError

PAUSE_SECONDS = 0.1


async def main(bootstrap: str, topic: str) -> None:
    while True:
        try:
            async with Producer(bootstrap) as producer:
                await producer.send(topic, b"the first")
        except (BarnabasError, OSError):
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            break
    produced = time.time()
    async with Consumer(bootstrap, group_id="first", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            assert record.value == b"the first"
            break
    print(f"{produced:.3f} {time.time():.3f}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
