"""Which events get a line of the audit log: not the same one more than once a second. Pure.

The first of several gets its line at once; the others are counted, and told by one line when a
second is over. What is allowed is told once in an hour for each principal, operation and resource.

Everything is bounded: events that differ, lines that wait, lines a second of one principal, so that
a stranger who asks for thousands of names hides nobody else's denial. What is done, what is allowed
and what is refused are bounded each by itself, so that nobody hides a change behind refusals of his
own. The names of failed log-ins are the client's to invent: those are bounded by address. What is
not told is counted, and told as a number; an access without a line may get one later in the hour.

Source: SEC-71. Not here: where lines go (`audit_writer`), the text of one (`audit_event`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from barnabas_broker.env.clock import Clock
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.security.audit.audit_event import (
    AuditEvent,
    AuditKind,
    AuditOutcome,
    AuditSource,
    cut,
    line_of,
    shortened,
)

AUDIT_LOGGER: Final = "barnabas.audit"
"""The name of the logger that gets the lines, where no file does."""
WAITING_MAX: Final = 5_000
"""Lines that are not written yet."""
RECENT_MAX: Final = 5_000
"""Events of the last second that differ."""
LINES_OF_PRINCIPAL_MAX: Final = 100
"""Lines a second of what one principal is refused."""
DONE_LINES_OF_PRINCIPAL_MAX: Final = 1_000
"""Lines a second of what one principal has done, and as many of what it was allowed."""
PRINCIPALS_MAX: Final = 1_000
"""Principals with events of one outcome in one second."""
ACCESSES_MAX: Final = 20_000
"""Accesses of an hour that are told once."""
ACCESSES_OF_PRINCIPAL_MAX: Final = 5_000
"""The same of one principal."""
SECOND_MS: Final = 1_000
HOUR_MS: Final = 3_600_000


class WaitingLine(NamedTuple):
    """A line that is to be written, as it will be made."""

    event: AuditEvent
    wall_ms: int
    repeated: int


class _Recent:
    """An event that has a line, and how often it has happened since."""

    __slots__ = ("event", "repeated", "told_ms")

    def __init__(self, event: AuditEvent, told_ms: int) -> None:
        self.event = event
        self.told_ms = told_ms
        self.repeated = 0


class AuditLog:
    """The events of one broker."""

    __slots__ = (
        "_accesses",
        "_accesses_of",
        "_clock",
        "_dropped_untold",
        "_hour",
        "_node_id",
        "_of_principals",
        "_recent",
        "_second_began_ms",
        "_waiting",
        "dropped_count",
        "event_count",
        "on_waiting",
    )

    def __init__(self, clock: Clock, node_id: int) -> None:
        self._clock = clock
        self._node_id = node_id
        self._waiting: deque[WaitingLine] = deque()
        self._recent: dict[tuple[object, ...], _Recent] = {}
        self._of_principals: dict[AuditOutcome, dict[str, int]] = {}
        self._second_began_ms = clock.monotonic_ms()
        self._accesses: set[int] = set()
        self._accesses_of: dict[str, int] = {}
        self._hour = clock.monotonic_ms() // HOUR_MS
        self._dropped_untold = 0
        self.dropped_count = 0
        self.event_count = 0
        self.on_waiting = _nobody

    def note(self, event: AuditEvent) -> None:
        """Take an event, which gets a line now, or is counted in a later one.

        Not for accesses that are allowed: see `note_access`.
        """
        self.event_count += 1
        event = shortened(event)
        now_ms = self._clock.monotonic_ms()
        recent = self._recent.get(event.sameness)
        if recent is not None and now_ms - recent.told_ms < SECOND_MS:
            recent.repeated += 1
            return
        if recent is not None:
            self._tell(recent.event, recent.repeated + 1, now_ms)
            recent.told_ms, recent.repeated = now_ms, 0
            return
        if self._tell(event, 1, now_ms) and len(self._recent) < RECENT_MAX:
            self._recent[event.sameness] = _Recent(event, now_ms)

    def drops(self, principal: str, outcome: AuditOutcome) -> bool:
        """Whether a principal has had its lines of this second; then one more event is counted.

        Nothing more is made of such an event: a request may name thousands of resources.
        """
        if self._clock.monotonic_ms() - self._second_began_ms >= SECOND_MS:
            return False
        of_outcome = self._of_principals.get(outcome)
        if of_outcome is None or of_outcome.get(cut(principal), 0) < _lines_max(outcome):
            return False
        self.event_count += 1
        self._drop(1)
        return True

    def is_access_told(self, principal: str, operation: int, resource: tuple[int, str]) -> bool:
        """Whether an allowed access has its line of this hour, or will not have any."""
        hour = self._clock.monotonic_ms() // HOUR_MS
        if hour != self._hour:
            self._hour = hour
            self._accesses.clear()
            self._accesses_of.clear()
        if hash((principal, operation, resource)) in self._accesses:  # names may be long
            return True
        if (
            len(self._accesses) >= ACCESSES_MAX
            or self._accesses_of.get(principal, 0) >= ACCESSES_OF_PRINCIPAL_MAX
        ):
            self.event_count += 1
            self._drop(1)
            return True
        return False

    def note_access(
        self, event: AuditEvent, principal: str, operation: int, resource: tuple[int, str]
    ) -> bool:
        """Take an allowed access without a line in this hour; returns whether it has one now."""
        self.event_count += 1
        if not self._tell(shortened(event), 1, self._clock.monotonic_ms()):
            return False
        self._accesses.add(hash((principal, operation, resource)))
        self._accesses_of[principal] = self._accesses_of.get(principal, 0) + 1
        return True

    @property
    def hour(self) -> int:
        """Another number in each hour: what was told in one is told again in the next."""
        return self._clock.monotonic_ms() // HOUR_MS

    def sweep(self) -> bool:
        """Tell what was counted for a second; returns whether there is something left to tell."""
        now_ms = self._clock.monotonic_ms()
        for sameness, recent in list(self._recent.items()):
            if now_ms - recent.told_ms < SECOND_MS:
                continue
            if recent.repeated:
                self._tell(recent.event, recent.repeated, now_ms)
                recent.told_ms, recent.repeated = now_ms, 0
            else:
                del self._recent[sameness]
        if self._dropped_untold and len(self._waiting) < WAITING_MAX:
            dropped, self._dropped_untold = self._dropped_untold, 0
            event = AuditEvent(AuditKind.DROPPED, AuditOutcome.FAILURE, AuditSource())
            self._waiting.append(WaitingLine(event, self._clock.wall_ms(), dropped))
        return bool(self._recent or self._waiting)

    def take(self) -> list[WaitingLine]:
        """The lines that are to be written now."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def text_of(self, line: WaitingLine) -> str:
        """The text of a line; may be called in a thread."""
        return line_of(
            line.event, wall_ms=line.wall_ms, node_id=self._node_id, repeated=line.repeated
        )

    def lost(self, lines: Iterable[WaitingLine]) -> None:
        """Count the events of lines that could not be written."""
        for line in lines:
            if line.event.kind is AuditKind.DROPPED:  # its events are counted already
                self._dropped_untold += line.repeated
            else:
                self._drop(line.repeated)

    def samples(self) -> Iterator[Sample]:
        """Events, and those without a line."""
        yield Sample(
            "barnabas_audit_events_total",
            "counter",
            "Events of the audit log, with a line of their own or counted in one.",
            {},
            self.event_count,
        )
        yield Sample(
            "barnabas_audit_dropped_total",
            "counter",
            "Events of the audit log that no line tells of.",
            {},
            self.dropped_count,
        )

    def _tell(self, event: AuditEvent, repeated: int, now_ms: int) -> bool:
        """Have a line written, unless its principal has had too many; returns whether it is."""
        if now_ms - self._second_began_ms >= SECOND_MS:
            self._second_began_ms = now_ms
            self._of_principals.clear()
        lines = self._of_principals.setdefault(event.outcome, {})
        who = event.source.principal
        if event.kind is AuditKind.LOG_IN and event.outcome is AuditOutcome.FAILURE:
            who = event.source.host
        count = lines.get(who, 0)
        if count >= _lines_max(event.outcome) or (not count and len(lines) >= PRINCIPALS_MAX):
            self._drop(repeated)
            return False
        lines[who] = count + 1
        return self._wait(WaitingLine(event, self._clock.wall_ms(), repeated))

    def _wait(self, line: WaitingLine) -> bool:
        # What may be told later leaves half of the room to what may not.
        is_later = line.event.outcome is AuditOutcome.ALLOWED
        if len(self._waiting) >= (WAITING_MAX // 2 if is_later else WAITING_MAX):
            self._drop(line.repeated)
            return False
        self._waiting.append(line)
        self.on_waiting()
        return True

    def _drop(self, count: int) -> None:
        self.dropped_count += count
        self._dropped_untold += count


def _lines_max(outcome: AuditOutcome) -> int:
    """How many lines a second a principal has."""
    is_done = outcome in (AuditOutcome.SUCCESS, AuditOutcome.ALLOWED)
    return DONE_LINES_OF_PRINCIPAL_MAX if is_done else LINES_OF_PRINCIPAL_MAX


def _nobody() -> None:
    """Nobody writes the lines yet."""
