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


class MetadataPublisher:
    """Holds the newest committed image and hands each change to all subscribers."""

    __slots__ = ("_publishing", "_subscribers", "image")

    def __init__(self) -> None:
        self.image = MetadataImage.empty()
        self._subscribers: list[Subscriber] = []
        self._publishing = asyncio.Lock()  # while it is held, subscribers hear of one image

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call with each change from now on, after those that subscribed before."""
        self._subscribers.append(subscriber)

    async def join(self, subscriber: Subscriber) -> None:
        """Call with the newest image as a whole, then with each change after it, none left out.

        Raises: what the subscriber raises at first; it is not subscribed then.
        """
        async with self._publishing:
            told = subscriber(None, self.image)
            if told is not None:
                await told
            self._subscribers.append(subscriber)

    async def publish(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Make the image the newest and tell; no delta means: compare with nothing, take it whole.

        A subscriber that fails is logged and does not keep the others from hearing of the change.
        """
        async with self._publishing:
            self.image = image
            for subscriber in self._subscribers:
                try:
                    told = subscriber(delta, image)
                    if told is not None:
                        await told
                except Exception:
                    logger.exception("a subscriber failed at metadata offset %d", image.offset)
