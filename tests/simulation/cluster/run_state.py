"""How far a long run of stories has come, in a small file: it goes on after an interruption."""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PART = 10
"""Seeds that one process tells at a time; a run is counted in such parts."""


def default_path(first: int, count: int) -> Path:
    """Outside of the tree, one file for each run."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "barnabas-simulation" / f"{first}-{count}.json"


@dataclass
class RunState:
    """What a run has told so far."""

    first: int
    count: int
    done_below: int = 0  # parts, without a gap
    done_above: set[int] = field(default_factory=set)  # parts beyond the first gap
    seconds: float = 0.0
    failed_seeds: list[int] = field(default_factory=list)
    exercised: Counter[str] = field(default_factory=Counter)
    revisions: list[str] = field(default_factory=list)

    @property
    def part_count(self) -> int:
        """How many parts there are."""
        return -(-self.count // PART)

    @property
    def is_complete(self) -> bool:
        """Whether all seeds were told."""
        return self.done_below >= self.part_count

    @property
    def told(self) -> int:
        """How many seeds were told."""
        parts = [*range(self.done_below), *self.done_above]
        return sum(len(self.seeds_of(part)) for part in parts)

    def seeds_of(self, part: int) -> range:
        """The seeds of a part."""
        start = self.first + part * PART
        return range(start, min(start + PART, self.first + self.count))

    def missing(self) -> list[int]:
        """The parts that are still to be told."""
        return [n for n in range(self.done_below, self.part_count) if n not in self.done_above]

    def done(self, part: int, failed: list[int], exercised: Counter[str]) -> None:
        """A part was told."""
        self.done_above.add(part)
        while self.done_below in self.done_above:
            self.done_above.remove(self.done_below)
            self.done_below += 1
        self.failed_seeds += failed
        self.exercised += exercised

    def save(self, path: Path) -> None:
        """Replace the file as a whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document: dict[str, Any] = {
            **vars(self),
            "done_above": sorted(self.done_above),
            "exercised": dict(sorted(self.exercised.items())),
        }
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(document, indent=1))
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path, first: int, count: int) -> "RunState":
        """The state of a run that was interrupted; a new one where there is none."""
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError):
            return cls(first, count)
        state = cls(**document)
        state.done_above = set(state.done_above)
        state.exercised = Counter(state.exercised)
        if (state.first, state.count) != (first, count) or state.is_complete:
            return cls(first, count)
        return state

    def summary(self) -> list[str]:
        """How many stories, how fast, and what was in them how often."""
        told, minutes = self.told, self.seconds / 60
        rate = told / minutes if minutes else 0
        lines = [f"{told} of {self.count} seeds from {self.first}, {rate:.0f} a minute"]
        lines += [f"{count:9d}  {name}" for name, count in sorted(self.exercised.items())]
        lines.append(f"{len(self.failed_seeds)} fail: {sorted(self.failed_seeds)[:50]}")
        return lines
