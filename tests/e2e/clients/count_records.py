"""Reads so many records of a topic as a member of a group, commits, and prints their sum.

Arguments: bootstrap topic group count. It is sent to a pod that has only the broker's image.
"""

import asyncio
import sys

from barnabas_client import Consumer


async def main(bootstrap: str, topic: str, group: str, count: int) -> None:
    total = read = 0
    async with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            total += int(record.value or b"0")
            read += 1
            if read == count:
                break
    print(total)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
