"""Why a group does not get on: a table of rules over what was seen of it (CON-119). Pure.

Each rule that holds is a finding in words, with what to do and a command that shows or does it. The
worst comes first, among equals in the order of the table; the last rule holds where no other does.

Not here: looking at groups (`group_observation.py`), and remembering what they did
(`group_watch.py`): rules about movement hold only for a group that was looked at several times.

Invariant: what is not known is never called fine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from barnabas_client.facts.command_lines import command_line
from barnabas_client.facts.group_observation import GroupObservation, OpenTransaction
from barnabas_client.facts.group_watch import UNWATCHED, GroupMovement
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.settings.durations import duration_text

#: A younger transaction is as transactions are.
OPEN_TRANSACTION_MS = 15_000
#: Members that start together make two or three rebalances.
REBALANCES_MIN = 4
#: Of the last one: what is over is over.
REBALANCE_RECENT_MS = 90_000
#: Longer than any rebalance with default settings takes to begin.
REBALANCING_MS = 60_000
#: Members with default settings commit every five seconds; less lag than comes meanwhile is none.
COMMIT_INTERVAL_SECONDS = 5
_NAMES_MAX = 3


class State(StrEnum):
    """How bad it is, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    UNKNOWN = "unknown"
    WORKING = "working"
    FINE = "fine"


_SEVERITY = {state: number for number, state in enumerate(State)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing about a group: what is so, what to do, and the command for that.

    `place` and `offset` name a record where one is to be looked at.
    """

    rule: str
    state: State
    evidence: str
    next: str = ""
    command: str = ""
    place: TopicPartition | None = None
    offset: int | None = None

    def as_data(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "rule": self.rule,
            "state": str(self.state),
            "evidence": self.evidence,
            "next": self.next,
            "command": self.command,
            "topic": None if self.place is None else self.place.topic,
            "partition": None if self.place is None else self.place.partition,
            "offset": self.offset,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What a rule looks at; `now_ms` is the wall clock's."""

    group: GroupObservation
    movement: GroupMovement
    lags: dict[TopicPartition, int]
    now_ms: int

    @property
    def lag(self) -> int:
        return sum(self.lags.values())

    @property
    def noun(self) -> str:
        """The command's word for such groups."""
        return "share" if self.group.is_share else "group"

    def describe(self, *options: str) -> str:
        """The command that shows the group."""
        return command_line(f"{self.noun} describe", self.group.group_id, options=options)


Rule = Callable[[_Case], Finding | None]


def diagnose(
    group: GroupObservation, now_ms: int, movement: GroupMovement = UNWATCHED
) -> list[Finding]:
    """What there is to say of a group, the most important first; never nothing."""
    case = _Case(group=group, movement=movement, lags=group.lags, now_ms=now_ms)
    found = [finding for rule in RULES if (finding := rule(case)) is not None]
    found.sort(key=lambda finding: _SEVERITY[finding.state])
    return found or [_nothing_wrong(case)]


def _no_members(case: _Case) -> Finding | None:
    group = case.group
    if group.members or group.state in _GATHERING:
        return None
    if not case.lag:
        is_known = all(place in case.lags for place in group.places)
        return Finding(
            rule="no_members",
            state=State.FINE if is_known else State.UNKNOWN,
            evidence="No members, and nothing left to read." if is_known else "No members.",
        )
    wait = "waits" if case.lag == 1 else "wait"
    return Finding(
        rule="no_members",
        state=State.WARNING,
        evidence=f"No members: {_records(case.lag)} {wait} in {_partitions(_behind(case))}.",
        next="Start a consumer of this group.",
        command=case.describe(),
    )


def _idle_member(case: _Case) -> Finding | None:
    group = case.group
    idle = [member.client_id for member in group.members if not member.assignment]
    if not idle or group.is_share or group.state != "Stable":
        return None
    count = len({place for member in group.members for place in member.assignment})
    command = case.describe("--members")
    if not count:
        return Finding(
            rule="idle_member",
            state=State.WARNING,
            evidence=f"{_counted(len(idle), 'member')} and no partition ({_some(idle)}).",
            next="The topics that they subscribe to are not there, or nobody may read them.",
            command=command,
        )
    who = "a member" if len(idle) == 1 else f"{len(idle)} members"
    return Finding(
        rule="idle_member",
        state=State.WARNING if case.lag else State.FINE,
        evidence=(
            f"{_counted(len(group.members), 'member')} for {_counted(count, 'partition')}:"
            f" {who} without one ({_some(idle)})."
        ),
        next="More members do not help: only more partitions would.",
        command=command,
    )


def _rebalancing(case: _Case) -> Finding | None:
    movement = case.movement
    is_long = movement.rebalancing_ms >= REBALANCING_MS
    is_often = (
        movement.rebalance_count >= REBALANCES_MIN
        and movement.since_rebalance_ms is not None
        and movement.since_rebalance_ms <= REBALANCE_RECENT_MS
    )
    if not is_long and not is_often:
        return None
    what = (
        f"Rebalanced {movement.rebalance_count} times in five minutes"
        if is_often
        else f"In a rebalance for {duration_text(movement.rebalancing_ms)}"
    )
    went = [f"{_some(names)} {verb}" for names, verb in _came_and_went(movement) if names]
    return Finding(
        rule="rebalancing",
        state=State.WARNING,
        evidence=what + (f": {', '.join(went)}." if went else "."),
        next="Members stop, or take longer between two polls than max.poll.interval.ms.",
        command=case.describe(*_members(case)),
    )


def _leader_away(case: _Case) -> Finding | None:
    away = sorted(case.group.leaderless)
    if not away:
        return None
    return Finding(
        rule="leader_away",
        state=State.CRITICAL,
        evidence=f"No leader for {_partitions(away)}: nobody can read or write there.",
        next="Start the brokers that hold its replicas.",
        command=command_line("topic describe", away[0].topic),
    )


def _commit_gone(case: _Case) -> Finding | None:
    group = case.group
    lost = {
        place: group.starts[place] - offset
        for place, offset in group.committed.items()
        if place in group.starts and offset < group.starts[place]
    }
    beyond = [
        place
        for place, offset in group.committed.items()
        if place in group.ends and offset > group.ends[place]
    ]
    if group.is_share or not (lost or beyond):
        return None
    if not lost:
        place = min(beyond)
        evidence = (
            f"{place} ends at {_number(group.ends[place])}, before the commit"
            f" {_number(group.committed[place])}: records were lost or the topic made anew."
        )
    else:
        place = max(lost, key=lambda one: (lost[one], one))
        more = f", and of {_counted(len(lost) - 1, 'partition')} more" if len(lost) > 1 else ""
        evidence = (
            f"{_records(lost[place])} of {place}{more} went by retention before they were read:"
            f" committed is {_number(group.committed[place])}, the first record is"
            f" {_number(group.starts[place])}."
        )
    return Finding(
        rule="commit_gone",
        state=State.CRITICAL,
        evidence=evidence,
        next="auto.offset.reset says where members go on; a reset sets it for all.",
        command=command_line("group reset", group.group_id, options=["--to-earliest"]),
        place=place,
        offset=group.starts.get(place),
    )


def _open_transaction(case: _Case) -> Finding | None:
    old = [
        (one, case.now_ms - one.since_ms)
        for one in case.group.open_transactions
        if one.since_ms is not None and case.now_ms - one.since_ms >= OPEN_TRANSACTION_MS
    ]
    if not old:
        return None
    one, age_ms = max(old, key=lambda pair: pair[1])
    name = _transaction(one)
    places = sorted({held.place for held, _ in old})
    command = command_line("transaction hanging")
    if not one.is_hanging and one.transactional_id is not None:
        command = command_line("transaction describe", one.transactional_id)
    return Finding(
        rule="open_transaction",
        state=State.CRITICAL if one.is_hanging else State.WARNING,
        evidence=(
            f"{_partitions(places)} held back at {_number(one.start_offset)} by {name},"
            f" open for {duration_text(age_ms)}."
        ),
        next=(
            "No coordinator is going to end it: abort it."
            if one.is_hanging
            else "Its producer commits or aborts it, or its coordinator after the timeout."
        ),
        command=command,
        place=one.place,
        offset=one.start_offset,
    )


def _standing_still(case: _Case) -> Finding | None:
    group, standing = case.group, case.movement.standing_ms
    if not standing:
        return None
    place = max(standing, key=lambda one: (standing[one], one))
    owners = sorted({one.client_id for one in group.members if place in one.assignment})
    arriving = case.movement.arriving_by_place.get(place)
    come = f"{_rate(arriving)} come" if arriving else "records come"
    offset = max(group.committed[place], group.starts.get(place, 0))
    more = f" So do {_counted(len(standing) - 1, 'partition')} more." if len(standing) > 1 else ""
    return Finding(
        rule="standing_still",
        state=State.CRITICAL,
        evidence=(
            f"{place} has stood at {_number(offset)} for {duration_text(standing[place])} while"
            f" {come}; {f'{_some(owners)} holds it' if owners else 'no member holds it'}.{more}"
        ),
        next="Look at the record it stands at, and at what the member logs about it.",
        command=command_line(
            "consume",
            place.topic,
            options=[
                *("--partition", str(place.partition)),
                *("--offset", str(offset), "--max-records", "1"),
            ],
        ),
        place=place,
        offset=offset,
    )


def _slower(case: _Case) -> Finding | None:
    movement = case.movement
    arriving, reading = movement.arriving, movement.reading
    before, after = movement.low_before, movement.low_after
    if arriving is None or reading is None or before is None or after is None:
        return None
    is_growing = after - before > arriving * COMMIT_INTERVAL_SECONDS
    if not case.group.members or movement.standing_ms or reading >= arriving or not is_growing:
        return None
    return Finding(
        rule="slower",
        state=State.WARNING,
        evidence=(
            f"{_rate(arriving)} come and {_rate(reading)} are read: {_records(case.lag)} behind,"
            " and more every second."
        ),
        next="More members, up to one a partition, or a faster one.",
        command=case.describe(*_members(case)),
    )


def _unknown(case: _Case) -> Finding | None:
    group = case.group
    missing = [
        place for place in group.places if place not in case.lags and place not in group.leaderless
    ]
    unread = [place for place in missing if place in group.committed]
    if unread:
        return Finding(
            rule="unknown",
            state=State.UNKNOWN,
            evidence=f"No broker tells where {_partitions(unread)} end.",
            next="The topic was deleted, or its leader does not respond.",
            command=command_line("topic describe", unread[0].topic),
        )
    filled = [place for place in missing if group.ends.get(place, 0) > group.starts.get(place, 0)]
    if filled and not group.is_share:
        return Finding(
            rule="unknown",
            state=State.UNKNOWN,
            evidence=f"Nothing is committed for {_partitions(filled)}: its lag is not known.",
            next="Its members keep offsets elsewhere, or have not committed yet.",
            command=case.describe(),
        )
    if not case.lag or case.movement.arriving is not None or not case.group.members:
        return None
    return Finding(
        rule="unknown",
        state=State.UNKNOWN,
        evidence=(
            f"{_records(case.lag)} behind; one look does not tell whether the group catches up."
        ),
        next="Watch it for some seconds.",
        command=case.describe("--watch", "30s"),
    )


def _nothing_wrong(case: _Case) -> Finding:
    arriving, reading = case.movement.arriving, case.movement.reading
    if not case.lag:
        words = "Nothing wrong: everything is read."
        return Finding(rule="nothing_wrong", state=State.FINE, evidence=words)
    if arriving is None or reading is None or reading <= arriving:
        words = f"Nothing wrong: {_records(case.lag)} behind, and not more than before."
        return Finding(rule="nothing_wrong", state=State.FINE, evidence=words)
    left_ms = round(case.lag / (reading - arriving)) * 1000
    return Finding(
        rule="nothing_wrong",
        state=State.WORKING,
        evidence=(
            f"Nothing wrong: it catches up, {_records(case.lag)} behind,"
            f" about {duration_text(max(left_ms, 1000))} left."
        ),
    )


#: The order of CON-119; the first that holds is told first among those that are as bad.
RULES: tuple[Rule, ...] = (
    _no_members,
    _idle_member,
    _rebalancing,
    _leader_away,
    _commit_gone,
    _open_transaction,
    _standing_still,
    _slower,
    _unknown,
)

# Members are on their way.
_GATHERING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning"})


def _came_and_went(movement: GroupMovement) -> tuple[tuple[tuple[str, ...], str], ...]:
    return ((movement.left, "left"), (movement.joined, "joined"))


def _transaction(one: OpenTransaction) -> str:
    if one.transactional_id is not None:
        return f"the transaction of {one.transactional_id}"
    return f"a transaction of producer {one.producer_id}"


def _members(case: _Case) -> tuple[str, ...]:
    return () if case.group.is_share else ("--members",)


def _behind(case: _Case) -> list[TopicPartition]:
    return sorted(place for place, lag in case.lags.items() if lag)


def _partitions(places: list[TopicPartition]) -> str:
    """The first of them by name."""
    return _some([str(place) for place in places])


def _some(names: Iterable[str]) -> str:
    """Some names and how many more there are."""
    listed = list(names)
    shown = ", ".join(listed[:_NAMES_MAX])
    more = len(listed) - _NAMES_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _counted(count: int, noun: str) -> str:
    return f"{_number(count)} {noun}{'' if count == 1 else 's'}"


def _records(count: int) -> str:
    return _counted(count, "record")


def _number(value: int) -> str:
    return f"{value:,}"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.2g}/s"
