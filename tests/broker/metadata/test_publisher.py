"""Who hears of which image, on virtual time."""

import asyncio
from dataclasses import replace

from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.publisher import MetadataPublisher
from tests.support.virtual_loop import run_virtual


def image(offset: int) -> MetadataImage:
    return replace(MetadataImage.empty(), offset=offset)


def test_who_joins_while_a_change_is_published_hears_of_each_change_once() -> None:
    """CTL-12: first the whole of the newest image, then what came after it, in order."""

    async def run() -> None:
        publisher = MetadataPublisher()
        heard: list[tuple[bool, int]] = []

        async def slow(delta: MetadataDelta | None, of: MetadataImage) -> None:
            await asyncio.sleep(1)

        async def joining(delta: MetadataDelta | None, of: MetadataImage) -> None:
            await asyncio.sleep(1)
            heard.append((delta is None, of.offset))

        publisher.subscribe(slow)
        async with asyncio.TaskGroup() as group:
            group.create_task(publisher.publish(MetadataDelta(image(0)), image(1)))
            await asyncio.sleep(0.5)
            group.create_task(publisher.join(joining))
            group.create_task(publisher.publish(MetadataDelta(image(1)), image(2)))
        assert heard == [(True, 1), (False, 2)]

    run_virtual(run())
