"""Waiting for what the metadata says: a subscriber that remembers the newest image."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage


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
