"""Prints `partition offset number` for every record of a topic, up to where it ends now; the
number is the record's key.

Arguments: bootstrap topic. It is sent to a pod that has nothing but the broker's image.
"""

import asyncio
import sys

from barnabas_client import Admin, Consumer


async def main(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        described = (await admin.topics.describe([topic])).unwrap()[topic]
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in described.partitions])
        ends = await consumer.end_offsets(consumer.assignment())
        missing = {partition: end for partition, end in ends.items() if end > 0}
        while missing:
            for record in await consumer.poll(timeout_ms=1000):
                print(record.partition, record.offset, int(record.key or b"-1"))
            for partition in list(missing):
                if await consumer.position(partition) >= missing[partition]:
                    del missing[partition]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
