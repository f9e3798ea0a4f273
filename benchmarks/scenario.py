"""What a benchmark is: a question, the figures that answer it, and how to measure them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number: its name, its unit, and the goal it is held against.

    `goal_ratio` is for Barnabas / Apache Kafka, `goal_value` for Barnabas alone; which side of
    the goal is good follows from `is_lower_better`.
    """

    name: str
    unit: str
    is_lower_better: bool
    goal_ratio: float | None = None
    goal_value: float | None = None

    def is_met(self, apache: float | None, barnabas: float) -> bool | None:
        """Whether the goal is met; None without a goal or without the rival's number."""
        if self.goal_value is not None:
            value, goal = barnabas, self.goal_value
        elif self.goal_ratio is not None and apache:
            value, goal = barnabas / apache, self.goal_ratio
        else:
            return None
        return value <= goal if self.is_lower_better else value >= goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One question; `measure` answers it for one kind of broker, by figure name."""

    name: str
    question: str
    figures: Sequence[Figure]
    measure: Callable[[Trial], dict[str, float]]


def medians(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of each figure over repeated runs."""
    return {name: median(run[name] for run in runs) for name in runs[0]}
