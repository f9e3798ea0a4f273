"""Executes the effects that the node of the metadata log decides, one after the other.

What ends later (flushes, requests, the store) is begun here, and its outcome is an event of its
own. Not here: the order of events (`metadata_quorum`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import assert_never

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_log import ImageLog
from barnabas_broker.metadata.publish_queue import PublishQueue
from barnabas_broker.metadata.quorum.arbiter_access import ArbiterAccess
from barnabas_broker.metadata.quorum.effects import (
    Append,
    Effect,
    Effects,
    FetchSnapshot,
    Flush,
    HoldFetch,
    InstallSnapshot,
    Lead,
    PersistPromise,
    PublishCommitted,
    ReadRecord,
    Send,
    StepDown,
    Swap,
    Truncate,
)
from barnabas_broker.metadata.quorum.inbound_requests import InboundFetch, InboundRequests
from barnabas_broker.metadata.quorum.messages import (
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.node import QuorumNode, Role
from barnabas_broker.metadata.quorum.promise_file import PromiseFile
from barnabas_broker.metadata.snapshot import SnapshotName


@dataclass(slots=True, kw_only=True)
class Event:
    """Something that happened to the node, with what its effects need besides."""

    decide: Callable[[], Effects]
    records: Buffer = b""  # that came with a response
    incoming: InboundFetch | None = None  # to be answered
    snapshot: tuple[bytes, MetadataImage] | None = None  # that was loaded
    work: Callable[[], Awaitable[None]] | None = None  # to be done on the log before


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What effects lead to outside of this module."""

    enqueue: Callable[[Event], None]
    request_promise: Callable[[int, PromiseRequest], None]
    fetch_records: Callable[[int, QuorumFetchRequest], None]
    fetch_snapshot_file: Callable[[SnapshotResponse], None]
    swap: Callable[[Swap], None]
    lead: Callable[[int], None]  # writes the first record of the epoch
    committed: Callable[[], None]
    stepped_down: Callable[[], None]
    save_recovery_points: Callable[[], Awaitable[None]]
    fail: Callable[[BaseException], None]


class EffectExecutor:
    """Executes effects on one node's disk and connections."""

    __slots__ = (
        "_access",
        "_hooks",
        "_inbound",
        "_log",
        "_node",
        "_promise",
        "_publish_queue",
        "_tasks",
    )

    def __init__(
        self,
        node: QuorumNode,
        log: ImageLog,
        promise: PromiseFile,
        incoming: InboundRequests,
        access: ArbiterAccess,
        publishing: PublishQueue,
        hooks: Hooks,
    ) -> None:
        self._node = node
        self._log = log
        self._promise = promise
        self._inbound = incoming
        self._access = access
        self._publish_queue = publishing
        self._hooks = hooks
        self._tasks: dict[asyncio.Future[None], None] = {}  # in the order of their start

    async def execute(self, effect: Effect, event: Event) -> None:
        """Carry out one effect of an event. Raises: what the disk raises."""
        match effect:
            case PersistPromise():
                await self._promise.write(effect.controller_epoch)
            case Send():
                await self._send(effect, event)
            case HoldFetch():
                assert event.incoming is not None
                self._inbound.hold(event.incoming)
            case Append():
                self._log.append(event.records)
            case Truncate():
                await self._log.truncate(effect.end_offset)
                await self._hooks.save_recovery_points()
            case Flush():
                self._spawn(self._flush(effect))
            case FetchSnapshot():
                self._hooks.fetch_snapshot_file(effect.response)
            case InstallSnapshot():
                await self._install(effect, event)
            case PublishCommitted():
                self.publish(effect.high_watermark)
                self._hooks.committed()
            case Lead():
                self._hooks.lead(effect.controller_epoch)
                self._hooks.enqueue(Event(decide=self._node.appended))
                self._inbound.release()
            case StepDown():
                self._log.discard_staged()
                self._hooks.stepped_down()
                self._inbound.release()
            case Swap():
                self._hooks.swap(effect)
            case ReadRecord():
                self._access.read()
            case _:
                assert_never(effect)

    def publish(self, high_watermark: int) -> None:
        """Publish what is committed, and let those know who fetch."""
        self._publish_queue.put(self._log.take_committed(high_watermark))
        self._inbound.release()

    async def close(self) -> None:
        """Begin nothing more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self, effect: Send, event: Event) -> None:
        message = effect.message
        match message:
            case PromiseRequest():
                self._hooks.request_promise(effect.node_id, message)
            case PromiseResponse():
                self._inbound.respond_promise(effect.node_id, message)
            case QuorumFetchRequest():
                self._hooks.fetch_records(effect.node_id, message)
            case RecordsResponse():
                assert event.incoming is not None
                await self._answer(event.incoming, message)
            case _:
                assert event.incoming is not None
                event.incoming.respond((message, b""))

    async def _answer(self, incoming: InboundFetch, response: RecordsResponse) -> None:
        if self._node.role is Role.LEADING and not self._inbound.is_news(incoming, response):
            self._inbound.hold(incoming)
            return
        records: bytes = b""
        if not response.is_empty:
            records, end_offset = await self._log.records(response.requested.end_offset)
            response = replace(response, end_offset=end_offset)
        self._inbound.respond_records(incoming, response, records)

    async def _install(self, effect: InstallSnapshot, event: Event) -> None:
        assert event.snapshot is not None
        data, image = event.snapshot
        name = SnapshotName(effect.snapshot.end_offset, effect.snapshot.last_epoch)
        await self._log.install(name, data, image)
        await self._hooks.save_recovery_points()
        self.publish(name.end_offset)

    async def _flush(self, effect: Flush) -> None:
        try:
            await self._log.flush(effect.end_offset)
        except Exception as error:  # nothing else would tell that this flush never ends
            self._hooks.fail(error)
            return
        node = self._node
        self._hooks.enqueue(
            Event(decide=lambda: node.flushed(effect.truncation_count, effect.end_offset))
        )

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Future[None]) -> None:
        self._tasks.pop(task, None)
