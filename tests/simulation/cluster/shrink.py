"""Makes a failing story small: what can be taken out of its plan, so that it still fails alike."""

import re
import time
from collections.abc import Callable
from dataclasses import replace

from tests.simulation.cluster.plan import Event, Plan

TRIES_MAX = 250
SECONDS_MAX = 120.0
Fails = Callable[[Plan], str]
"""Tells a plan's story; what is wrong with it, in one line, empty if nothing is."""


def alike(reason: str, other: str) -> bool:
    """Whether two failures are of one kind: the same words, with other numbers and names."""
    return _kind(reason) == _kind(other)


def _kind(reason: str) -> tuple[str, ...]:
    words = re.sub(r"[^A-Za-z ]+", " ", reason).split()
    return tuple(word for word in words if len(word) > 3)[:5]


class Shrinker:
    """Tries smaller plans, as long as it may."""

    def __init__(self, fails: Fails, plan: Plan, reason: str) -> None:
        self.plan = plan
        self.reason = reason
        self.try_count = 0
        self._fails = fails
        self._deadline = time.monotonic() + SECONDS_MAX

    @property
    def _is_over(self) -> bool:
        return self.try_count >= TRIES_MAX or time.monotonic() > self._deadline

    def _keeps(self, plan: Plan) -> bool:
        """Whether a smaller plan fails alike; it is the plan then."""
        if self._is_over:
            return False
        self.try_count += 1
        reason = self._fails(plan)
        if not reason or not alike(reason, self.reason):
            return False
        self.plan, self.reason = plan, reason
        return True

    def run(self) -> Plan:
        """The smallest plan that was found: a fixpoint, unless time was up."""
        before = None
        while before != self.plan and not self._is_over:
            before = self.plan
            self._drop_events()
            self._drop_features()
            self._simplify()
        return self.plan

    def _drop_events(self) -> None:
        """Zeller's ddmin: halves first, then ever smaller parts."""
        size = max(1, len(self.plan.events) // 2)
        while True:
            start = 0
            while start < len(self.plan.events):
                events: list[Event] = list(self.plan.events)
                del events[start : start + size]
                if not self._keeps(self.plan.with_events(events)):
                    start += size
            if size == 1:
                return
            size //= 2

    def _drop_features(self) -> None:
        for feature in sorted(self.plan.features):
            self._keeps(self.plan.without(feature))

    def _simplify(self) -> None:
        last_ms = max((event.at_ms for event in self.plan.events), default=0)
        if self.plan.length_ms > last_ms + 1_000:
            self._keeps(replace(self.plan, length_ms=last_ms + 1_000))
        if self.plan.partitions > 1:
            self._keeps(replace(self.plan, partitions=1))
        if self.plan.node_count > 3:
            self._keeps(replace(self.plan, node_count=3))
