"""The controller's events: one queue, one task, strictly first in, first out (CTL-8).

A command reads the image with everything decided so far, committed or not, and returns records and
a reply. Commands that wait together are flushed together; each reply leaves only after its records
are committed (CTL-11), and those to users also after this broker has acted on them, so that they
find what they have made. The commands of brokers are prompt: nobody's heartbeat or ISR waits until
a thousand logs were made. A queue lives for one controller epoch: the next one gets its own.

The records of a large command are prepared in turns of the loop; they are staged at once.

Invariants: a command reads what the one before it has staged, and nothing is staged in between;
once the queue has failed or the log has, nothing is answered with success any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from barnabas_broker.controller.controller_metrics import ControllerMetrics
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_log import PreparedRecords
from barnabas_broker.metadata.quorum.leadership import NotLeadingError
from barnabas_broker.metadata.records import MetadataRecord
from barnabas_protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")
Command = Callable[[MetadataImage], tuple[Sequence[MetadataRecord], Reply]]

# More commands than this in the queue are refused as timed out: clients try again.
QUEUED_COMMANDS_MAX: Final = 10_000
_CLOSE_SECONDS_MAX: Final = 2


class ControllerLog(Protocol):
    """The metadata log as its leader sees it."""

    @property
    def pending_image(self) -> MetadataImage:
        """The image with everything that was staged, committed or not."""
        ...

    def stage_prepared(self, prepared: PreparedRecords) -> int:
        """Take records that commit or vanish together, prepared for the pending image."""
        ...

    async def replicate(self) -> int:
        """The offset of what is staged, once it is committed. Raises: NotLeadingError, OSError."""
        ...

    def until_published(self, offset: int) -> Coroutine[Any, Any, None]:
        """Return once this broker has acted on what is committed. Raises: NotLeadingError."""
        ...


class _Event(Generic[Reply]):
    """A command in the queue."""

    __slots__ = ("command", "has_records", "is_prompt", "queued_ns", "refusal", "reply", "result")

    def __init__(
        self,
        command: Command[Reply],
        reply: asyncio.Future[Reply],
        now_ns: int,
        *,
        is_prompt: bool,
    ) -> None:
        self.command = command
        self.is_prompt = is_prompt
        self.reply = reply
        self.queued_ns = now_ns
        self.result: Reply | None = None
        self.has_records = False  # were staged: they may yet be committed
        self.refusal: KafkaError | None = None

    def answer(self) -> None:
        """Send the reply, unless its caller has gone."""
        if self.reply.done():
            return
        if self.refusal is not None:
            self.reply.set_exception(self.refusal)
        else:
            self.reply.set_result(cast("Reply", self.result))


class EventQueue:
    """The events of one controller epoch, from `start` until `fail` or `close`."""

    __slots__ = (
        "_answering",
        "_clock",
        "_deciding",
        "_has_failed",
        "_is_open",
        "_log",
        "_metrics",
        "_on_decided",
        "_on_failure",
        "_task",
        "_waiting",
        "_wake",
    )

    def __init__(
        self,
        log: ControllerLog,
        clock: Clock,
        metrics: ControllerMetrics,
        on_failure: Callable[[BaseException], None],
        on_decided: Callable[[Sequence[MetadataRecord]], None] = lambda _: None,
    ) -> None:
        """`on_failure` is called once if the log fails while the node still leads.

        `on_decided` sees the records of each command, staged and not yet committed.
        """
        self._log = log
        self._clock = clock
        self._metrics = metrics
        self._on_failure = on_failure
        self._on_decided = on_decided
        self._waiting: deque[_Event[Any]] = deque()
        self._deciding: list[_Event[Any]] = []  # decided, not yet known to be committed
        self._answering: dict[asyncio.Task[None], None] = {}  # committed, not yet acted on
        self._wake = asyncio.Event()
        self._is_open = True
        self._has_failed = False
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_open(self) -> bool:
        """Whether commands are taken."""
        return self._is_open

    def start(self) -> None:
        """Begin to run commands."""
        self._task = asyncio.create_task(self._run(), name="controller")

    async def submit(self, command: Command[Reply], *, is_prompt: bool = False) -> Reply:
        """Run a command in its turn and return its reply once its records are committed.

        And, unless it is prompt, once this broker has acted on them.
        Raises: KafkaError: the command's own, 41 when this node is not the controller, 7 when the
        queue is full or when this node stops being the controller before the outcome is known (41
        for a prompt one: what brokers ask for bears to be asked again), -1 for a fault of ours.
        """
        if len(self._waiting) >= QUEUED_COMMANDS_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller's queue is full")
        return await self.enqueue(command, is_prompt=is_prompt)

    def enqueue(self, command: Command[Reply], *, is_prompt: bool = False) -> asyncio.Future[Reply]:
        """Put a command in the queue, full or not; a reply that nobody awaits is no fault.

        Raises: KafkaError 41 when this node is not the controller.
        """
        if not self._is_open:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(_retrieve)
        now_ns = self._clock.monotonic_ns()
        self._waiting.append(_Event(command, reply, now_ns, is_prompt=is_prompt))
        self._wake.set()
        return reply

    def fail(self) -> None:
        """Tell everybody who waits that nothing is known to be committed, and take nothing more.

        NOT_CONTROLLER is an invitation to ask the next controller. A user's command whose records
        may yet be committed is not to be carried out twice: it has timed out.
        """
        self._is_open = False
        self._has_failed = True
        for event in (*self._deciding, *self._waiting):
            if event.reply.done():
                continue
            if event.has_records and not event.is_prompt:
                error = KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "this node stopped being the controller: whether the request took effect is "
                    "not known",
                )
            else:
                error = KafkaError(ErrorCode.NOT_CONTROLLER)
            event.reply.set_exception(error)
        self._waiting.clear()
        self._wake.set()

    async def close(self) -> None:
        """Answer what is queued, as long as it can be committed, then end; safe a second time."""
        self._is_open = False
        self._wake.set()
        task, self._task = self._task, None
        if task is not None:
            _, late = await asyncio.wait((task,), timeout=_CLOSE_SECONDS_MAX)
            if late:  # no majority commits it
                self.fail()
                task.cancel()
                await asyncio.wait((task,))
        answering = list(self._answering)
        for acting in answering:
            acting.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            if not self._waiting:
                if not self._is_open:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            events = self._deciding = list(self._waiting)
            self._waiting.clear()
            for event in events:
                await self._decide(event)
                if self._has_failed:
                    return
            try:
                offset = await self._log.replicate()
            except NotLeadingError as error:
                logger.info("the controller's epoch is over: %s", error)
                self.fail()
                return
            except Exception as error:
                logger.exception("the metadata log failed; this node stops being the controller")
                self.fail()
                self._on_failure(error)
                return
            # ConnectionRefusals wait too: what they rest on may be uncommitted itself.
            self._deciding = []
            for event in events:
                if event.is_prompt:
                    event.answer()
            others = [event for event in events if not event.is_prompt]
            if others:
                self._answer_later(offset, others)

    def _answer_later(self, offset: int, events: Sequence[_Event[Any]]) -> None:
        """Answer what is committed once this broker has acted on it, or will not any more."""

        def answer(acting: asyncio.Task[None]) -> None:
            del self._answering[acting]
            if not acting.cancelled():
                acting.exception()  # also who stops leading has committed it
            for event in events:
                event.answer()

        acting = asyncio.create_task(self._log.until_published(offset))
        self._answering[acting] = None
        acting.add_done_callback(answer)

    async def _decide(self, event: _Event[Any]) -> None:
        """Run one command and stage its records; those of one that fails meanwhile never are."""
        metrics = self._metrics
        started_ns = self._clock.monotonic_ns()
        metrics.events_count += 1
        metrics.queue_time_ns += started_ns - event.queued_ns
        try:
            image = self._log.pending_image
            records, event.result = event.command(image)
            prepared = await PreparedRecords(image).with_all(records)
            if self._has_failed:
                return
            self._log.stage_prepared(prepared)
            event.has_records = bool(records)
            metrics.count_elections(image, records)
            self._on_decided(records)
        except KafkaError as error:
            event.refusal = error
        except NotLeadingError:
            event.refusal = KafkaError(ErrorCode.NOT_CONTROLLER)
        except Exception:
            logger.exception("a command of the controller failed")
            metrics.failed_count += 1
            event.refusal = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        metrics.processing_time_ns += self._clock.monotonic_ns() - started_ns


def _retrieve(reply: asyncio.Future[Any]) -> None:
    """Look at a refusal, so that the loop does not complain where nobody awaits it."""
    if not reply.cancelled():
        reply.exception()
