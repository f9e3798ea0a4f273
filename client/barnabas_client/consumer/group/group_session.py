"""The session of a group member: heartbeats in the background, and leaving the group.

One engine for all kinds of groups. What a heartbeat contains and what its response means is the
protocol's (`HeartbeatProtocol`); when one is due is in `heartbeat_timers.py`.

Source: CON-10, CG-3, CG-5, GRP-14, GRP-15; KIP-62, KIP-345, KIP-848.
Invariants: one task, from `start` to `stop`, and one heartbeat in flight. A heartbeat that failed
is repeated after a backoff. A member whose program does not poll for max_poll_interval_ms leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from barnabas_client.consumer.group.heartbeat_timers import HeartbeatTimers
from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_client.network.node_connections import broker_id
from barnabas_protocol.schema import Message

_log = logging.getLogger(__name__)

# How long `close` waits for requests to leave whose callers were cancelled. If one is lost, the
# group waits for the session timeout of a member that is gone.
_LEAVE_WAIT_SECONDS: Final = 0.5


class SessionSettings(Protocol):
    """The settings of a member, whatever the kind of its group."""

    @property
    def request_timeout_ms(self) -> int:
        """How long a request to leave may take."""
        ...

    @property
    def max_poll_interval_ms(self) -> int:
        """How long the program may not poll."""
        ...


class HeartbeatProtocol(Protocol):
    """One member's heartbeats in the protocol of its group."""

    group_id: str

    @property
    def is_member(self) -> bool:
        """Whether the group has the member; then its program must poll in time."""
        ...

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the coordinator expects heartbeats now."""
        ...

    @property
    def interval_ms(self) -> int:
        """The time from one heartbeat to the next."""
        ...

    @property
    def is_urgent(self) -> bool:
        """Whether the coordinator is to hear of a change before the interval is over."""
        ...

    @property
    def state(self) -> object:
        """Compares unequal to what it was when the program's poll has something to do."""
        ...

    async def send(self) -> Reaction:
        """Send one heartbeat and take its response.

        Raises: RetriableError without a response; BarnabasError if the member cannot go on.
        """
        ...

    def on_no_response(self) -> None:
        """The last heartbeat may have arrived or not."""
        ...

    def on_error(self, error: BarnabasError) -> BarnabasError | None:
        """Return the error that the program's poll raises; None if the member can go on."""
        ...

    def leave_request(self) -> Message | None:
        """The request to leave for a program that does not poll; None to leave silently."""
        ...

    def on_poll_timeout(self) -> None:
        """The member is out of the group, which it left with `leave_request` or silently."""
        ...


class GroupSession:
    """Keeps one member alive for its coordinator."""

    def __init__(
        self,
        client: Client,
        settings: SessionSettings,
        heartbeats: HeartbeatProtocol,
        on_change: Callable[[BarnabasError | None], None],
    ) -> None:
        """`on_change` is called when `heartbeats.state` has changed, or with an error to raise."""
        self._client = client
        self._settings = settings
        self._heartbeats = heartbeats
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._has_response = asyncio.Event()
        self._is_program_waiting = False
        self._timers = HeartbeatTimers(
            max_poll_interval_ms=settings.max_poll_interval_ms, now_ms=self._now_ms()
        )

    # ---- heartbeats ------------------------------------------------------------------------

    def start(self) -> None:
        """Send heartbeats while the member is one."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="heartbeats")

    async def stop(self) -> None:
        """Send no more; a response that still comes is dropped."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """Send no more heartbeats, and give requests to leave that are in flight a moment."""
        await self.stop()
        leaving = set(self._leaving)
        if leaving:
            await asyncio.wait(leaving, timeout=_LEAVE_WAIT_SECONDS)
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)

    @property
    def is_heartbeat_pending(self) -> bool:
        """Whether a heartbeat is about to be sent, at once or after a backoff."""
        return self._wake.is_set() or self._timers.failure_count > 0

    def request_heartbeat(self) -> None:
        """Send a heartbeat at once, if the last one did not fail."""
        self._timers.expedite()
        self._wake.set()

    def restart(self) -> None:
        """The coordinator has just responded to another request: the session begins now."""
        self._timers.restart(self._now_ms(), self._heartbeats.interval_ms)
        self._wake.set()

    async def wait_for_response(self, timeout_ms: int) -> bool:
        """Wait for the next response to a heartbeat; False if the time is over before."""
        self._has_response.clear()
        try:
            async with asyncio.timeout(max(0, timeout_ms) / 1000):
                await self._has_response.wait()
        except TimeoutError:
            return False
        return True

    # ---- the program's polls ---------------------------------------------------------------

    def on_poll(self) -> None:
        """The program polls: restart the poll timer."""
        self._timers.last_poll_ms = self._now_ms()

    @contextlib.contextmanager
    def program_waits(self) -> Iterator[None]:
        """While the program waits inside `poll`, the poll timer does not run."""
        self._is_program_waiting = True
        try:
            yield
        finally:
            self._is_program_waiting = False
            self.on_poll()

    # ---- leaving ---------------------------------------------------------------------------

    async def leave_group(
        self, request: Message, timeout_ms: int, *, is_joining: bool = False
    ) -> None:
        """Send the request to leave, once; if it fails, the session times out.

        `is_joining` says that a JoinGroup of the member may wait at the coordinator.
        """
        timeout_ms = max(1, min(self._settings.request_timeout_ms, timeout_ms))
        group_id = self._heartbeats.group_id
        try:
            node_id = await self._client.coordinator(
                CoordinatorType.GROUP, group_id, timeout_ms=timeout_ms
            )
            # Behind a JoinGroup that waits it would wait for the very rebalance that it shortens.
            node_id = broker_id(node_id) if is_joining else node_id
            await self._client.request(node_id, request, timeout_ms=timeout_ms)
        except BarnabasError as error:
            _log.info("group %s: leaving failed: %s", group_id, error)

    def leave_group_in_background(self, request: Message, *, is_joining: bool = False) -> None:
        """Leave without waiting, because the caller was cancelled; `close` waits for it."""
        leaving = self.leave_group(
            request, self._settings.request_timeout_ms, is_joining=is_joining
        )
        task: asyncio.Task[Any] = asyncio.create_task(leaving, name="leave group")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    # ---- the task --------------------------------------------------------------------------

    async def _run(self) -> None:
        heartbeats, timers = self._heartbeats, self._timers
        while True:
            now_ms = self._now_ms()
            if self._is_program_waiting:
                self.on_poll()
            wait_ms = heartbeats.interval_ms
            if heartbeats.sends_heartbeats:
                if heartbeats.is_member and timers.is_poll_overdue(now_ms):
                    await self._leave_on_poll_timeout()
                    continue
                if timers.is_heartbeat_due(now_ms):
                    await self._send_heartbeat()
                    continue
                wait_ms = min(wait_ms, timers.wait_ms(now_ms, is_member=heartbeats.is_member))
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()

    async def _send_heartbeat(self) -> None:
        heartbeats, timers = self._heartbeats, self._timers
        state = heartbeats.state
        failure: BarnabasError | None = None
        timers.on_sent(self._now_ms(), heartbeats.interval_ms)
        try:
            reaction = await heartbeats.send()
        except RetriableError as error:
            _log.info("group %s: no response to a heartbeat: %s", heartbeats.group_id, error)
            heartbeats.on_no_response()
            reaction = Reaction.FIND_COORDINATOR
        except BarnabasError as error:
            failure = heartbeats.on_error(error)
            reaction = Reaction.WAIT
        if reaction is Reaction.FIND_COORDINATOR:
            self._client.forget_coordinator(CoordinatorType.GROUP, heartbeats.group_id)
        if reaction is Reaction.GO_ON:
            timers.on_success(heartbeats.interval_ms)
            if heartbeats.is_urgent:
                timers.expedite()
        else:
            backoff_ms = self._client.backoff_ms(timers.failure_count)
            timers.on_failure(self._now_ms(), backoff_ms, heartbeats.interval_ms)
        self._has_response.set()
        if failure is not None or state != heartbeats.state:
            self._on_change(failure)

    async def _leave_on_poll_timeout(self) -> None:
        heartbeats = self._heartbeats
        _log.warning(
            "group %s: no poll for more than max_poll_interval_ms=%d: leaving the group."
            " Process fewer records per poll (max_poll_records) or raise the limit",
            heartbeats.group_id,
            self._settings.max_poll_interval_ms,
        )
        request = heartbeats.leave_request()
        if request is not None:
            await self.leave_group(request, self._settings.request_timeout_ms)
        heartbeats.on_poll_timeout()
        self._on_change(None)

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()
