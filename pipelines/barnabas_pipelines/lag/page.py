"""The report as one HTML page: styles inside, charts by them, no script, no address. Pure.

Texts are escaped where they become HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from barnabas_pipelines.lag.findings import (
    SKEW_IS_BAD,
    GroupLag,
    LagFindings,
    PartitionLag,
    TopicTraffic,
    filled,
)
from barnabas_protocol.settings.durations import duration_text
from barnabas_protocol.settings.sizes import size_text

PARTITIONS_MAX: Final = 60
"""Of a group or topic with more partitions, those with most are shown."""
HOLES_MAX: Final = 10
_STYLE: Final = """
:root { --back: #f6f7f9; --card: #fff; --text: #1d2530; --dim: #65707f; --line: #e3e7ec;
  --fill: #2f6fde; --bad: #d1432f; --good: #2b8a4b; --track: #f0f2f5; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --card: #1b2129; --text: #e6eaf0;
  --dim: #8f9bab; --line: #2b333e; --fill: #5b93f5; --bad: #f0705c; --good: #58c27d;
  --track: #232a34; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 28px 20px 60px; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, "Segoe UI", Roboto, Ubuntu, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 12px; }
h3 { font-size: 16px; margin: 0 0 2px; overflow-wrap: anywhere; }
h4 { font-size: 13px; margin: 18px 0 6px; color: var(--dim); font-weight: 600; }
p { margin: 0 0 8px; } .dim { color: var(--dim); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(126px, 1fr)); gap: 12px;
  margin-top: 20px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 16px 18px; margin-bottom: 14px; }
.tiles .card { margin: 0; } .tile { font-size: 20px; white-space: nowrap; font-weight: 650; }
.tile.is-bad, .is-bad { color: var(--bad); } .is-good { color: var(--good); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--dim); font-weight: 600; font-size: 13px; }
th, td { padding: 6px 10px 6px 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
tr:last-child td { border-bottom: 0; } .right { text-align: right; }
.bars { display: grid; grid-template-columns: minmax(20%, auto) 1fr 29%; gap: 8px 11px; }
.name { text-align: right; white-space: nowrap; } .track { background: var(--track); }
.fill, .bad { display: block; background: var(--fill); } .bad { background: var(--bad); }
.track i { height: 100%; }
.columns { display: flex; position: relative; height: 180px; margin: 12px 8px 52px 86px;
  color: var(--dim); white-space: nowrap; } .columns b { position: absolute; font-weight: 400; }
.tick { position: absolute; width: 100%; border-top: 1px solid var(--line); }
.tick b { right: calc(100% + 8px); top: -12px; }
.column { flex: 1; position: relative; z-index: 1; display: flex; align-items: end; }
.column:hover { background: var(--track); } .column i { margin: 0 10%; width: 80%; }
.column b { top: 100%; left: 50%; transform: translate(-50%, 4px); }
footer { margin-top: 36px; font-size: 13px; }
"""


def page(findings: LagFindings) -> str:
    """The whole page."""
    title = f"Lag report of {findings.bootstrap_servers}"
    body = "".join(_body(findings, title))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


def _body(findings: LagFindings, title: str) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    yield f'<p class="dim">{moment(findings.made_at_ms)}'
    if findings.has_traffic:
        yield (
            f", records since {moment(findings.from_ms)}, "
            f"in stretches of {duration_text(findings.bucket_ms)}"
        )
    yield "</p>"
    yield from _tiles(findings)
    yield "<h2>Consumer groups</h2>"
    if not findings.groups:
        yield '<div class="card dim">No group has committed an offset.</div>'
    else:
        yield _table(
            ("group", "state", "members", "lag, records", "oldest unread", "lost"),
            ((_group_cells(group)) for group in findings.groups),
            right_from=2,
        )
    for group in findings.groups:
        # The table has all about those that are up to date.
        if group.lag or group.lost_count or group.gone:
            yield from _group(group)
    if findings.has_traffic:
        yield "<h2>Topics</h2>"
        yield _table(
            ("topic", "partitions", "records", "size", "skew", "missing offsets"),
            (_topic_cells(topic) for topic in findings.topics),
            right_from=1,
        )
        for topic in findings.topics:
            yield from _topic(topic, findings)
    yield (
        '<footer class="dim">Oldest unread: the age of the first record that a group has not read, '
        "by the record's own timestamp. Lost: offsets that were deleted before the group had read "
        "them. Skew: the fullest partition against the average. Missing offsets are normal in "
        "compacted topics and where transactions end. Sizes are of keys, values, headers, before "
        "compression.</footer>"
    )


def _tiles(findings: LagFindings) -> Iterator[str]:
    lag = sum(group.lag for group in findings.groups)
    behind = [group.behind_ms for group in findings.groups if group.behind_ms is not None]
    lost = sum(group.lost_count for group in findings.groups)
    tiles = [
        ("groups", str(len(findings.groups)), False),
        ("records of lag", number(lag), False),
        ("oldest unread", duration_text(max(behind)) if behind else "none", False),
        ("lost", number(lost), lost > 0),
    ]
    if findings.has_traffic:
        records = sum(topic.record_count for topic in findings.topics)
        size_bytes = sum(topic.size_bytes for topic in findings.topics)
        tiles += [
            ("topics", str(len(findings.topics)), False),
            ("records read", number(records), False),
            ("of size", size_text(size_bytes), False),
        ]
    yield '<div class="tiles">'
    for name, value, is_bad in tiles:
        kind = "tile is-bad" if is_bad else "tile"
        yield f'<div class="card"><div class="dim">{name}</div>'
        yield f'<div class="{kind}">{value}</div></div>'
    yield "</div>"


def _group_cells(group: GroupLag) -> list[str]:
    behind = group.behind_ms
    return [
        escape(group.group_id),
        escape(group.state),
        str(group.member_count),
        f"{group.lag:,}",
        duration_text(behind)
        if behind is not None
        else '<span class="is-good">up to date</span>'
        if group.lag == 0
        else "unknown",
        _bad_if(group.lost_count),
    ]


def _group(group: GroupLag) -> Iterator[str]:
    shown = sorted(group.partitions, key=lambda one: (-one.lag, one.topic, one.partition))
    yield f'<div class="card"><h3>{escape(group.group_id)}</h3>'
    yield f'<p class="dim">{_left_out(len(shown), "partitions")}</p>'
    if group.gone:
        names = escape(", ".join(group.gone))
        yield f'<p class="is-bad">It has offsets of topics that do not exist any more: {names}</p>'
    data = [
        (f"{one.topic} [{one.partition}]", one.lag, _lag_text(one), one.lost_count > 0)
        for one in shown[:PARTITIONS_MAX]
    ]
    if data:
        yield bars(data, f"Lag of {group.group_id} by partition")
    yield "</div>"


def _lag_text(one: PartitionLag) -> str:
    parts = [f"{one.lag:,}"]
    if one.behind_ms is not None:
        parts.append(duration_text(one.behind_ms))
    if one.lost_count:
        parts.append(f"{one.lost_count:,} lost")
    return ", ".join(parts)


def _topic_cells(topic: TopicTraffic) -> list[str]:
    skew = f"{topic.skew:.2f}"
    return [
        escape(topic.topic),
        str(len(topic.partitions)),
        f"{topic.record_count:,}",
        size_text(topic.size_bytes),
        f'<span class="is-bad">{skew}</span>' if topic.is_skewed else skew,
        f"{topic.missing_count:,}",
    ]


def _topic(topic: TopicTraffic, findings: LagFindings) -> Iterator[str]:
    yield f'<div class="card"><h3>{escape(topic.topic)}</h3>'
    if not topic.record_count:
        yield '<p class="dim">No records in this time.</p></div>'
        return
    length_ms = findings.bucket_ms
    buckets = filled(topic.buckets, findings.from_ms, findings.until_ms, length_ms)
    seconds = length_ms / 1000
    for name, values, text in (
        ("Records per second", [one.record_count / seconds for one in buckets], number),
        ("Bytes per second", [one.size_bytes / seconds for one in buckets], size_text),
    ):
        yield f"<h4>{name}</h4>"
        data = [
            (
                tick(one.start_ms, length_ms),
                value,
                f"{moment(one.start_ms)}: {one.record_count:,} records, "
                f"{size_text(one.size_bytes)}; {text(value)}/s",
            )
            for one, value in zip(buckets, values, strict=True)
        ]
        yield columns(data, text, f"{name} of {topic.topic}")
    yield from _partitions(topic)
    yield from _holes(topic)
    yield "</div>"


def _partitions(topic: TopicTraffic) -> Iterator[str]:
    shown = list(topic.partitions)
    if len(shown) > PARTITIONS_MAX:
        shown.sort(key=lambda one: -one.record_count)
    average = topic.record_count / len(topic.partitions)
    yield f"<h4>Partitions: {_left_out(len(shown))}</h4>"
    data = [
        (
            f"partition {one.partition}",
            one.record_count,
            f"{one.record_count:,}, {size_text(one.size_bytes)}, "
            f"{one.record_count / topic.record_count:.1%}",
            topic.is_skewed and one.record_count >= SKEW_IS_BAD * average,
        )
        for one in shown[:PARTITIONS_MAX]
    ]
    yield bars(data, f"Records of {topic.topic} by partition")


def _holes(topic: TopicTraffic) -> Iterator[str]:
    if not topic.missing_count:
        return
    yield f"<h4>Missing offsets: {topic.missing_count:,}; the widest gaps</h4>"
    widest = sorted(topic.holes, key=lambda hole: -hole.offset_count)[:HOLES_MAX]
    yield _table(
        ("partition", "from offset", "to", "offsets"),
        (
            [str(hole.partition), f"{hole.first:,}", f"{hole.end - 1:,}", f"{hole.offset_count:,}"]
            for hole in widest
        ),
        right_from=1,
    )


def _left_out(count: int, words: str = "") -> str:
    if count <= PARTITIONS_MAX:
        return f"{count} {words}".strip()
    return f"the first {PARTITIONS_MAX} of {count} {words}".strip()


def _bad_if(count: int) -> str:
    return f'<span class="is-bad">{count:,}</span>' if count else "0"


def _table(heads: Iterable[str], rows: Iterable[list[str]], *, right_from: int) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th{_side(at, right_from)}>{one}</th>" for at, one in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(f"<td{_side(at, right_from)}>{cell}</td>" for at, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f'<div class="card"><table><tr>{head}</tr>{body}</table></div>'


def _side(at: int, right_from: int) -> str:
    return ' class="right"' if at >= right_from else ""


_TICKS: Final = 4
_LABELS_WANTED: Final = 6
_LAST_LABEL: Final = 0.94
"""Of the width: behind it a label would stand out."""


def columns(
    data: Sequence[tuple[str, float, str]], text: Callable[[float], str], title: str
) -> str:
    """A chart of columns: what stands below, the height, a hint; the scale begins at 0."""
    top = ceiling(max((value for _, value, _ in data), default=0))
    every = max(1, math.ceil(len(data) / _LABELS_WANTED))
    parts = [
        f'<span class="tick" style="bottom:{step / _TICKS:.0%}"><b>'
        f"{escape(text(top * step / _TICKS))}</b></span>"
        for step in range(_TICKS + 1)
    ]
    for at, (label, value, hint) in enumerate(data):
        is_labelled = at % every == 0 and (at + 0.5) / len(data) < _LAST_LABEL
        below = f"<b>{escape(label)}</b>" if is_labelled else ""
        parts.append(
            f'<span class="column" title="{escape(hint)}">'
            f'<i class="fill" style="height:{value / top:.2%}"></i>{below}</span>'
        )
    return _chart("columns", title, parts)


def bars(data: Sequence[tuple[str, float, str, bool]], title: str) -> str:
    """A chart of bars: the name, the length, the text behind it, whether it is a bad one."""
    top = max((value for _, value, _, _ in data), default=0) or 1
    return _chart(
        "bars",
        title,
        (
            f'<span class="name" title="{escape(name)}">{escape(_short(name))}</span>'
            '<span class="track">'
            f'<i class="{"bad" if is_bad else "fill"}" style="width:{value / top:.2%}"></i></span>'
            f"<span>{escape(text)}</span>"
            for name, value, text, is_bad in data
        ),
    )


def _chart(kind: str, title: str, parts: Iterable[str]) -> str:
    return f'<div class="{kind}" role="img" aria-label="{escape(title)}">{"".join(parts)}</div>'


def ceiling(value: float) -> float:
    """The least round number that is not below: 1, 2, 4, 5 or 10 times a power of ten; never 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for factor in (1, 2, 4, 5, 10):
        if value <= factor * power * (1 + 1e-9):
            return factor * power
    return 10 * power


def _short(name: str) -> str:
    """A name that fits before a bar."""
    longest = 22
    return name if len(name) <= longest else f"{name[:8]}…{name[-(longest - 9) :]}"


_LARGE: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_DAY_MS: Final = 86_400_000


def number(value: float) -> str:
    """1234567 as 1.23M."""
    for size, unit in _LARGE:
        if abs(value) >= size:
            return f"{_three(value / size)}{unit}"
    return _three(value)


def moment(at_ms: int) -> str:
    """A time in UTC to the second."""
    return f"{_utc(at_ms):%Y-%m-%d %H:%M:%S} UTC"


def tick(at_ms: int, bucket_ms: int) -> str:
    """A time as a chart's axis has it."""
    if bucket_ms >= _DAY_MS:
        return f"{_utc(at_ms):%d %b}"
    if bucket_ms < 60_000:
        return f"{_utc(at_ms):%H:%M:%S}"
    return f"{_utc(at_ms):%d %b %H:%M}" if bucket_ms >= 3_600_000 else f"{_utc(at_ms):%H:%M}"


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC)


def _three(value: float) -> str:
    """Three digits, without zeros at the end."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")
