"""Writes a record with the mounted files of a User, and reads it back in a group.

Arguments: the client.properties, topic, group, text. Prints the text that was read, or the name of
the error.
"""

import asyncio
import sys

from barnabas_client import Consumer, Producer
from barnabas_client.config.properties_file import settings_from_file
from barnabas_client.errors import BarnabasError


async def main(properties: str, topic: str, group: str, text: str) -> None:
    settings = settings_from_file(properties)
    async with Producer(**settings) as producer:
        await producer.send(topic, text.encode())
        await producer.flush()
    async with Consumer(**settings, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            if record.value == text.encode():
                print(text)
                return


if __name__ == "__main__":
    try:
        asyncio.run(asyncio.wait_for(main(*sys.argv[1:5]), 90))
    except BarnabasError as error:
        print(type(error).__name__, error)
