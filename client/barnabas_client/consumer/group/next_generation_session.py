"""The session of a KIP-848 member: heartbeats in the background, and leaving.

Not here: what they say and mean (`next_generation.py`).

Source: CG-3, CG-5, CON-10 of behaviour.md.
Invariants: one task, from `start` to `stop`, and one heartbeat in flight. The broker says how often
they come; news are told at once, after errors with backoff. A member that the program does not
poll for max_poll_interval_ms leaves, and its partitions are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.group.farewells import Farewells
from barnabas_client.consumer.group.next_generation import NextGenerationMember, Wish
from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_log = logging.getLogger(__name__)

_PATTERNS_SINCE = 1


class NextGenerationSession:
    """Keeps one member alive in the eyes of its coordinator."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        member: NextGenerationMember,
        wish: Callable[[], Wish],
        news: Callable[[BarnabasError | None], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._member = member
        self._wish = wish
        self._news = news
        self._task: asyncio.Task[None] | None = None
        self._farewells = Farewells()
        self._kicked = asyncio.Event()
        self._heard = asyncio.Event()
        self._is_program_waiting = False
        self._last_poll_ms = self._now_ms()
        self._next_heartbeat_ms = 0
        self._failures = 0
        # The broker is too old for patterns, or refused this one: names do.
        self.is_pattern_refused = False

    @property
    def is_kicked(self) -> bool:
        """Whether a heartbeat is about to go out, or on its way."""
        return self._kicked.is_set() or self._failures > 0

    def start(self) -> None:
        """Send heartbeats while the member is one."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="heartbeats")

    async def stop(self) -> None:
        """Send no more; an answer that still comes is dropped."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def kick(self) -> None:
        """Send a heartbeat at once, if the last one did not fail."""
        if self._failures == 0:
            self._next_heartbeat_ms = 0
        self._kicked.set()

    def polled(self) -> None:
        """The program has asked for records: it is not stuck."""
        self._last_poll_ms = self._now_ms()

    @contextlib.contextmanager
    def program_waits(self) -> Iterator[None]:
        """While the program waits in `poll` it is not stuck either."""
        self._is_program_waiting = True
        try:
            yield
        finally:
            self._is_program_waiting = False
            self.polled()

    async def wait_for_news(self, timeout_ms: int) -> bool:
        """Wait for the next answer; False if the time is over before."""
        self._heard.clear()
        try:
            async with asyncio.timeout(max(0, timeout_ms) / 1000):
                await self._heard.wait()
        except TimeoutError:
            return False
        return True

    def leave_group_soon(self, *, is_for_good: bool) -> None:
        """Leave without waiting for the answer: the caller was cancelled. `finish` waits for it."""
        deadline_ms = self._now_ms() + self._settings.request_timeout_ms
        self._farewells.begin(self.say_goodbye(deadline_ms, is_for_good=is_for_good))

    async def finish(self) -> None:
        """Send no more, and give goodbyes that are on their way a moment."""
        await self.stop()
        await self._farewells.finish()

    def say_goodbye(self, deadline_ms: int, *, is_for_good: bool) -> Coroutine[Any, Any, None]:
        """Leave, in one attempt, as the member is now; should it fail, the session runs out."""
        timeout_ms = min(self._settings.request_timeout_ms, max(1, deadline_ms - self._now_ms()))
        return self._leave(self._member.leave_request(is_for_good=is_for_good), timeout_ms)

    async def _leave(self, request: ConsumerGroupHeartbeatRequest, timeout_ms: int) -> None:
        try:
            node_id = await self._client.coordinator(
                CoordinatorType.GROUP, self._member.group_id, timeout_ms=timeout_ms
            )
            await self._client.request(node_id, request, timeout_ms=timeout_ms)
        except BarnabasError as error:
            _log.info("group %s: could not say goodbye: %s", self._member.group_id, error)

    async def _run(self) -> None:
        while True:
            now_ms = self._now_ms()
            if self._is_program_waiting:
                self.polled()
            wait_ms = self._member.heartbeat_interval_ms
            if self._member.sends_heartbeats:
                limit_ms = self._last_poll_ms + self._settings.max_poll_interval_ms
                if self._member.is_member and now_ms > limit_ms:
                    await self._leave_stuck()
                    continue
                if now_ms >= self._next_heartbeat_ms:
                    await self._send_heartbeat()
                    continue
                wait_ms = max(1, min(self._next_heartbeat_ms, limit_ms + 1) - now_ms)
            self._kicked.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._kicked.wait()

    async def _send_heartbeat(self) -> None:
        member = self._member
        before = (member.state, member.member_epoch)
        failure: BarnabasError | None = None
        try:
            reaction = await self._exchange()
        except RetriableError as error:
            _log.info("group %s: no answer to a heartbeat: %s", member.group_id, error)
            member.tell_everything()
            reaction = Reaction.FIND_COORDINATOR
        except BarnabasError as error:
            failure = self._without_pattern(error)
            reaction = Reaction.WAIT
        if reaction is Reaction.FIND_COORDINATOR:
            self._client.forget_coordinator(CoordinatorType.GROUP, member.group_id)
        now_ms = self._now_ms()
        if reaction is Reaction.GO_ON:
            self._failures = 0
            is_urgent = member.has_news(self._wish())
            self._next_heartbeat_ms = 0 if is_urgent else now_ms + member.heartbeat_interval_ms
        else:
            self._next_heartbeat_ms = now_ms + self._client.backoff_ms(self._failures)
            self._failures += 1
        self._heard.set()
        if failure is not None or before != (member.state, member.member_epoch):
            self._news(failure)

    async def _exchange(self) -> Reaction:
        member = self._member
        group_id = member.group_id
        node_id = await self._client.coordinator(CoordinatorType.GROUP, group_id)
        version = await self._client.version(node_id, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        if version < _PATTERNS_SINCE:
            self.is_pattern_refused = True
        sent_epoch = member.member_epoch
        request = member.heartbeat_request(self._wish())
        response = await self._client.request(node_id, request, version=version)
        return member.heard(response, sent_epoch)

    def _without_pattern(self, error: BarnabasError) -> BarnabasError | None:
        """Go on with names if the broker does not understand the pattern."""
        if error.code is not ErrorCode.INVALID_REGULAR_EXPRESSION or self.is_pattern_refused:
            return error
        _log.info("group %s: matching topics here: %s", self._member.group_id, error)
        self.is_pattern_refused = True
        return None

    async def _leave_stuck(self) -> None:
        limit_ms = self._settings.max_poll_interval_ms
        _log.warning(
            "group %s: no poll for more than max_poll_interval_ms=%d: leaving the group."
            " Process fewer records per poll (max_poll_records) or raise the limit",
            self._member.group_id,
            limit_ms,
        )
        deadline_ms = self._now_ms() + self._settings.request_timeout_ms
        await self.say_goodbye(deadline_ms, is_for_good=False)
        if self._member.sends_heartbeats:
            self._member.fence()
        self._news(None)

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()
