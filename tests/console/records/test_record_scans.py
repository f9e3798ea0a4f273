"""Scans on a real broker: what they find, where they stop, and that they say so (CON-136)."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_console.records import record_scan
from barnabas_console.records.filters import parse_filter
from barnabas_console.records.places import parse_place
from barnabas_console.records.record_scan import ScanEnd, ScanLimits, ScanProgress, scan
from barnabas_console.viewer import Viewer
from tests.console.records.readings import (
    CLOCK,
    Written,
    budget,
    choices,
    create_topic,
    viewer_of,
    write,
)
from tests.support.in_process_broker import DEADLINE_SECONDS

NO_OTHER = ScanLimits()
RECORDS = [
    Written(number % 3, 1_000 + number, b'{"n":%d,"word":"w%d"}' % (number, number % 10))
    for number in range(3_000)
]


async def scanned(
    viewer: Viewer, topic: str, text: str, start: str = "newest", limits: ScanLimits = NO_OTHER
) -> tuple[list[int], ScanProgress]:
    """The numbers that were found and the last progress."""
    found: list[int] = []
    picked = choices(topic, parse_place(start, 0))
    async for progress in scan(viewer, picked, parse_filter(text, 0), budget(), CLOCK, limits):
        found += [int(row.value.text[5:].split(",")[0]) for row in progress.found if row.value.text]
    assert progress.end is not None
    return found, progress


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_scan_finds_what_passes_and_says_that_all_was_read(
    bootstrap: str, unique: Callable[[str], str], compression: str
) -> None:
    async def run() -> None:
        topic = unique("scanned")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 3)
            await write(bootstrap, topic, RECORDS, compression=compression)
            for start in ("newest", "oldest"):
                found, last = await scanned(viewer, topic, "json.n>=2990", start)
                assert sorted(found) == list(range(2990, 3000))
                assert (last.end, last.go_on) == (ScanEnd.ALL_READ, None)
                assert all(one["read_to"] - one["read_from"] == 1_000 for one in last.ranges or ())
            found, last = await scanned(viewer, topic, "nowhere")
            assert (found, last.end) == ([], ScanEnd.ALL_READ)
            found, _ = await scanned(viewer, topic, "value~w7 partition=1")
            assert sorted(found) == [n for n in range(3_000) if n % 10 == 7 and n % 3 == 1]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        (ScanLimits(matches=7), ScanEnd.MATCHES),
        (ScanLimits(records=600), ScanEnd.RECORDS),
        (ScanLimits(size_bytes=20_000), ScanEnd.BYTES),
        (ScanLimits(time_ms=0), ScanEnd.TIME),
    ],
)
@pytest.mark.parametrize("start", ["newest", "oldest"])
def test_scan_that_stops_is_gone_on_with_until_each_was_found_once(
    bootstrap: str,
    unique: Callable[[str], str],
    limits: ScanLimits,
    end: ScanEnd,
    start: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_scan, "_FIRST_WINDOW", 32)
    monkeypatch.setattr(record_scan, "_ROUND_RECORDS", 0)

    async def run() -> None:
        topic = unique("stopped")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 3)
            await write(bootstrap, topic, RECORDS)
            found, last = await scanned(viewer, topic, "json.word=w3", start, limits)
            assert last.end is end
            place = last.go_on
            assert place is not None
            if end is ScanEnd.TIME:
                assert not found
                return
            for _ in range(400):
                more, last = await scanned(viewer, topic, "json.word=w3", place, limits)
                found += more
                assert len(more) <= limits.matches
                if last.go_on is None:
                    break
                place = last.go_on
        assert last.end is ScanEnd.ALL_READ
        assert sorted(found) == list(range(3, 3_000, 10))

    asyncio.run(run())


def test_topic_deleted_under_a_scan_is_told(bootstrap: str, unique: Callable[[str], str]) -> None:
    """CON-173: neither "no records" nor a scan without an end."""

    async def run() -> None:
        topic = unique("deleted")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 3)
            await write(bootstrap, topic, RECORDS)
            rounds = scan(
                viewer, choices(topic), parse_filter("nowhere", 0), budget(), CLOCK, ScanLimits()
            )
            first = await anext(rounds)
            assert first.end is None
            (await viewer.admin.topics.delete([topic])).unwrap()
            async with asyncio.timeout(DEADLINE_SECONDS):
                async for progress in rounds:
                    last = progress
        assert last.end is ScanEnd.PROBLEMS
        assert last.go_on is not None
        assert last.problems

    asyncio.run(run())
