"""One of the two brokers as a script sees it, and the transcript of what it answered."""

import asyncio
import contextlib
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
from tests.interop.oracle.plain import Plain, Symbols, build, in_order
from tests.support.raw_client import RawClient

READY_SECONDS_MAX = 15
ANSWER_SECONDS_MAX = 6
CLOSED = "<connection closed>"
SILENCE = "<no answer>"

Ranges = dict[int, tuple[int, int]]


class Step(NamedTuple):
    """One answer: what was asked, and the answer in comparable form."""

    title: str
    answer: Plain


async def served_ranges(port: int) -> Ranges:
    """What a broker advertises."""
    async with await RawClient.connect(port) as client:
        answer = await client.call(
            ApiKey.API_VERSIONS, 0, codec.request_class(ApiKey.API_VERSIONS)()
        )
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


class Side:
    """Connections to one broker; every answer goes into `transcript`."""

    def __init__(self, port: int, prefix: str, common: Ranges) -> None:
        self.port = port
        self.prefix = prefix
        self.common = common
        self.transcript: list[Step] = []
        self.symbols = Symbols(prefix, int(time.time() * 1000))
        self.topic_ids: dict[str, bytes] = {}
        self.request_count = 0
        self._clients: dict[str, RawClient] = {}
        self._pending: dict[str, tuple[ApiKey, int]] = {}

    def versions(self, api: ApiKey, low: int = 0, high: int = 99) -> Iterator[int]:
        """The versions of an API that both brokers serve and that can be written."""
        first, last = self.common[api]
        return iter(range(max(first, low, KNOWN[api][0]), min(last, high) + 1))

    def latest(self, api: ApiKey) -> int:
        return self.common[api][1]

    def named(self, name: str) -> str:
        """A topic or group name of this script alone."""
        return self.prefix + name

    def note(self, title: str, answer: Plain) -> None:
        """Record something that is not one answer."""
        self.transcript.append(Step(title, answer))

    async def call(
        self,
        api: ApiKey,
        version: int | None = None,
        label: str = "",
        *,
        on: str = "main",
        own: bool = False,
        ordered: bool = False,
        silent: bool = False,
        **fields: Any,
    ) -> Any:
        """Send, wait, record; `own` keeps only entries of this script, `silent` records nothing."""
        version = self.latest(api) if version is None else version
        await self.start(api, version, on=on, **fields)
        return await self.finish(label, on=on, own=own, ordered=ordered, silent=silent)

    async def each(
        self, api: ApiKey, label: str, *, low: int = 0, high: int = 99, **fields: Any
    ) -> None:
        """The same request in every version that both know."""
        for version in self.versions(api, low, high):
            await self.call(api, version, label, **fields)

    async def start(
        self, api: ApiKey, version: int | None = None, *, on: str = "main", **fields: Any
    ) -> None:
        """Send without waiting; `finish` on the same connection takes the answer."""
        version = self.latest(api) if version is None else version
        client = await self._client(on)
        client.send(api, version, build(codec.request_class(api), fields))
        self.request_count += 1
        self._pending[on] = (api, version)

    async def finish(
        self,
        label: str = "",
        *,
        on: str = "main",
        own: bool = False,
        ordered: bool = False,
        silent: bool = False,
        answered_as: int | None = None,
    ) -> Any:
        """The answer to the request started on the connection, maybe in another version."""
        api, version = self._pending.pop(on)
        title = f"{label} {api.name} v{version}".strip()
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer = await self._clients[on].receive(
                    api, version if answered_as is None else answered_as
                )
        except TimeoutError:
            await self.disconnect(on)
            self.note(title, SILENCE)
            return None
        except (asyncio.IncompleteReadError, ConnectionError):
            await self.disconnect(on)
            self.note(title, CLOSED)
            return None
        if not silent:
            plain = self.symbols.plain(answer)
            if own:
                plain = _owned(plain, answer, self.prefix)
            self.note(title, plain if ordered else in_order(plain))
        return answer

    async def closes(self, label: str, frame: bytes, *, size: int | None = None) -> None:
        """Record whether the broker closes the connection that sends these bytes."""
        await self.disconnect("broken")
        client = await self._client("broken")
        client.send_bytes(struct.pack(">i", len(frame) if size is None else size) + frame)
        self.request_count += 1
        try:
            async with asyncio.timeout(2):
                closed = await client.is_closed_by_peer()
        except TimeoutError:
            closed = None
        self.note(label, {None: SILENCE, True: CLOSED, False: "<answer>"}[closed])
        await self.disconnect("broken")

    async def disconnect(self, on: str) -> None:
        client = self._clients.pop(on, None)
        if client is not None:
            await client.__aexit__()

    async def close(self) -> None:
        for name in list(self._clients):
            with contextlib.suppress(ConnectionError):
                await self.disconnect(name)

    async def _client(self, on: str) -> RawClient:
        if on not in self._clients:
            self._clients[on] = await RawClient.connect(self.port)
        return self._clients[on]

    async def until(
        self, accepts: Callable[[Any], bool], api: ApiKey, version: int | None = None, **fields: Any
    ) -> Any:
        """Ask until the answer is as wanted; what was asked on the way is not compared."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            answer = await self.call(api, version, on="waiting", silent=True, **fields)
            if accepts(answer):
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError(f"{api.name} on port {self.port} stays {answer}")
            await asyncio.sleep(0.01)

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic and wait until it can be used; returns its full name."""
        full = self.named(name)
        settings = [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()]
        topic = {"name": full, "num_partitions": partitions, "replication_factor": 1}
        answer = await self.call(
            ApiKey.CREATE_TOPICS, silent=True, topics=[{**topic, "configs": settings}]
        )
        assert answer.topics[0].error_code == 0, answer
        await self.ready(full, partitions)
        return full

    async def ready(self, full: str, partitions: int = 1) -> None:
        """Wait until the topic has leaders for that many partitions; learns its id."""

        def led(answer: Any) -> bool:
            topic = answer.topics[0]
            leaders = [p for p in topic.partitions if p.error_code == 0]
            return topic.error_code == 0 and len(leaders) >= partitions

        answer = await self.until(
            led, ApiKey.METADATA, 12, topics=[{"name": full}], allow_auto_topic_creation=False
        )
        # Metadata may know a leader before the leader knows that it is one.
        asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        await self.until(
            lambda answer: all(each.error_code == 0 for each in answer.topics[0].partitions),
            ApiKey.LIST_OFFSETS,
            5,
            replica_id=-1,
            topics=[{"name": full, "partitions": asked}],
        )
        self.topic_ids[full] = answer.topics[0].topic_id
        self.symbols.learn(answer.topics[0].topic_id, "id of " + full.removeprefix(self.prefix))

    async def gone(self, full: str) -> None:
        """Wait until nothing is known of the topic."""
        await self.until(
            lambda answer: answer.topics[0].error_code == 3,
            ApiKey.METADATA,
            12,
            topics=[{"name": full}],
            allow_auto_topic_creation=False,
        )

    async def coordinator_ready(self) -> None:
        """Wait until groups can be served."""
        await self.until(
            lambda answer: answer.coordinators[0].error_code == 0,
            ApiKey.FIND_COORDINATOR,
            4,
            coordinator_keys=["any"],
        )
        await self.until(
            lambda answer: answer.error_code not in (14, 15, 16),
            ApiKey.HEARTBEAT,
            3,
            group_id=self.named("nobody"),
            generation_id=1,
            member_id="nobody",
        )


def _owned(plain: dict[str, Plain], answer: Any, prefix: str) -> dict[str, Plain]:
    """Without the entries of other scripts, which come and go at their own times."""
    kept = {}
    for key, value in plain.items():
        items = getattr(answer, key)
        if isinstance(value, list):
            value = [
                shown
                for shown, item in zip(value, items, strict=True)
                if _name_of(item) is None or str(_name_of(item)).startswith(prefix)
            ]
        kept[key] = value
    return kept


def _name_of(item: Any) -> str | None:
    for key in ("name", "group_id", "resource_name", "topic"):
        if hasattr(item, key):
            found: str | None = getattr(item, key)
            return found
    return None


Script = Callable[[Side], Awaitable[None]]
