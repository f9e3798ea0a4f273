"""Who waits for an image gets the first one that fits, on virtual time; background tasks end."""

import asyncio
import logging
from dataclasses import replace

import pytest

from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.publisher import ImageWatch
from barnabas_broker.server.background import BackgroundTasks
from tests.support.virtual_loop import run_virtual


def image(offset: int) -> MetadataImage:
    return replace(MetadataImage.empty(), offset=offset)


def test_each_waiter_goes_on_with_the_first_image_that_fits() -> None:
    """BOOT-2: a broker goes on when it has the metadata up to its registration."""

    async def run() -> None:
        watch = ImageWatch()
        heard: list[int] = []
        watch.on_change.append(lambda: heard.append(watch.image.offset))
        watch(None, image(3))
        assert (await watch.until(lambda one: one.offset >= 2)).offset == 3

        def waiter(least: int) -> asyncio.Task[MetadataImage]:
            return asyncio.create_task(watch.until(lambda one: one.offset >= least))

        waiters = [waiter(least) for least in (4, 5, 5)]
        for offset in (4, 5, 6):
            await asyncio.sleep(1)
            watch(None, image(offset))
        assert [(await one).offset for one in waiters] == [4, 5, 5]
        assert heard == [3, 4, 5, 6]

    run_virtual(run())


def test_background_tasks_end_with_the_broker_and_tell_of_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """STOP-8: nothing is left running; nothing fails in silence."""

    async def run() -> None:
        background = BackgroundTasks()
        ended: list[str] = []

        async def work(name: str) -> None:
            try:
                await asyncio.sleep(3_600)
            finally:
                ended.append(name)

        async def fails() -> None:
            raise ValueError("a fault of ours")

        background.spawn(work("first"))
        background.spawn(work("second"))
        background.spawn(fails())
        await asyncio.sleep(1)
        await background.cancel()
        assert ended == ["first", "second"]

    with caplog.at_level(logging.ERROR):
        run_virtual(run())
    assert "a background task failed" in caplog.text
