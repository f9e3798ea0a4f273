"""Asks each broker of a cluster for itself, five times a second, and repeats nothing that fails:
what a client that retries hides is told here.

A round of a broker is Metadata, a Produce with acks=all to each partition that it leads, and a
Fetch of what was just produced. A partition that has another leader by now is no failure: the
broker has answered, and truly.

Arguments: bootstrap topic brokers. Prints a JSON document a line: `failure`, which names the
broker, the request and the error, and once a second `round` with the brokers whose last round went
well and how many requests were answered so far.
"""

import asyncio
import json
import sys
import time
from typing import Any

from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.errors import BarnabasError
from barnabas_client.network.client import Client
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas_protocol.records.record import Record, encode_batch

INTERVAL_SECONDS = 0.2
TIMEOUT_MS = 10_000
# The last versions that name topics by their names.
VERSION = 12
MOVED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
}


class FailedError(Exception):
    """A request that a client without retries would have failed with."""


class EachBroker:
    """One task for each broker."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.is_well: dict[int, bool] = {}
        self.answered = 0

    async def ask(self, broker: int) -> None:
        """Rounds without end."""
        while True:
            try:
                await self._round(broker)
                self.is_well[broker] = True
            except (BarnabasError, FailedError, OSError) as error:
                self.is_well[broker] = False
                failure = {"broker": broker, "at": time.time(), "error": repr(error)}
                print(json.dumps({"failure": failure}), flush=True)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def _round(self, broker: int) -> None:
        wanted = [MetadataRequestTopic(topic_id=bytes(16), name=self._topic)]
        found = await self._send(broker, MetadataRequest(topics=wanted))
        (topic,) = found.topics
        _check(topic.error_code, "Metadata")
        for partition in topic.partitions:
            if partition.leader_id == broker:
                await self._produce_and_fetch(broker, partition.partition_index)

    async def _produce_and_fetch(self, broker: int, partition: int) -> None:
        record = Record(0, int(time.time() * 1000), None, b"asked of each")
        data = PartitionProduceData(index=partition, records=encode_batch([record]))
        topic = TopicProduceData(name=self._topic, partition_data=[data])
        produced = await self._send(
            broker, ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        )
        (answer,) = produced.responses[0].partition_responses
        if answer.error_code in MOVED:
            return
        _check(answer.error_code, "Produce")
        fetched = await self._send(broker, self._fetch(partition, answer.base_offset))
        (part,) = fetched.responses[0].partitions
        if part.error_code in MOVED:
            return
        _check(part.error_code, "Fetch")
        if not part.records:
            raise FailedError(f"Fetch: no record at {answer.base_offset}, which was acknowledged")

    def _fetch(self, partition: int, offset: int) -> FetchRequest:
        part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=self._topic, partitions=[part])
        return FetchRequest(max_wait_ms=1000, min_bytes=1, topics=[topic])

    async def _send(self, broker: int, request: Any) -> Any:
        version = VERSION if not isinstance(request, MetadataRequest) else None
        answer = await self._client.request(broker, request, version=version, timeout_ms=TIMEOUT_MS)
        self.answered += 1
        return answer


def _check(code: int, what: str) -> None:
    if code != ErrorCode.NONE:
        raise FailedError(f"{what}: {ErrorCode(code).name}")


async def main(bootstrap: str, topic: str, brokers: int) -> None:
    """Ask until killed."""
    settings = AdminSettings.create(
        {
            "bootstrap_servers": bootstrap,
            "request_timeout_ms": TIMEOUT_MS,
            "reconnect_backoff_ms": 50,
            "reconnect_backoff_max_ms": 200,
        }
    )
    client = Client(settings)
    await client.start()
    each = EachBroker(client, topic)
    async with asyncio.TaskGroup() as group:
        for broker in range(brokers):
            group.create_task(each.ask(broker))
        while True:
            await asyncio.sleep(1)
            well = sorted(broker for broker, is_well in each.is_well.items() if is_well)
            print(json.dumps({"round": {"well": well, "answered": each.answered}}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
