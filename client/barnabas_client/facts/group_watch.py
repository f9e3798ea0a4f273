"""How groups move: rates, lag that grows, members that come and go, commits that stand still.

Pure but for its memory, some numbers a look: whoever looks at a group again and again hands in what
was seen. The time is an argument.

Invariant: nothing is said of a group from one look; rates are of all looks of the last minutes, so
that commits in bursts do not look like trouble.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas_client.facts.group_observation import GroupObservation
from barnabas_client.facts.progress_watch import ProgressWatch
from barnabas_protocol.ids import TopicPartition

#: What rates and counts are about.
WINDOW_MS = 300_000
# An hour's worth of looks by ten seconds is not needed; who looks more often keeps the last ones.
_LOOKS_MAX = 64
_WIDTH = 4
"""Numbers of a look."""
# Members that joined or left, to be named.
_NAMES_MAX = 5
_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMovement:
    """What several looks at a group tell.

    Rates are records per second over `watched_ms`, None before there were two looks, those that end
    in `_now` since the look before; `low_before` and `low_after` the lowest lag in the first and in
    the second half of that time. `standing_ms` has the partitions that the group is stuck at, and
    for how long it has been seen there.
    """

    watched_ms: int = 0
    arriving: float | None = None
    reading: float | None = None
    arriving_now: float | None = None
    reading_now: float | None = None
    low_before: int | None = None
    low_after: int | None = None
    standing_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    arriving_by_place: Mapping[TopicPartition, float] = field(default_factory=dict)
    rebalance_count: int = 0
    since_rebalance_ms: int | None = None
    rebalancing_ms: int = 0
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


#: Of a group that was looked at once.
UNWATCHED = GroupMovement()


class _Look(NamedTuple):
    """Sums over the partitions whose offsets were known."""

    at_ms: int
    end: int
    committed: int
    lag: int


class _Looks:
    """The looks within `WINDOW_MS`, at most `_LOOKS_MAX`, the oldest first.

    Their numbers are in one array: of a thousand groups there are thirty thousand looks.
    """

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("q")

    def __len__(self) -> int:
        return len(self._numbers) // _WIDTH

    def __getitem__(self, place: int) -> _Look:
        first = (place if place >= 0 else len(self) + place) * _WIDTH
        return _Look(*self._numbers[first : first + _WIDTH])

    def add(self, look: _Look) -> None:
        self._numbers.extend(look)
        times = self._numbers[_Look._fields.index("at_ms") :: _WIDTH]
        kept_from = max(bisect_left(times, look.at_ms - WINDOW_MS), len(times) - _LOOKS_MAX)
        del self._numbers[: kept_from * _WIDTH]

    def lags(self) -> array[int]:
        return self._numbers[_Look._fields.index("lag") :: _WIDTH]

    def clear(self) -> None:
        del self._numbers[:]


@dataclass(slots=True)
class _Watched:
    """What is kept of one group: little, since there may be thousands (CON-174)."""

    looks: _Looks = field(default_factory=_Looks)
    counted: frozenset[TopicPartition] = frozenset()
    """The partitions that the looks are sums of."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """As they were handed in last: one mapping for many groups."""
    member_ids: Mapping[str, str] | None = None
    group_epoch: int | None = None
    changes_ms: tuple[int, ...] = ()
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    rebalancing_since_ms: int | None = None


class GroupWatch:
    """The groups of one cluster, over time."""

    def __init__(self) -> None:
        self._progress = ProgressWatch()
        self._groups: dict[str, _Watched] = {}

    def __len__(self) -> int:
        """How many groups are remembered."""
        return len(self._groups)

    def observe(self, group: GroupObservation, now_ms: int) -> GroupMovement:
        """Remember this look; what it and the ones before tell."""
        watched = self._groups.setdefault(group.group_id, _Watched())
        standing = self._progress.stuck(
            group.group_id,
            group.committed,
            {place: group.ends[place] for place in group.committed if place in group.ends},
            now_ms,
            has_members=bool(group.members),
        )
        _see_members(watched, group, now_ms)
        lags = group.lags
        counted = frozenset(place for place in lags if place in group.ends)
        rates = _arrivals(watched, group, counted, now_ms)
        # Sums over other partitions cannot be compared: begin anew.
        if watched.counted != counted:
            watched.looks.clear()
            watched.counted = counted
        watched.looks.add(_look(group, lags, counted, now_ms))
        watched.ends = group.ends
        return _movement(watched, now_ms, standing, rates)

    def forget_others(self, group_ids: Collection[str]) -> None:
        """Free what is kept for groups that there are no more."""
        self._progress.forget_others(group_ids)
        for gone in self._groups.keys() - set(group_ids):
            del self._groups[gone]


def _look(
    group: GroupObservation,
    lags: Mapping[TopicPartition, int],
    counted: Collection[TopicPartition],
    now_ms: int,
) -> _Look:
    return _Look(
        now_ms,
        sum(group.ends[place] for place in counted),
        sum(group.ends[place] - lags[place] for place in counted),
        sum(lags.values()),
    )


def _arrivals(
    watched: _Watched,
    group: GroupObservation,
    counted: Collection[TopicPartition],
    now_ms: int,
) -> dict[TopicPartition, float]:
    """Records per second that came to each partition since the look before."""
    if not watched.looks or now_ms <= watched.looks[-1].at_ms:
        return {}
    seconds = (now_ms - watched.looks[-1].at_ms) / 1000
    before = watched.ends
    return {
        place: (group.ends[place] - before[place]) / seconds
        for place in counted
        if place in watched.counted and group.ends[place] >= before[place]
    }


def _see_members(watched: _Watched, group: GroupObservation, now_ms: int) -> None:
    """Count a rebalance where members have changed, or the epoch that the broker counts."""
    members = {member.member_id: member.client_id for member in group.members}
    before = watched.member_ids
    if before is not None:
        joined = [members[one] for one in members.keys() - before.keys()]
        left = [before[one] for one in before.keys() - members.keys()]
        watched.joined = (*watched.joined, *sorted(joined))[-_NAMES_MAX:]
        watched.left = (*watched.left, *sorted(left))[-_NAMES_MAX:]
        is_moved = group.group_epoch is not None and group.group_epoch != watched.group_epoch
        if joined or left or is_moved:
            watched.changes_ms = (*watched.changes_ms, now_ms)[-_LOOKS_MAX:]
    if watched.changes_ms and now_ms - watched.changes_ms[0] > WINDOW_MS:
        watched.changes_ms = tuple(at for at in watched.changes_ms if now_ms - at <= WINDOW_MS)
    if not watched.changes_ms:
        watched.joined = watched.left = ()
    if group.state not in _REBALANCING:
        watched.rebalancing_since_ms = None
    elif watched.rebalancing_since_ms is None:
        watched.rebalancing_since_ms = now_ms
    watched.member_ids, watched.group_epoch = members, group.group_epoch


def _movement(
    watched: _Watched,
    now_ms: int,
    standing: Mapping[TopicPartition, int],
    rates: Mapping[TopicPartition, float],
) -> GroupMovement:
    first, last = watched.looks[0], watched.looks[-1]
    before = watched.looks[-2] if len(watched.looks) > 1 else last
    span_ms = last.at_ms - first.at_ms
    is_known = span_ms > 0 and bool(watched.counted)
    middle = len(watched.looks) // 2
    lags = watched.looks.lags()
    began_ms = watched.rebalancing_since_ms
    return GroupMovement(
        watched_ms=span_ms,
        arriving=_per_second(last.end - first.end, span_ms) if is_known else None,
        reading=_per_second(last.committed - first.committed, span_ms) if is_known else None,
        arriving_now=_per_second(last.end - before.end, last.at_ms - before.at_ms),
        reading_now=_per_second(last.committed - before.committed, last.at_ms - before.at_ms),
        low_before=min(lags[:middle]) if is_known else None,
        low_after=min(lags[middle:]) if is_known else None,
        standing_ms={place: now_ms - since for place, since in standing.items()},
        arriving_by_place=rates,
        rebalance_count=len(watched.changes_ms),
        since_rebalance_ms=now_ms - watched.changes_ms[-1] if watched.changes_ms else None,
        rebalancing_ms=0 if began_ms is None else now_ms - began_ms,
        joined=watched.joined,
        left=watched.left,
    )


def _per_second(count: int, span_ms: int) -> float | None:
    return max(count, 0) * 1000 / span_ms if span_ms > 0 else None
