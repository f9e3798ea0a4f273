"""Sends a call about several items to the brokers that serve them, and retries what is retriable.

An attempt looks up the brokers of the pending items, sends one request per broker in parallel, and
takes final responses; after a pause the next attempt takes the rest. A slow broker delays only the
next attempt, and no request outlives the call's time.

Not here: where items belong (`lookup_strategies.py`), which responses are final (`call_items.py`).

Invariants: a call ends within its time; nothing of it is left running; what one item's broker says
never becomes another item's error.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas_client.admin.api_errors import ApiError
from barnabas_client.admin.call_items import CallItems
from barnabas_client.admin.lookup_strategies import LookupStrategy, StaticBrokerStrategy
from barnabas_client.admin.outcome import K, Outcomes
from barnabas_client.errors import BarnabasError, UsageError
from barnabas_client.network.client import Client
from barnabas_protocol.api import ApiKey
from barnabas_protocol.schema import Message

T = TypeVar("T")


class RequestContext(NamedTuple, Generic[K]):
    """The items, broker and version that a request is built for and its response is read by."""

    keys: Sequence[K]
    node_id: int
    version: int
    timeout_ms: int


# Without slots: `Call[K, T](...)` fails on a class that has them and is frozen.
@dataclass(frozen=True, kw_only=True)
class Call(Generic[K, T]):
    """A kind of request about items.

    `action` begins error messages ("create topic"), `name` words an item in them. `build` makes
    one request about some items, `read` finds their results in the response. A change says in its
    errors when it may have been carried out. It is repeatable unless it would do harm to what has
    the name since: then a lost response ends it.
    """

    action: str
    api: ApiKey
    to: LookupStrategy[K]
    build: Callable[[RequestContext[K]], Message]
    read: Callable[[Any, RequestContext[K]], Mapping[K, T | ApiError]]
    name: Callable[[K], str] = str
    is_change: bool = False
    is_repeatable: bool = True
    version_min: int = 0
    version_max: int | None = None
    # Given a version, how many items a request may name; None: all of a broker's.
    items_per_request: Callable[[int], int | None] = lambda _: None

    def subject(self, key: K) -> str:
        """What is tried, as the beginning of an error message."""
        return f"{self.action} {self.name(key)}".rstrip()


class AdminRouting:
    """Sends calls to controllers, leaders, coordinators and brokers."""

    def __init__(self, client: Client, before_change: Callable[[], None] = lambda: None) -> None:
        """Take the client; what `before_change` raises keeps a request from being sent."""
        self._client = client
        self._before_change = before_change

    async def each(
        self, keys: Iterable[K], call: Call[K, T], timeout_ms: int | None = None
    ) -> Outcomes[K, T]:
        """The outcome of every item; does not raise the errors of items.

        Raises: UsageError for a negative timeout, or one name in place of several.
        """
        check_several(keys)
        remaining = self.countdown(timeout_ms)
        items: CallItems[K, T] = CallItems(
            keys,
            call.subject,
            is_change=call.is_change,
            is_repeatable=call.is_repeatable,
            patient=call.to.patient,
        )
        attempts = 0
        while items.pending:
            if attempts:
                pause_ms = min(self._client.backoff_ms(attempts - 1), remaining())
                await asyncio.sleep(pause_ms / 1000)
            attempts += 1
            remaining_ms = remaining()
            if remaining_ms == 0:
                items.expire()
                break
            attempt_ms = min(remaining_ms, self._client.settings.request_timeout_ms)
            await self._attempt(items, call, self.countdown(attempt_ms))
        return items.outcomes()

    def countdown(self, timeout_ms: int | None) -> Callable[[], int]:
        """A function that returns how many milliseconds are left from now on, 0 at the end.

        Raises: UsageError for a negative timeout.
        """
        if timeout_ms is None:
            timeout_ms = self._client.settings.default_api_timeout_ms
        if timeout_ms < 0:
            raise UsageError(f"timeout_ms is {timeout_ms}; it may not be negative")
        clock = self._client.environment.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        return lambda: max(0, deadline_ms - clock.monotonic_ms())

    async def one(self, call: Call[None, T], timeout_ms: int | None = None) -> T:
        """The response to a call that is not about items.

        Raises: the error of the call.
        """
        return (await self.each([None], call, timeout_ms))[None].unwrap()

    async def every_broker(
        self, call: Callable[[LookupStrategy[int]], Call[int, T]], timeout_ms: int | None = None
    ) -> Outcomes[int, T]:
        """The responses of all brokers that live.

        Raises: RetriableError if no broker returns the metadata.
        """
        remaining = self.countdown(timeout_ms)
        cluster = await self._client.refresh(timeout_ms=remaining())
        return await self.each(cluster.nodes, call(StaticBrokerStrategy(int)), remaining())

    async def _attempt(
        self, items: CallItems[K, T], call: Call[K, T], remaining: Callable[[], int]
    ) -> None:
        pending = items.pending
        try:
            located = await call.to.locate(self._client, pending, remaining())
        except BarnabasError as error:
            items.on_failure(pending, error, was_sent=False)
            return
        by_node: dict[int, list[K]] = defaultdict(list)
        for key, place in located.items():
            if isinstance(place, ApiError):
                items.on_response([key], {key: place})
            else:
                by_node[place].append(key)
        await _together(
            self._send_to_broker(items, call, node_id, keys, remaining)
            for node_id, keys in by_node.items()
        )

    async def _send_to_broker(
        self,
        items: CallItems[K, T],
        call: Call[K, T],
        node_id: int,
        keys: Sequence[K],
        remaining: Callable[[], int],
    ) -> None:
        """Send a broker requests for its items, as few as the version allows."""
        try:
            await self._client.ready(node_id, timeout_ms=remaining())
            version = await self._client.version(
                node_id, call.api, minimum=call.version_min, maximum=call.version_max
            )
        except BarnabasError as error:
            items.on_failure(keys, error, was_sent=False)
            call.to.failed(node_id)
            return
        timeout_ms = max(1, remaining())
        step = call.items_per_request(version) or len(keys)
        await _together(
            self._send(
                items,
                call,
                RequestContext(keys[start : start + step], node_id, version, timeout_ms),
            )
            for start in range(0, len(keys), step)
        )

    async def _send(
        self, items: CallItems[K, T], call: Call[K, T], context: RequestContext[K]
    ) -> None:
        """Send one request and take its response."""
        if call.is_change:
            self._before_change()
        try:
            response = await self._client.request(
                context.node_id,
                call.build(context),
                version=context.version,
                timeout_ms=context.timeout_ms,
            )
        except BarnabasError as error:
            items.on_failure(context.keys, error, was_sent=True)
            call.to.failed(context.node_id)
            return
        if items.on_response(context.keys, call.read(response, context)):
            call.to.failed(context.node_id)


def check_several(keys: object) -> None:
    """Refuse text where names are wanted: its letters may be names, too.

    Raises: UsageError.
    """
    if isinstance(keys, str | bytes):
        raise UsageError(f"several names are wanted: give [{keys!r}] for one")


async def _together(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run calls in parallel; what one of them raises (a bug, a wrong type) ends all of them."""
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(call)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def nameless(_: None) -> str:
    """The name of the item of a call that is not about items."""
    return ""
