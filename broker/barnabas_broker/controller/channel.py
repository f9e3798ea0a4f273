"""Requests to the active controller, whoever that is: this node itself, or another.

Retries as long as there is time: while no controller is known, when it cannot be reached, and when
it answers that it is not the controller (any more). When another node becomes the controller, who
waits for an answer of the old one asks the new one at once: a controller that is paused or cut off
would keep the caller for long.

A request that was sent and not answered may have been carried out, or may be later. It is sent
again only where that is harmless; else the caller is told REQUEST_TIMED_OUT. Which APIs bear it,
and why, is in `handlers/table.py`. Of those that do not, the old controller's answer is awaited for
a moment: who stops leading answers all that it has, and says what it has not carried out.

Source: CTL-15, KIP-590, Kafka's NodeToControllerChannelManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from barnabas_broker.env.clock import Clock
from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey, newest_version
from barnabas_protocol.backoff import ExponentialBackoff
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

BACKOFF: Final = ExponentialBackoff(50, 500)
LOOK_SECONDS: Final = 0.5
"""So often who waits looks at who is the controller, should it miss that it has changed."""
LAST_ANSWER_SECONDS: Final = 2.0
"""So long a controller that leads no more, by what is known here, has for its last answers."""

# Requests that must not wait behind each other: the controller answers a connection in order.
_CHANNELS: Final = {
    ApiKey.BROKER_REGISTRATION: "lifecycle",
    ApiKey.BROKER_HEARTBEAT: "lifecycle",
    ApiKey.ALTER_PARTITION: "alter-partition",
    ApiKey.ENVELOPE: "forwarding",
}


class LocalController(Protocol):
    """The active controller, where it is this node: `controller.local`."""

    async def answer(self, request: Any) -> Any:
        """The response message to a request message.

        Raises: KafkaError.
        """
        ...


class Forwarded(NamedTuple):
    """What became of an envelope.

    `response` is None if this node is the controller by now. `was_repeated`: an earlier attempt,
    whose response was lost, may have been carried out.
    """

    response: EnvelopeResponse | None
    was_repeated: bool


class _ResponseLostError(Exception):
    """A request may have been carried out, but there is no response."""


class ControllerChannel:
    """The way to the active controller."""

    def __init__(
        self,
        peers: Peers,
        clock: Clock,
        *,
        controller_id: Callable[[], int | None],
        local: Callable[[], LocalController | None],
        wait_for_change: Callable[[], Awaitable[object]],
        is_repeatable: Callable[[ApiKey], bool],
    ) -> None:
        """Make one for a broker.

        `is_repeatable` tells of a request that `send` gets whether it does no harm to carry it out
        twice, or late.

        `local` gives the controller if this node is the active one, else None; `controller_id` who
        is thought to be, and `wait_for_change` returns when one of the two has changed.
        """
        self._peers = peers
        self._clock = clock
        self._controller_id = controller_id
        self._local = local
        self._wait_for_change = wait_for_change
        self._is_repeatable = is_repeatable
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Look for no controller any more: this node, which stops, would not hear of the next one.

        Who waits gets NOT_CONTROLLER, and so does who asks from now on. Safe twice.
        """
        self._closed.set()

    @property
    def is_local(self) -> bool:
        """Whether this node is the active controller."""
        return self._local() is not None

    async def send(self, request: Any, *, timeout_ms: int) -> Any:
        """The response message to a request message, which has an API of its own.

        Raises: KafkaError: REQUEST_TIMED_OUT, also when the response is lost of a request that is
        not repeated; NOT_CONTROLLER after `close`; or what the controller of this node raises.
        """
        attempts = _Attempts(self._clock, timeout_ms)
        is_repeatable = self._is_repeatable(codec.api_key_of(type(request)))
        while True:
            self._check(attempts)
            seen, local = self._seen(), self._local()
            if local is not None:
                response = await self._ask_local(local, request, attempts.left_ms)
            else:
                try:
                    response = await self._ask_remote(
                        request, attempts.left_ms, is_repeatable=is_repeatable
                    )
                except _ResponseLostError as lost:
                    if not is_repeatable:
                        raise _not_known() from lost
                    response = None
            if response is not None and not is_not_controller(response):
                return response
            await self._pause(seen, attempts)

    async def forward(
        self, envelope: EnvelopeRequest, *, timeout_ms: int, is_repeatable: bool
    ) -> Forwarded:
        """The response to a client's request in an envelope, or that this node is the controller.

        Also when it becomes it while others are asked: what is in the envelope is then to be
        carried out here.
        Raises: KafkaError REQUEST_TIMED_OUT, as `send`; NOT_CONTROLLER after `close`.
        """
        was_repeated = False
        attempts = _Attempts(self._clock, timeout_ms)
        while self._local() is None:
            self._check(attempts)
            seen = self._seen()
            try:
                response = await self._ask_remote(
                    envelope, attempts.left_ms, is_repeatable=is_repeatable
                )
            except _ResponseLostError as lost:
                if not is_repeatable:
                    raise _not_known() from lost
                was_repeated, response = True, None
            if response is not None and response.error_code != ErrorCode.NOT_CONTROLLER:
                assert isinstance(response, EnvelopeResponse)
                return Forwarded(response, was_repeated)
            await self._pause(seen, attempts)
        return Forwarded(None, was_repeated)

    def _check(self, attempts: _Attempts) -> None:
        """Raises: KafkaError NOT_CONTROLLER after `close`, REQUEST_TIMED_OUT."""
        if self._closed.is_set():
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this broker stops")
        attempts.check()

    def _seen(self) -> tuple[bool, int | None]:
        """Who is thought to be the controller."""
        return self._local() is not None, self._controller_id()

    async def _ask_local(self, local: LocalController, request: Any, timeout_ms: int) -> Any:
        """The response, or None if this node is not the controller any more."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await local.answer(request)
        except TimeoutError:
            return None
        except KafkaError as error:
            if error.code != ErrorCode.NOT_CONTROLLER:
                raise
            return None

    async def _ask_remote(self, request: Any, timeout_ms: int, *, is_repeatable: bool) -> Any:
        """The response, or None if the request was certainly not carried out.

        Raises: _ResponseLostError.
        """
        controller_id = self._controller_id()
        if controller_id is None:
            return None
        key = codec.api_key_of(type(request))
        asking = asyncio.ensure_future(
            self._peers.request(
                controller_id,
                request,
                newest_version(key),
                channel=_CHANNELS.get(key, "controller"),
                timeout_ms=timeout_ms,
            )
        )
        try:
            while not asking.done() and self._is_still(controller_id):
                await self._wait_for_change_or(asking, seconds_max=LOOK_SECONDS)
            if not asking.done() and not is_repeatable:
                await self._wait_for(asking, seconds_max=LAST_ANSWER_SECONDS)
            if not asking.done():
                raise _ResponseLostError
            return asking.result()
        except PeerUnreachableError as error:
            if error.was_sent:
                raise _ResponseLostError from error
            return None
        finally:
            if not asking.cancel() and not asking.cancelled():
                asking.exception()  # seen, also where the caller has been cancelled meanwhile

    def _is_still(self, controller_id: int) -> bool:
        """Whether an answer of this node is worth waiting for."""
        if self._closed.is_set():
            return False
        return self._local() is None and self._controller_id() in (controller_id, None)

    async def _wait_for_change_or(self, *asking: asyncio.Future[Any], seconds_max: float) -> None:
        """Return when the controller has changed, this is closed, or what is asked is there."""
        change = asyncio.ensure_future(self._wait_for_change())
        try:
            await self._wait_for(*asking, change, seconds_max=seconds_max)
        finally:
            change.cancel()
            await asyncio.gather(change, return_exceptions=True)

    async def _wait_for(self, *awaited: asyncio.Future[Any], seconds_max: float) -> None:
        """Return when one of them is there, this is closed, or it has taken long."""
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait(
                [*awaited, closed], timeout=seconds_max, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            closed.cancel()
            await asyncio.gather(closed, return_exceptions=True)

    async def _pause(self, seen: tuple[bool, int | None], attempts: _Attempts) -> None:
        """Wait for the next attempt, not longer than until there is another controller."""
        pause_ms = attempts.next_ms()
        if self._seen() == seen:
            await self._wait_for_change_or(seconds_max=pause_ms / 1000)


class _Attempts:
    """The attempts of one request: how long to pause between them, and when to give up."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._deadline_ms = clock.monotonic_ms() + timeout_ms
        self._pause_count = 0

    @property
    def left_ms(self) -> int:
        """The time that is left, at least a millisecond."""
        return max(1, self._deadline_ms - self._clock.monotonic_ms())

    def check(self) -> None:
        """Give up if the time is over.

        Raises: KafkaError REQUEST_TIMED_OUT.
        """
        if self._clock.monotonic_ms() >= self._deadline_ms:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller has answered in time")

    def next_ms(self) -> int:
        """The next pause."""
        pause_ms = BACKOFF.wait_ms(self._pause_count)
        self._pause_count += 1
        return min(pause_ms, self.left_ms)


def _not_known() -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        "the controller's response was lost: whether the request took effect is not known",
    )


def is_not_controller(response: Any) -> bool:
    """Whether a response says, as a whole or of one of its items, that its node does not lead.

    Items are only looked at one level deep: a node says it of all of them, or of none.
    """
    code = getattr(response, "error_code", None)
    if code is not None:
        return bool(code == ErrorCode.NOT_CONTROLLER)
    for field in type(response).__fields__:
        items = getattr(response, field.name)
        if isinstance(items, list) and items and hasattr(items[0], "error_code"):
            return bool(items[0].error_code == ErrorCode.NOT_CONTROLLER)
    return False
