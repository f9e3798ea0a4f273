"""Writes ten orders and reads them as the group `billing`, with Barnabas' own client.

pip install 'dist/barnabas-0.2.0-py3-none-any.whl' && python orders.py
"""

import asyncio
import os

from barnabas_client import Consumer, Producer

BOOTSTRAP = os.environ.get("BOOTSTRAP_SERVERS", "127.0.0.1:9092")
COUNT = 10


async def main() -> None:
    async with Producer(BOOTSTRAP) as producer:
        for number in range(COUNT):
            producer.send("orders", b"order %d" % number, key=b"customer-%d" % (number % 3))

    async with Consumer(BOOTSTRAP, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        count = 0
        async for record in consumer:
            assert record.key is not None and record.value is not None
            print(record.key.decode(), record.value.decode())
            count += 1
            if count == COUNT:
                break


asyncio.run(main())
