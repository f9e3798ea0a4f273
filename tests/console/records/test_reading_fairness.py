"""Reading leaves the loop to others, whatever is in the records (CON-136, CON-172)."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from barnabas_client.consumer.records import FetchedBatch
from barnabas_console.loop_slices import LoopSlices
from barnabas_console.records import batch_opening
from barnabas_console.records.batch_opening import open_batch
from barnabas_console.records.filters import parse_filter
from barnabas_console.records.reading_budget import (
    SCANS_MAX,
    SCANS_OF_VIEWER_MAX,
    TAILS_MAX,
    TAILS_OF_VIEWER_MAX,
    NoSeatError,
    ReadingBudget,
)
from barnabas_console.records.record_scan import ScanEnd, scan
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.record import Record, encode_batch
from tests.console.records.readings import (
    CLOCK,
    Written,
    budget,
    choices,
    create_topic,
    viewer_of,
    write,
)


class TurningClock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def fetched(data: bytes) -> FetchedBatch:
    return FetchedBatch(topic="t", partition=0, header=read_header(data), data=data, first_offset=0)


def test_slice_ends_after_eight_milliseconds() -> None:
    async def run() -> None:
        clock = TurningClock()
        slices = LoopSlices(clock)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(others())
        clock.now_ms = 7
        await slices.pause_if_due()
        assert turns == 0
        clock.now_ms = 8
        await slices.pause_if_due()
        assert turns > 0
        task.cancel()

    asyncio.run(run())


def test_rate_is_shared_by_all_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 MiB a second in all: who reads more has to wait."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    async def run() -> None:
        clock = TurningClock()
        clock.now_ms = 5_000
        shared = ReadingBudget(clock, bytes_per_second=1_000)
        await shared.spend(1_000)  # a second's worth that nobody has used
        await shared.spend(500)
        await shared.spend(500)
        clock.now_ms = 6_000
        await shared.spend(100)

    asyncio.run(run())
    assert waits == [0.5, 1.0, 0.1]


def test_seats_of_one_viewer_are_half_of_all() -> None:
    """CON-136: who has logged in keeps nobody else from searching or following."""
    seats = ReadingBudget(TurningClock())
    for seat, own_max, all_max in (
        (seats.scan, SCANS_OF_VIEWER_MAX, SCANS_MAX),
        (seats.tail, TAILS_OF_VIEWER_MAX, TAILS_MAX),
    ):
        with ExitStack() as held:
            for _ in range(own_max):
                held.enter_context(seat("alice"))
            with pytest.raises(NoSeatError, match=f"{own_max} of your"):
                held.enter_context(seat("alice"))
            for _ in range(all_max - own_max):
                held.enter_context(seat("bob"))
            with pytest.raises(NoSeatError, match=f"{all_max} "):
                held.enter_context(seat("carol"))
        with seat("alice"):
            pass


def test_only_viewer_of_a_console_without_login_has_all_seats() -> None:
    seats = ReadingBudget(TurningClock())
    with ExitStack() as held:
        for _ in range(SCANS_MAX):
            held.enter_context(seats.scan(""))
        with pytest.raises(NoSeatError):
            held.enter_context(seats.scan(""))


def test_bomb_of_compression_is_refused_on_a_thread() -> None:
    """CON-114: 64 MiB and no more, while the loop goes on."""

    async def run() -> None:
        value = bytes(batch_opening.DECOMPRESSED_BYTES_MAX + 1)
        bomb = encode_batch([Record(0, 0, None, value)], compression=Compression.ZSTD)
        assert len(bomb) < 64 * 1024
        opened = asyncio.ensure_future(open_batch(fetched(bomb)))
        turns = 0
        while not opened.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 1
        assert isinstance(opened.exception(), ParseError)

    asyncio.run(run())


def test_large_batch_is_searched_over_the_ends_of_pieces() -> None:
    """A word that two pieces share is found."""

    async def run() -> None:
        value = b"x" * (batch_opening.PIECE_BYTES - 40) + b"needle" * 20 + b"y" * 100
        batch = fetched(encode_batch([Record(0, 0, None, value)]))
        assert await open_batch(batch, [b"needleneedle"]) is not None
        assert await open_batch(batch, [b"needleneedlex"]) is None

    asyncio.run(run())


def test_value_nested_too_deep_passes_a_scan(bootstrap: str, unique: Callable[[str], str]) -> None:
    """A record that would exhaust a parser's stack is one that the filter does not match."""

    async def run() -> None:
        topic = unique("deep")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 1)
            values = [b"[" * 200_000, b'{"n":' * 50_000, b'{"n":1}']
            await write(bootstrap, topic, [Written(0, 1_000, value) for value in values])
            found = []
            async for progress in scan(
                viewer, choices(topic), parse_filter("json.n=1", 0), budget(), CLOCK
            ):
                found += [view.offset for view in progress.found]
        assert progress.end is ScanEnd.ALL_READ
        assert found == [2]

    asyncio.run(run())
