"""Carries a call about several items to the brokers that can answer, and repeats what can be.

An attempt locates the pending items, sends one request per broker in parallel, and settles what is
answered for good; after a pause the next attempt takes the rest. Slow brokers hold up nothing but
the next attempt, and no request outlives the call's time.

Not here: where items belong (`destinations.py`), which answers are final (`ledger.py`).

Invariants: a call ends within its time; nothing of it is left running; what one item's broker says
never becomes another item's error.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas_client.admin.destinations import Brokers, Destination
from barnabas_client.admin.ledger import Ledger
from barnabas_client.admin.outcome import K, Outcomes
from barnabas_client.admin.refusals import Refusal
from barnabas_client.errors import BarnabasError, UsageError
from barnabas_client.network.client import Client
from barnabas_protocol.api import ApiKey
from barnabas_protocol.schema import Message

T = TypeVar("T")


class Asked(NamedTuple, Generic[K]):
    """What a request is built for and its answer read with."""

    keys: Sequence[K]
    node_id: int
    version: int
    timeout_ms: int


# Without slots: `Call[K, T](...)` fails on a class that has them and is frozen.
@dataclass(frozen=True, kw_only=True)
class Call(Generic[K, T]):
    """What is asked about items of a kind.

    `action` begins error messages ("create topic"), `name` words an item in them. `build` makes
    one request about some items, `read` finds their answers in the response. A change says in its
    errors when it may have been carried out.
    """

    action: str
    api: ApiKey
    to: Destination[K]
    build: Callable[[Asked[K]], Message]
    read: Callable[[Any, Asked[K]], Mapping[K, T | Refusal]]
    name: Callable[[K], str] = str
    is_change: bool = False
    version_min: int = 0
    version_max: int | None = None
    # Given a version, how many items a request may name; None: all of a broker's.
    items_per_request: Callable[[int], int | None] = lambda _: None

    def subject(self, key: K) -> str:
        """What is tried, in words."""
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
        """The outcome of every item; does not raise for what brokers say.

        Raises: UsageError for a negative timeout, or one name in place of several.
        """
        check_several(keys)
        remaining = self.countdown(timeout_ms)
        ledger: Ledger[K, T] = Ledger(
            keys,
            call.subject,
            is_change=call.is_change,
            patient=call.to.patient,
        )
        attempts = 0
        while ledger.pending:
            if attempts:
                pause_ms = min(self._client.backoff_ms(attempts - 1), remaining())
                await asyncio.sleep(pause_ms / 1000)
            attempts += 1
            remaining_ms = remaining()
            if remaining_ms == 0:
                ledger.expire()
                break
            attempt_ms = min(remaining_ms, self._client.settings.request_timeout_ms)
            await self._attempt(ledger, call, self.countdown(attempt_ms))
        return ledger.outcomes()

    def countdown(self, timeout_ms: int | None) -> Callable[[], int]:
        """A function that tells how many milliseconds are left from now on, 0 at the end.

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
        """The answer to a call that is not about items.

        Raises: what went wrong.
        """
        return (await self.each([None], call, timeout_ms))[None].unwrap()

    async def every_broker(
        self, call: Callable[[Destination[int]], Call[int, T]], timeout_ms: int | None = None
    ) -> Outcomes[int, T]:
        """The answers of all brokers that live.

        Raises: RetriableError if nobody can tell which those are.
        """
        remaining = self.countdown(timeout_ms)
        cluster = await self._client.refresh(timeout_ms=remaining())
        return await self.each(cluster.nodes, call(Brokers(int)), remaining())

    async def _attempt(
        self, ledger: Ledger[K, T], call: Call[K, T], remaining: Callable[[], int]
    ) -> None:
        pending = ledger.pending
        try:
            located = await call.to.locate(self._client, pending, remaining())
        except BarnabasError as error:
            ledger.fail(pending, error, was_sent=False)
            return
        by_node: dict[int, list[K]] = defaultdict(list)
        for key, place in located.items():
            if isinstance(place, Refusal):
                ledger.answer([key], {key: place})
            else:
                by_node[place].append(key)
        await _together(
            self._ask_broker(ledger, call, node_id, keys, remaining)
            for node_id, keys in by_node.items()
        )

    async def _ask_broker(
        self,
        ledger: Ledger[K, T],
        call: Call[K, T],
        node_id: int,
        keys: Sequence[K],
        remaining: Callable[[], int],
    ) -> None:
        """Ask a broker about its items, with as few requests as the version allows."""
        try:
            await self._client.ready(node_id, timeout_ms=remaining())
            version = await self._client.version(
                node_id, call.api, minimum=call.version_min, maximum=call.version_max
            )
        except BarnabasError as error:
            ledger.fail(keys, error, was_sent=False)
            call.to.failed(node_id)
            return
        timeout_ms = max(1, remaining())
        step = call.items_per_request(version) or len(keys)
        await _together(
            self._ask(ledger, call, Asked(keys[start : start + step], node_id, version, timeout_ms))
            for start in range(0, len(keys), step)
        )

    async def _ask(self, ledger: Ledger[K, T], call: Call[K, T], asked: Asked[K]) -> None:
        """Send one request and enter its answer; hear of brokers that did not know."""
        if call.is_change:
            self._before_change()
        try:
            answer = await self._client.request(
                asked.node_id,
                call.build(asked),
                version=asked.version,
                timeout_ms=asked.timeout_ms,
            )
        except BarnabasError as error:
            ledger.fail(asked.keys, error, was_sent=True)
            call.to.failed(asked.node_id)
            return
        if ledger.answer(asked.keys, call.read(answer, asked)):
            call.to.failed(asked.node_id)


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
