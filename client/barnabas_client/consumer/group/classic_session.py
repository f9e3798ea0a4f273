"""The session of a classic member: heartbeats in the background, and leaving.

Not here: what answers mean (`classic.py`), when what is due (`heartbeat_timers.py`).

Source: CON-10, GRP-14, GRP-15 of behaviour.md; KIP-62, KIP-345.
Invariants: one task, from `start` to `close`. A member that the program does not poll for
max_poll_interval_ms leaves the group; a static one falls silent instead, so that another process
with its instance id, or itself, may come back within the session timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.group.classic import ClassicMember
from barnabas_client.consumer.group.farewells import Farewells
from barnabas_client.consumer.group.heartbeat_timers import HeartbeatTimers
from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_client.network.node_connections import broker_id
from barnabas_protocol.messages.leave_group import LeaveGroupRequest

_log = logging.getLogger(__name__)


class ClassicSession:
    """Keeps one member alive in the eyes of its coordinator."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        member: ClassicMember,
        news: Callable[[BarnabasError | None], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._member = member
        self._news = news
        self._task: asyncio.Task[None] | None = None
        self._farewells = Farewells()
        self._changed = asyncio.Event()
        self._is_program_waiting = False
        self._timers = HeartbeatTimers(
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            now_ms=self._now_ms(),
        )

    def start(self) -> None:
        """Send heartbeats while the member is one."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="heartbeats")

    async def close(self) -> None:
        """Send no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._farewells.finish()

    def polled(self) -> None:
        """The program has asked for records: it is not stuck."""
        self._timers.last_poll_ms = self._now_ms()

    @contextlib.contextmanager
    def program_waits(self) -> Iterator[None]:
        """While the program waits in `poll` it is not stuck either."""
        self._is_program_waiting = True
        try:
            yield
        finally:
            self._is_program_waiting = False
            self.polled()

    def begin(self) -> None:
        """The coordinator has just answered: the session lasts from now on."""
        self._timers.restart(self._now_ms())
        self._changed.set()

    def leave_group_soon(self, reason: str, is_joining: bool) -> None:
        """Leave without waiting for the answer: the caller was cancelled. `close` waits for it."""
        deadline_ms = self._now_ms() + self._settings.request_timeout_ms
        self._farewells.begin(self.say_goodbye(reason, deadline_ms, is_joining))

    def say_goodbye(
        self, reason: str, deadline_ms: int, is_joining: bool
    ) -> Coroutine[Any, Any, None]:
        """Leave, in one attempt, as the member is now; should it fail, the session runs out."""
        timeout_ms = min(self._settings.request_timeout_ms, max(1, deadline_ms - self._now_ms()))
        return self._leave(self._member.leave_request(reason), timeout_ms, is_joining)

    async def _leave(self, request: LeaveGroupRequest, timeout_ms: int, is_joining: bool) -> None:
        try:
            node_id = await self._client.coordinator(
                CoordinatorType.GROUP, self._member.group_id, timeout_ms=timeout_ms
            )
            # Behind a parked JoinGroup it would wait for the very rebalance that it is to spare.
            node_id = broker_id(node_id) if is_joining else node_id
            await self._client.request(node_id, request, timeout_ms=timeout_ms)
        except BarnabasError as error:
            _log.info("group %s: could not say goodbye: %s", self._member.group_id, error)

    async def _run(self) -> None:
        while True:
            now_ms = self._now_ms()
            if self._is_program_waiting:
                self.polled()
            wait_ms = self._settings.heartbeat_interval_ms
            if self._member.sends_heartbeats:
                if self._timers.is_poll_overdue(now_ms):
                    await self._leave_stuck()
                    continue
                if self._timers.is_heartbeat_due(now_ms):
                    await self._send_heartbeat()
                    continue
                wait_ms = min(wait_ms, self._timers.wait_ms(now_ms))
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._changed.wait()

    async def _send_heartbeat(self) -> None:
        member, group_id = self._member, self._member.group_id
        sent_as = member.identity()
        state, reason = member.state, member.rejoin_reason
        self._timers.sent(self._now_ms())
        session_ms = self._settings.session_timeout_ms
        failure: BarnabasError | None = None
        try:
            node_id = await self._client.coordinator(
                CoordinatorType.GROUP, group_id, timeout_ms=session_ms
            )
            response = await self._client.request(
                node_id,
                member.heartbeat_request(),
                timeout_ms=min(self._settings.request_timeout_ms, session_ms),
            )
            reaction = member.heard(response.error_code, sent_as)
        except RetriableError as error:
            _log.info("group %s: no answer to a heartbeat: %s", group_id, error)
            reaction = Reaction.FIND_COORDINATOR
        except BarnabasError as error:
            failure = error
            reaction = Reaction.WAIT
        if reaction is Reaction.FIND_COORDINATOR:
            self._client.forget_coordinator(CoordinatorType.GROUP, group_id)
        if reaction is not Reaction.GO_ON:
            self._timers.failed(self._now_ms(), self._client.backoff_ms(0))
        if failure is not None or (state, reason) != (member.state, member.rejoin_reason):
            self._news(failure)

    async def _leave_stuck(self) -> None:
        limit_ms = self._settings.max_poll_interval_ms
        _log.warning(
            "group %s: no poll for more than max_poll_interval_ms=%d: leaving the group."
            " Process fewer records per poll (max_poll_records) or raise the limit",
            self._member.group_id,
            limit_ms,
        )
        sent_as = self._member.identity()
        if self._settings.group_instance_id is None:
            deadline_ms = self._now_ms() + self._settings.request_timeout_ms
            await self.say_goodbye("no poll within max_poll_interval_ms", deadline_ms, False)
        if self._member.identity() == sent_as:
            self._member.left("the program did not poll in time")
        self._news(None)

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()
