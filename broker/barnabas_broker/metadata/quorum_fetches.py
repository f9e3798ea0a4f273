"""Fetches and requests for promises that other nodes wait for, and when they are answered.

A leader holds a fetch back that it has nothing new for, until there are records, a higher high
watermark or another leader, or the wait is over. A held fetch is told the node again: it
acknowledges no more than it did. Not here: the answers (`quorum_node`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.quorum_messages import (
    FetchAnswered,
    FetchAsked,
    FetchRefused,
    PromiseAnswered,
    PromiseAsked,
    RecordsAnswered,
)

# A node that follows asks again as soon as it has flushed what it got.
FOLLOW_UP_SECONDS_MAX: Final = 0.1

FetchReply = tuple[FetchAnswered | FetchRefused, Buffer]


class IncomingFetch:
    """A fetch of another node, until it is answered."""

    __slots__ = ("asked", "came_at", "is_over", "reply", "timer")

    def __init__(self, asked: FetchAsked, reply: asyncio.Future[FetchReply]) -> None:
        self.asked = asked
        self.reply = reply
        self.came_at = reply.get_loop().time()
        self.is_over = False  # the wait is: answered even with nothing
        self.timer: asyncio.TimerHandle | None = None

    def answer(self, reply: FetchReply) -> None:
        """Answer, unless the asker has gone."""
        if self.timer is not None:
            self.timer.cancel()
        if not self.reply.done():
            self.reply.set_result(reply)


class IncomingRequests:
    """All that others wait for."""

    __slots__ = ("_held", "_promises", "_tell", "_told")

    def __init__(self, tell: Callable[[IncomingFetch], None]) -> None:
        """`tell` puts a fetch before the node, again or for the first time."""
        self._tell = tell
        self._held: dict[int, IncomingFetch] = {}
        self._promises: dict[asyncio.Future[PromiseAnswered], PromiseAsked] = {}
        # The high watermark that each asker knows, and when it was told.
        self._told: dict[Seat, tuple[int, float]] = {}

    def fetch(self, asked: FetchAsked, wait_ms_max: int) -> asyncio.Future[FetchReply]:
        """A fetch has come; returns what will hold the answer."""
        loop = asyncio.get_running_loop()
        incoming = IncomingFetch(asked, loop.create_future())
        incoming.timer = loop.call_later(wait_ms_max / 1000, self._wait_is_over, incoming)
        self._tell(incoming)
        return incoming.reply

    def promise(self, asked: PromiseAsked) -> asyncio.Future[PromiseAnswered]:
        """A request for a promise has come; returns what will hold the answer."""
        reply: asyncio.Future[PromiseAnswered] = asyncio.get_running_loop().create_future()
        self._promises[reply] = asked
        reply.add_done_callback(lambda done: self._promises.pop(done, None))
        return reply

    def answer_promise(self, node_id: int, answer: PromiseAnswered) -> None:
        """Answer those of a node that asked for this epoch."""
        for reply, asked in list(self._promises.items()):
            is_meant = (asked.leader_id, asked.controller_epoch) == (
                node_id,
                answer.controller_epoch,
            )
            if is_meant and not reply.done():
                reply.set_result(answer)

    def is_news(self, incoming: IncomingFetch, answer: RecordsAnswered) -> bool:
        """Whether the answer tells something that its asker does not know."""
        if incoming.is_over or not answer.is_empty:
            return True
        told, told_at = self._told.get(incoming.asked.seat, (-1, 0.0))
        # Who asks so late may have been restarted, and know nothing.
        is_late = incoming.came_at - told_at > FOLLOW_UP_SECONDS_MAX
        return is_late or answer.high_watermark > told

    def answer_records(
        self, incoming: IncomingFetch, answer: RecordsAnswered, records: Buffer
    ) -> None:
        """Answer with records, and remember what the asker knows by then."""
        known = min(answer.high_watermark, answer.end_offset)
        self._told[incoming.asked.seat] = (known, incoming.reply.get_loop().time())
        incoming.answer((answer, records))

    def hold(self, incoming: IncomingFetch) -> None:
        """Keep a fetch for later."""
        self._held[id(incoming)] = incoming

    def release(self) -> None:
        """Tell all that are held again: something has changed."""
        held, self._held = self._held, {}
        for incoming in held.values():
            if not incoming.reply.done():
                self._tell(incoming)

    def close(self) -> None:
        """Answer nothing any more."""
        for incoming in self._held.values():
            if incoming.timer is not None:
                incoming.timer.cancel()
            incoming.reply.cancel()
        self._held.clear()
        for reply in list(self._promises):
            reply.cancel()

    def _wait_is_over(self, incoming: IncomingFetch) -> None:
        incoming.is_over = True
        if self._held.pop(id(incoming), None) is not None and not incoming.reply.done():
            self._tell(incoming)
