"""Tells the parts of a broker what has been committed: each batch once, in order (CTL-12)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

# May be a coroutine function: the next subscriber and the next batch wait for it.
Subscriber = Callable[[MetadataDelta | None, MetadataImage], Awaitable[None] | None]


class NotAppliedError(Exception):
    """A part of this broker could not act on committed metadata: what it has done is not known."""


class MetadataPublisher:
    """Holds the newest committed image and hands each change to all subscribers."""

    __slots__ = ("_publish_queue", "_subscribers", "image")

    def __init__(self) -> None:
        self.image = MetadataImage.empty()
        self._subscribers: list[Subscriber] = []
        self._publish_queue = asyncio.Lock()  # while it is held, subscribers hear of one image

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call with each change from now on, after those that subscribed before."""
        self._subscribers.append(subscriber)

    async def join(self, subscriber: Subscriber) -> None:
        """Call with the newest image as a whole, then with each change after it, none left out.

        Raises: what the subscriber raises at first; it is not subscribed then.
        """
        async with self._publish_queue:
            told = subscriber(None, self.image)
            if told is not None:
                await told
            self._subscribers.append(subscriber)

    async def publish(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Make the image the newest and tell; no delta means: compare with nothing, take it whole.

        The others hear of it also where a subscriber fails.
        Raises: NotAppliedError then. Nothing may be published after it: the next change would come
        to a part that lacks this one, and would have it go on with what is not so any more.
        """
        failed: Exception | None = None
        async with self._publish_queue:
            self.image = image
            for subscriber in self._subscribers:
                try:
                    told = subscriber(delta, image)
                    if told is not None:
                        await told
                except Exception as error:
                    logger.exception("a subscriber failed at metadata offset %d", image.offset)
                    failed = failed or error
        if failed is not None:
            raise NotAppliedError(
                f"the metadata at offset {image.offset} cannot be applied: {failed!r}"
            ) from failed


class ImageWatch:
    """The newest image that it was told of, and those who wait for another."""

    def __init__(self) -> None:
        """Make one that knows of nothing yet."""
        self.image = MetadataImage.empty()
        self.on_change: list[Callable[[], None]] = []
        self._changed = asyncio.Event()

    def __call__(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Take note of an image; a subscriber of the publisher, or called by one."""
        self.image = image
        self._changed.set()
        for callback in self.on_change:
            callback()

    async def until(self, condition: Callable[[MetadataImage], bool]) -> MetadataImage:
        """The first image of which a condition holds, the newest one included."""
        while not condition(self.image):
            # Each waiter clears what it has seen; all look again after every change.
            self._changed.clear()
            await self._changed.wait()
        return self.image
