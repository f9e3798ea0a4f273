"""What an idle Broker was like at its last whole pass, so that the next look need not ask for it.

Brokers tell of nothing by themselves, so they are asked every few seconds. The API server does: as
long as it has told of no change to a Broker and its pods, volumes and StatefulSet, what was read of
them last holds, and only the brokers are looked at. Where that shows anything to do or to write,
a whole pass follows, so nothing is ever done by what is remembered here.

What nobody tells of (Services, ConfigMaps, nodes, a watch that is dead) the next whole pass finds,
which comes after `resync_seconds` at the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from barnabas_client.env import Clock
from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.kubernetes.api import Object
from barnabas_operator.reconcile.broker.broker_plan import BrokerPlan
from barnabas_operator.reconcile.broker.observed import Observed
from barnabas_operator.reconcile.broker_reference import NamespacedName
from barnabas_operator.work.key import Key

ChangesOf = Callable[[NamespacedName], int]
"""How many changes of a Broker and what belongs to it have been heard of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleBroker:
    """A whole pass that had nothing to do or to write.

    With `broker`, the object, its brokers are run elsewhere, and there is no plan.
    """

    spec: BrokerSpec
    status: Mapping[str, Any]
    observed: Observed
    plan: BrokerPlan | None
    changes: int
    at_ms: int
    broker: Object | None = None


class IdleBrokers:
    """The Brokers that are idle, as far as is known."""

    def __init__(self, changes_of: ChangesOf | None, clock: Clock, resync_seconds: float) -> None:
        """Without `changes_of` nobody tells of changes, and nothing is remembered."""
        self._changes_of = changes_of
        self._clock = clock
        self._resync_ms = int(resync_seconds * 1000)
        self._idle: dict[Key, IdleBroker] = {}

    def changes(self, key: Key) -> int:
        """A mark to take before a whole pass begins to read."""
        return 0 if self._changes_of is None else self._changes_of((key.namespace, key.name))

    def note(
        self,
        key: Key,
        changes: int,
        spec: BrokerSpec,
        status: Mapping[str, Any],
        observed: Observed,
        plan: BrokerPlan | None = None,
        *,
        broker: Object | None = None,
    ) -> None:
        """Remember a whole pass that had nothing to do, and began at the mark `changes`."""
        if self._changes_of is not None:
            self._idle[key] = IdleBroker(
                spec=spec,
                status=status,
                observed=observed,
                plan=plan,
                changes=changes,
                at_ms=self._clock.monotonic_ms(),
                broker=broker,
            )

    def find(self, key: Key) -> IdleBroker | None:
        """The last whole pass, if what it has read still holds as far as anybody has told."""
        idle = self._idle.get(key)
        if idle is None:
            return None
        age_ms = self._clock.monotonic_ms() - idle.at_ms
        if idle.changes != self.changes(key) or age_ms >= self._resync_ms:
            self.forget(key)
            return None
        return idle

    def forget(self, key: Key) -> None:
        """Have the next pass be a whole one."""
        self._idle.pop(key, None)
