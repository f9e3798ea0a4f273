"""What this node has asked others and waits for: at most one of each kind and node at a time.

The rules ask again whenever they do not know whether an answer is still to come; the same question
twice would only cost. Another question of the same kind takes the place of the one before.

Not here: what the answers mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.quorum_messages import (
    FetchAnswered,
    FetchAsked,
    FetchRefused,
    PromiseAnswered,
    PromiseAsked,
    SnapshotAnswered,
)
from barnabas_broker.metadata.quorum_transport_protocol import FETCH_WAIT_MS_MAX, QuorumTransport

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Question = PromiseAsked | FetchAsked | SnapshotAnswered

PROMISE_TIMEOUT_MS: Final = 1000
FETCH_TIMEOUT_MS: Final = FETCH_WAIT_MS_MAX + 1500
SNAPSHOT_TIMEOUT_MS: Final = 60_000


class Questions:
    """The questions under way. `on_lost` is called where a node did not answer."""

    __slots__ = ("_asked", "_on_lost", "_transport")

    def __init__(
        self, transport: QuorumTransport, on_lost: Callable[[int, Question], None]
    ) -> None:
        self._transport = transport
        self._on_lost = on_lost
        self._asked: dict[tuple[str, int], tuple[Question, asyncio.Task[None]]] = {}

    @property
    def has_any(self) -> bool:
        """Whether an answer is expected."""
        return bool(self._asked)

    def promise(
        self, node_id: int, asked: PromiseAsked, told: Callable[[PromiseAnswered], None]
    ) -> None:
        """Ask a member for a promise."""
        answer = self._transport.ask_promise
        self._ask(
            "promise", node_id, asked, lambda: answer(node_id, asked, PROMISE_TIMEOUT_MS), told
        )

    def fetch(
        self,
        node_id: int,
        asked: FetchAsked,
        told: Callable[[tuple[FetchAnswered | FetchRefused, Buffer]], None],
    ) -> None:
        """Ask the leader, or the member with the best log, for records. One fetch at all."""
        answer = self._transport.ask_fetch
        for kind, other in list(self._asked):
            if kind == "fetch" and other != node_id:
                self._drop((kind, other))
        self._ask("fetch", node_id, asked, lambda: answer(node_id, asked, FETCH_TIMEOUT_MS), told)

    def snapshot(self, answer: SnapshotAnswered, told: Callable[[bytes], None]) -> None:
        """Ask for the snapshot that an answer has named."""
        node_id, name = answer.source.node_id, answer.snapshot
        fetch = self._transport.fetch_snapshot
        self._ask(
            "snapshot", node_id, answer, lambda: fetch(node_id, name, SNAPSHOT_TIMEOUT_MS), told
        )

    async def close(self) -> None:
        """Wait for no answer any more."""
        tasks = [task for _, task in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._asked.clear()

    def _ask(
        self,
        kind: str,
        node_id: int,
        question: Question,
        ask: Callable[[], Awaitable[Answer]],
        told: Callable[[Answer], None],
    ) -> None:
        key = (kind, node_id)
        known = self._asked.get(key)
        if known is not None and known[0] == question:
            return
        self._drop(key)
        task = asyncio.create_task(self._run(key, question, ask, told), name=f"metadata {kind}")
        self._asked[key] = (question, task)

    def _drop(self, key: tuple[str, int]) -> None:
        known = self._asked.pop(key, None)
        if known is not None:
            known[1].cancel()

    async def _run(
        self,
        key: tuple[str, int],
        question: Question,
        ask: Callable[[], Awaitable[Answer]],
        told: Callable[[Answer], None],
    ) -> None:
        kind, node_id = key
        try:
            answer = await ask()
        except Exception as error:
            # Whatever it is: a question that seems to be under way is never asked again.
            if not isinstance(error, OSError):
                logger.exception("asking node %d for a %s failed", node_id, kind)
            self._forget(key)
            self._on_lost(node_id, question)
            return
        self._forget(key)
        told(answer)

    def _forget(self, key: tuple[str, int]) -> None:
        known = self._asked.get(key)
        if known is not None and known[1] is asyncio.current_task():
            del self._asked[key]
