"""Fetches and requests for promises that other nodes wait for, and when they are answered.

A leader holds a fetch back that it has nothing new for, until there are records, a higher high
watermark or another leader, or the wait is over. A held fetch is handled again: it
acknowledges no more than it did. Not here: the responses (`node`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.quorum.messages import (
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
    RecordsResponse,
)
from barnabas_broker.metadata.quorum.voters import Voter

# A node that follows fetches again as soon as it has flushed what it got.
FOLLOW_UP_SECONDS_MAX: Final = 0.1

FetchReply = tuple[QuorumFetchResponse | FetchRefused, Buffer]


class InboundFetch:
    """A fetch of another node, until it is answered."""

    __slots__ = ("came_at", "is_over", "reply", "request", "timer")

    def __init__(self, request: QuorumFetchRequest, reply: asyncio.Future[FetchReply]) -> None:
        self.request = request
        self.reply = reply
        self.came_at = reply.get_loop().time()
        self.is_over = False  # the wait is: answered even with nothing
        self.timer: asyncio.TimerHandle | None = None

    def respond(self, reply: FetchReply) -> None:
        """Response, unless the asker has gone."""
        if self.timer is not None:
            self.timer.cancel()
        if not self.reply.done():
            self.reply.set_result(reply)


class InboundRequests:
    """All that others wait for."""

    __slots__ = ("_enqueue", "_held", "_promises", "_sent")

    def __init__(self, enqueue: Callable[[InboundFetch], None]) -> None:
        """`enqueue` puts a fetch before the node, again or for the first time."""
        self._enqueue = enqueue
        self._held: dict[int, InboundFetch] = {}
        self._promises: dict[asyncio.Future[PromiseResponse], PromiseRequest] = {}
        # The high watermark that each node knows, and when it was sent.
        self._sent: dict[Voter, tuple[int, float]] = {}

    def fetch(self, request: QuorumFetchRequest, wait_ms_max: int) -> asyncio.Future[FetchReply]:
        """A fetch has come; returns what will hold the response."""
        loop = asyncio.get_running_loop()
        incoming = InboundFetch(request, loop.create_future())
        incoming.timer = loop.call_later(wait_ms_max / 1000, self._wait_is_over, incoming)
        self._enqueue(incoming)
        return incoming.reply

    def promise(self, request: PromiseRequest) -> asyncio.Future[PromiseResponse]:
        """A request for a promise has come; returns what will hold the response."""
        reply: asyncio.Future[PromiseResponse] = asyncio.get_running_loop().create_future()
        self._promises[reply] = request
        reply.add_done_callback(lambda done: self._promises.pop(done, None))
        return reply

    def respond_promise(self, node_id: int, response: PromiseResponse) -> None:
        """Respond to those of a node that requested this epoch."""
        for reply, request in list(self._promises.items()):
            is_meant = (request.leader_id, request.controller_epoch) == (
                node_id,
                response.controller_epoch,
            )
            if is_meant and not reply.done():
                reply.set_result(response)

    def is_news(self, incoming: InboundFetch, response: RecordsResponse) -> bool:
        """Whether the response has something that the other node does not know."""
        if incoming.is_over or not response.is_empty:
            return True
        sent, sent_at = self._sent.get(incoming.request.voter, (-1, 0.0))
        # Who comes so late may have been restarted, and know nothing.
        is_late = incoming.came_at - sent_at > FOLLOW_UP_SECONDS_MAX
        return is_late or response.high_watermark > sent

    def respond_records(
        self, incoming: InboundFetch, response: RecordsResponse, records: Buffer
    ) -> None:
        """Answer with records, and remember what the asker knows by then."""
        known = min(response.high_watermark, response.end_offset)
        self._sent[incoming.request.voter] = (known, incoming.reply.get_loop().time())
        incoming.respond((response, records))

    def hold(self, incoming: InboundFetch) -> None:
        """Keep a fetch for later."""
        self._held[id(incoming)] = incoming

    def release(self) -> None:
        """Tell all that are held again: something has changed."""
        held, self._held = self._held, {}
        for incoming in held.values():
            if not incoming.reply.done():
                self._enqueue(incoming)

    def close(self) -> None:
        """Response nothing any more."""
        for incoming in self._held.values():
            if incoming.timer is not None:
                incoming.timer.cancel()
            incoming.reply.cancel()
        self._held.clear()
        for reply in list(self._promises):
            reply.cancel()

    def _wait_is_over(self, incoming: InboundFetch) -> None:
        incoming.is_over = True
        if self._held.pop(id(incoming), None) is not None and not incoming.reply.done():
            self._enqueue(incoming)
