"""Produces and consumes all the time, and tells every error that a user of the clients would see.

One producer (acks=all) and one consumer of a group stay connected. Besides, another producer is
made from the file for each round, as a client that starts just then: what a new log-in or a new
handshake meets is seen at once.

Arguments: the client.properties, topic, group. Numbers of what was done are written to
/tmp/figures once a second, a line with `failure` to the standard output for each error. When
/tmp/stop appears it waits until all that was acknowledged is read, prints the numbers and ends.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from barnabas_client import Consumer, Producer
from barnabas_client.config.properties_file import settings_from_file
from barnabas_client.errors import BarnabasError

INTERVAL_SECONDS = 0.1
READ_SECONDS = 60
STOP = Path("/tmp/stop")
FIGURES = Path("/tmp/figures")


class Exchange:
    """What was acknowledged, and what was read."""

    def __init__(self, properties: str, topic: str, group: str) -> None:
        self._properties = properties
        self._topic = topic
        self._group = group
        self.acknowledged: set[bytes] = set()
        self.read: set[bytes] = set()
        self.log_ins = 0
        self.failures = 0

    async def run(self) -> None:
        """Go on until it is to stop."""
        settings = settings_from_file(self._properties)
        consuming = asyncio.create_task(self._consume())
        async with Producer(**settings) as producer:
            while not STOP.exists():
                await self._send(producer, b"kept")
                await self._send_anew()
                self._note()
                await asyncio.sleep(INTERVAL_SECONDS)
        deadline = time.monotonic() + READ_SECONDS
        while not self.acknowledged <= self.read and time.monotonic() < deadline:
            await asyncio.sleep(INTERVAL_SECONDS)
        consuming.cancel()
        print(self._note(), flush=True)

    async def _send(self, producer: Producer, kind: bytes) -> None:
        value = b"%s %s %d" % (kind, self._group.encode(), time.time_ns())
        try:
            await producer.send(self._topic, value)
            await producer.flush()
        except (BarnabasError, OSError) as error:
            self._failed(f"send by one that is {kind.decode()}", error)
        else:
            self.acknowledged.add(value)

    async def _send_anew(self) -> None:
        try:
            async with Producer(**settings_from_file(self._properties)) as producer:
                self.log_ins += 1
                await self._send(producer, b"new")
        except (BarnabasError, OSError) as error:
            self._failed("a new producer", error)

    async def _consume(self) -> None:
        settings = settings_from_file(self._properties)
        while True:
            try:
                async with Consumer(
                    **settings, group_id=self._group, auto_offset_reset="earliest"
                ) as consumer:
                    consumer.subscribe([self._topic])
                    async for record in consumer:
                        if record.value is not None:
                            self.read.add(bytes(record.value))
            except (BarnabasError, OSError) as error:
                self._failed("consumer", error)
                await asyncio.sleep(1)

    def _failed(self, what: str, error: Exception) -> None:
        self.failures += 1
        failure = {"what": what, "at": time.time(), "error": repr(error)}
        print(json.dumps({"failure": failure}), flush=True)

    def _note(self) -> str:
        figures = {
            "acknowledged": len(self.acknowledged),
            "unread": len(self.acknowledged - self.read),
            "log_ins": self.log_ins,
            "failures": self.failures,
        }
        partial = FIGURES.with_suffix(".partial")
        partial.write_text(json.dumps(figures))
        partial.rename(FIGURES)
        return json.dumps(figures)


if __name__ == "__main__":
    asyncio.run(Exchange(*sys.argv[1:4]).run())
