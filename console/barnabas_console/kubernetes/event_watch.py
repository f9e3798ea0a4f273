"""`EventWatch`: the events of Kubernetes that are new, as changes for the timeline (CON-123).

Invariants: what had happened before the first look is no news; an event that happens again is news
again; an API server that does not answer has none, and is told of by the Kubernetes page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas_console.history.timeline import ClusterChange
from barnabas_console.kubernetes.api_reader import ApiReader, KubernetesError
from barnabas_console.kubernetes.objects import read_objects

_WORDS_MAX: Final = 300

_Seen = tuple[object, ...]


class EventWatch:
    """What of the last look's events is remembered, no more than a look has."""

    def __init__(self, reader: ApiReader) -> None:
        self._reader = reader
        self._seen: frozenset[_Seen] | None = None

    async def news(self) -> list[ClusterChange]:
        """What has happened since the last look, the oldest first."""
        try:
            objects = await read_objects(self._reader)
        except KubernetesError:
            return []
        events = {_identity(event): event for event in reversed(objects["events"])}
        before, self._seen = self._seen, frozenset(events)
        if before is None:
            return []
        return [_change(event) for seen, event in events.items() if seen not in before]


def _identity(event: Mapping[str, Any]) -> _Seen:
    fields = ("namespace", "about", "reason", "message", "time_ms", "count")
    return tuple(event[name] for name in fields)


def _change(event: Mapping[str, Any]) -> ClusterChange:
    words = ": ".join(str(event[name]) for name in ("reason", "message") if event[name])
    return ClusterChange(
        kind="kubernetes",
        subject=str(event["about"]),
        words=words[:_WORDS_MAX],
        state="warning" if event["type"] == "Warning" else "working",
    )
