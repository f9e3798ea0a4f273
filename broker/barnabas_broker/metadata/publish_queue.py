"""PublishQueue committed changes one after the other, beside the quorum's own work.

Subscribers may take their time (a broker makes and deletes logs); fetches, promises and renewals
must not wait for them. Invariants: each change is published once, in the order of the log; none
after one that a subscriber could not act on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from barnabas_broker.metadata.image_log import Change
from barnabas_broker.metadata.publisher import MetadataPublisher, NotAppliedError
from barnabas_broker.metadata.quorum.leadership import NotLeadingError

Waiting = deque[tuple[int, asyncio.Future[None]]]


class PublishQueue:
    """A queue of changes, and those who wait for one: to be committed, or to be published."""

    __slots__ = (
        "_changes",
        "_committing",
        "_on_failure",
        "_publisher",
        "_task",
        "_waiting",
        "_wake",
        "published_offset",
    )

    def __init__(
        self, publisher: MetadataPublisher, on_failure: Callable[[BaseException], None]
    ) -> None:
        """`on_failure` hears that a change cannot be acted on: the broker must not go on."""
        self._publisher = publisher
        self._on_failure = on_failure
        self._changes: deque[Change] = deque()
        # By rising offset: who waits for a change to be put here, and for its publication.
        self._committing: Waiting = deque()
        self._waiting: Waiting = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.published_offset = publisher.image.offset  # all subscribers have acted on it

    def start(self) -> None:
        """Begin to publish."""
        self._task = asyncio.create_task(self._run(), name="metadata publishing")

    def put(self, changes: Iterable[Change]) -> None:
        """Have changes published, after those that were put before."""
        self._changes.extend(changes)
        if self._changes:
            _complete(self._committing, self._changes[-1][1].offset)
            self._wake.set()

    async def wait_committed(self, offset: int) -> None:
        """Return when the change of an offset, or a later one, was put here.

        Raises: NotLeadingError after `refuse`.
        """
        await _wait(self._committing, offset)

    async def wait(self, offset: int) -> None:
        """Return when the image of an offset, or a later one, was published.

        Raises: NotLeadingError after `refuse`.
        """
        await _wait(self._waiting, offset)

    def refuse(self, reason: str) -> None:
        """Tell all who wait that what they wait for may never be committed."""
        waiting = (*self._committing, *self._waiting)
        self._committing.clear()
        self._waiting.clear()
        for _, future in waiting:
            if not future.done():
                future.set_exception(NotLeadingError(reason))

    async def close(self) -> None:
        """Stop; what is not published by now will not be."""
        self.refuse("this node stops")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            if not self._changes:
                self._wake.clear()
                await self._wake.wait()
            delta, image = self._changes.popleft()
            try:
                await self._publisher.publish(delta, image)
            except NotAppliedError as error:
                self._on_failure(error)
                return
            self.published_offset = image.offset
            _complete(self._waiting, image.offset)


async def _wait(waiting: Waiting, offset: int) -> None:
    future = asyncio.get_running_loop().create_future()
    waiting.append((offset, future))
    await future


def _complete(waiting: Waiting, offset: int) -> None:
    """Tell those who wait for the offset, or a lower one."""
    while waiting and waiting[0][0] <= offset:
        _, future = waiting.popleft()
        if not future.done():
            future.set_result(None)
