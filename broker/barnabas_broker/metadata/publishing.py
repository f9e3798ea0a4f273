"""Publishing committed changes one after the other, beside the quorum's own work.

Subscribers may take their time (a broker makes and deletes logs); fetches, promises and renewals
must not wait for them. Invariant: each change is published once, in the order of the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from barnabas_broker.metadata.image_log import Change
from barnabas_broker.metadata.leadership import NotLeadingError
from barnabas_broker.metadata.publisher import MetadataPublisher


class Publishing:
    """A queue of changes, and those who wait for one."""

    __slots__ = ("_changes", "_publisher", "_task", "_waiting", "_wake")

    def __init__(self, publisher: MetadataPublisher) -> None:
        self._publisher = publisher
        self._changes: deque[Change] = deque()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  # by rising offset
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def published_offset(self) -> int:
        """The offset of the newest image that all subscribers have heard of, or are hearing of."""
        return self._publisher.image.offset

    def start(self) -> None:
        """Begin to publish."""
        self._task = asyncio.create_task(self._run(), name="metadata publishing")

    def put(self, changes: Iterable[Change]) -> None:
        """Have changes published, after those that were put before."""
        self._changes.extend(changes)
        if self._changes:
            self._wake.set()

    async def wait(self, offset: int) -> None:
        """Return when the image of an offset, or a later one, was published.

        Raises: NotLeadingError after `refuse`.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        await future

    def refuse(self, reason: str) -> None:
        """Tell all who wait that what they wait for may never be committed."""
        waiting, self._waiting = self._waiting, deque()
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
            await self._publisher.publish(delta, image)
            while self._waiting and self._waiting[0][0] <= image.offset:
                _, future = self._waiting.popleft()
                if not future.done():
                    future.set_result(None)
