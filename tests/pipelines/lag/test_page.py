"""The page: whole HTML, nothing from elsewhere, names that cannot leave their place."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from barnabas_pipelines.lag.findings import (
    Bucket,
    GroupLag,
    Hole,
    LagFindings,
    PartitionLag,
    PartitionTraffic,
    TopicTraffic,
)
from barnabas_pipelines.lag.page import (
    bars,
    ceiling,
    columns,
    moment,
    number,
    page,
    tick,
)
from barnabas_pipelines.lag.tables import as_json, group_table, topic_table

EVIL = '<script>alert("x")</script>&'
HOUR_MS = 3_600_000
AT_MS = 1_780_000_000_000
VOID = {"meta"}

GROUP = GroupLag(
    group_id="billing",
    state="Stable",
    member_count=2,
    partitions=(
        PartitionLag(topic="orders", partition=0, committed=5, start=10, end=100, behind_ms=61_000),
        PartitionLag(topic="orders", partition=1, committed=100, start=0, end=100),
    ),
    gone=("old-orders",),
)
TOPIC = TopicTraffic(
    topic="orders",
    partitions=(
        PartitionTraffic(partition=0, record_count=900, size_bytes=90_000, missing_count=7),
        PartitionTraffic(partition=1, record_count=10, size_bytes=1_000),
        PartitionTraffic(partition=2),
    ),
    buckets=(Bucket(start_ms=AT_MS - HOUR_MS, record_count=910, size_bytes=91_000),),
    holes=(Hole(partition=0, first=40, end=47),),
)
FINDINGS = LagFindings(
    bootstrap_servers="kafka:9092",
    made_at_ms=AT_MS,
    from_ms=AT_MS - 6 * HOUR_MS,
    until_ms=AT_MS,
    bucket_ms=HOUR_MS,
    groups=(GROUP,),
    topics=(TOPIC,),
)


class Balance(HTMLParser):
    """Fails where an element is closed that is not the open one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        for name, value in attrs:
            assert name not in ("src", "href", "onload"), (tag, name, value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(text: str) -> Balance:
    balance = Balance()
    balance.feed(text)
    balance.close()
    assert balance.open == []
    return balance


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    """It is mailed, archived, opened where there is no network."""
    text = page(FINDINGS)
    seen = parsed(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(seen.seen)
    assert not re.search(r"https?:|url\(|@import|//[a-z]", text)
    assert '<div class="columns"' in text
    assert '<div class="bars"' in text


def test_the_page_tells_what_was_found() -> None:
    told = parsed(page(FINDINGS)).text
    for words in (
        "Lag report of kafka:9092",
        "billing",
        "1 min 1 s",
        "90, 1 min 1 s, 5 lost",
        "old-orders",
        "2.97",
        "98.9%",
        "Missing offsets: 7",
    ):
        assert words in told, words


def test_names_stay_text() -> None:
    """Whoever may make a topic or a group must not run a script in an operator's browser."""
    evil_group = replace(
        GROUP,
        group_id=EVIL,
        state=EVIL,
        gone=(EVIL,),
        partitions=(replace(GROUP.partitions[0], topic=EVIL),),
    )
    evil_topic = replace(TOPIC, topic=EVIL)
    findings = replace(FINDINGS, groups=(evil_group,), topics=(evil_topic,), bootstrap_servers=EVIL)
    seen = parsed(page(findings))
    assert "script" not in seen.seen
    assert EVIL in seen.text


def test_an_empty_cluster_has_a_page_too() -> None:
    empty = replace(FINDINGS, groups=(), topics=())
    assert "No group has committed an offset" in parsed(page(empty)).text
    silent = replace(FINDINGS, topics=(replace(TOPIC, partitions=(), buckets=()),))
    assert "No records in this time" in parsed(page(silent)).text
    without = parsed(page(replace(FINDINGS, topics=(), has_traffic=False)))
    assert "Topics" not in without.text


def test_a_group_that_is_up_to_date_is_a_row_and_no_chart() -> None:
    """A hundred groups with nothing to say would hide the one with something."""
    done = replace(GROUP, partitions=GROUP.partitions[1:], gone=())
    text = page(replace(FINDINGS, groups=(done,), topics=()))
    assert "up to date" in parsed(text).text
    assert '<div class="bars"' not in text


def test_many_partitions_are_cut_to_those_that_matter() -> None:
    """A page with ten thousand bars is none."""
    many = tuple(replace(GROUP.partitions[0], partition=at, end=100 + at) for at in range(500))
    seen = parsed(page(replace(FINDINGS, groups=(replace(GROUP, partitions=many),), topics=())))
    assert "the first 60 of 500 partitions" in seen.text
    assert "orders [499]" in seen.text
    assert "orders [7]" not in seen.text


def sizes(chart: str, kind: str) -> list[float]:
    """The lengths of the marks of a chart, in percent; it is well formed."""
    marks = [one for one in ElementTree.fromstring(chart).iter("i") if one.get("class") == kind]
    return [float(re.findall(r"([0-9.]+)%", one.get("style", ""))[0]) for one in marks]


def test_a_chart_of_columns_is_well_formed_and_to_scale() -> None:
    data = [(f"<{at}>", value, "h") for at, value in enumerate((0, 3, 8))]
    heights = sizes(columns(data, number, 'a "title"'), "fill")
    assert heights[0] == 0
    assert heights[2] == pytest.approx(heights[1] * 8 / 3, rel=0.01)
    assert max(heights) <= 100


def test_a_chart_of_bars_is_well_formed_and_to_scale() -> None:
    chart = bars([("a&b" * 20, 10, "<10>", True), ("b", 5, "", False)], "t")
    assert sizes(chart, "bad") == [100]
    assert sizes(chart, "fill") == [50]


def test_charts_of_nothing_are_charts() -> None:
    """A topic that was silent has columns of height 0, and no division by it."""
    assert sizes(columns([], number, "t"), "fill") == []
    assert sizes(columns([("a", 0, "")], number, "t"), "fill") == [0]
    assert sizes(bars([("a", 0, "0", False)], "t"), "fill") == [0]


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 1), (0.3, 0.4), (1, 1), (1.01, 2), (42, 50), (61, 100), (400, 400)]
)
def test_scales_end_at_round_numbers(value: float, expected: float) -> None:
    assert ceiling(value) == pytest.approx(expected)


def test_numbers_are_written_for_people() -> None:
    assert [number(one) for one in (0, 0.5, 12.34, 999, 1234, 5_600_000)] == [
        "0",
        "0.5",
        "12.3",
        "999",
        "1.23k",
        "5.6M",
    ]
    assert moment(AT_MS) == "2026-05-28 20:26:40 UTC"
    assert [tick(AT_MS, one) for one in (1000, 60_000, HOUR_MS, 24 * HOUR_MS)] == [
        "20:26:40",
        "20:26",
        "28 May 20:26",
        "28 May",
    ]


def test_a_name_on_the_terminal_is_no_markup() -> None:
    """Whoever may commit offsets chooses the name of a group: it ended every report."""
    named = replace(FINDINGS, groups=(replace(GROUP, group_id="[/red]"),))
    console = Console(file=StringIO(), width=120)
    console.print(group_table(named))
    assert isinstance(console.file, StringIO)
    assert "[/red]" in console.file.getvalue()


def test_the_terminal_and_programs_are_told_the_same() -> None:
    console = Console(file=StringIO(), width=120)
    console.print(group_table(FINDINGS))
    console.print(topic_table(FINDINGS))
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    for words in ("billing", "1 min 1 s", "orders", "910", "2.97", "last 6 h"):
        assert words in shown
    document = json.loads(as_json(FINDINGS))
    assert document["groups"][0]["lag"] == 90
    assert document["groups"][0]["partitions"][0]["lost_count"] == 5
    assert document["topics"][0]["skew"] == pytest.approx(2.967, rel=0.001)
