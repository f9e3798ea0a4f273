"""Where a topic is to be read from so that it goes on where an archive ends. Pure.

For when Spark's checkpoint is new, or was lost: the archive itself knows how far it reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from barnabas_pipelines.archive.manifest import Ends


class Log(Protocol):
    """What has to be known of a topic; ends are exclusive."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def starts(self) -> Mapping[int, int]:
        """The first offsets there are."""

    @property
    def ends(self) -> Mapping[int, int]:
        """Behind the last offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """Starting offsets as the sources take them, and what speaks against going on there.

    `lost` are records that are gone from the topic; `contradictions` are ends of the archive that
    the topic does not reach (any more).
    """

    starts: Mapping[str, Mapping[str, int]]
    lost: tuple[str, ...]
    contradictions: tuple[str, ...]


def continuation(ends: Ends, logs: Iterable[Log], otherwise: int) -> Continuation:
    """Go on at the archive's ends; `otherwise` (-2 or -1) where it has nothing of a partition."""
    starts: dict[str, dict[str, int]] = {}
    lost, contradictions = [], []
    for log in logs:
        chosen = starts.setdefault(log.name, {})
        for partition in sorted(log.ends):
            end = ends.get(log.name, {}).get(partition)
            first, last = log.starts[partition], log.ends[partition]
            if end is None:
                chosen[str(partition)] = otherwise
                continue
            if end < first:
                lost.append(
                    f"{log.name}-{partition}: the archive ends at offset {end}, the topic begins "
                    f"at {first}, {first - end} offsets are gone"
                )
            elif end > last:
                contradictions.append(
                    f"{log.name}-{partition}: the archive ends at offset {end}, the topic at {last}"
                )
            chosen[str(partition)] = min(max(end, first), last)
    return Continuation(starts=starts, lost=tuple(lost), contradictions=tuple(contradictions))
