"""Since when a broker's pod is asked to leave its node, as it is noted on the pod. Pure.

The annotation has the first and the last time of a row of evictions that were refused, as an ISO
8601 interval: `2026-01-31T12:00:00Z/2026-01-31T12:07:00Z`. Whoever drains a node asks every few
seconds to minutes; when nobody has asked for a while the row is over, and the next eviction begins
another one with the whole patience. The note goes with the pod.

Invariant: a row that goes on is written again once a minute at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from barnabas_operator.conditions import timestamp

DRAIN_REQUESTED_ANNOTATION = "barnabas.dev/drain-requested"
# kubectl asks every 5 s, autoscalers and managed upgrades every few minutes at most.
_QUIET = timedelta(minutes=15)
_REFRESH = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """A row of evictions of one pod."""

    since: datetime
    last: datetime

    @property
    def text(self) -> str:
        """How it stands in the annotation."""
        return f"{timestamp(self.since)}/{timestamp(self.last)}"

    def is_over(self, now: datetime) -> bool:
        """Whether nobody has asked for so long that nobody is expected to."""
        return now - self.last > _QUIET


def read_request(text: str) -> DrainRequest | None:
    """What an annotation says; None for one that is empty or unreadable."""
    since, _, last = text.partition("/")
    try:
        moments = datetime.fromisoformat(since), datetime.fromisoformat(last)
    except ValueError:
        return None
    if any(moment.tzinfo is None for moment in moments):
        return None
    return DrainRequest(since=moments[0].astimezone(UTC), last=moments[1].astimezone(UTC))


def asked(found: DrainRequest | None, now: datetime) -> DrainRequest:
    """The row of which an eviction that comes now is a part."""
    if found is None or found.is_over(now) or found.since - now > _QUIET:
        return DrainRequest(since=now, last=now)
    return DrainRequest(since=found.since, last=max(found.last, now))


def has_to_be_noted(found: DrainRequest | None, now: datetime) -> bool:
    """Whether what stands on the pod is too old to tell that the row goes on."""
    if found is None or asked(found, now).since != found.since:
        return True
    return now - found.last >= _REFRESH
