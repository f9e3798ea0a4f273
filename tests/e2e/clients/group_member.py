"""A member of a consumer group that reads a topic and commits, until it is killed.

Arguments: bootstrap topic group. Prints how many records it has read.
"""

import asyncio
import sys

from barnabas_client import Consumer


async def main(bootstrap: str, topic: str, group: str) -> None:
    count = 0
    async with Consumer(
        bootstrap, group_id=group, auto_offset_reset="earliest", auto_commit_interval_ms=500
    ) as consumer:
        consumer.subscribe([topic])
        async for _ in consumer:
            count += 1
            print(count, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
