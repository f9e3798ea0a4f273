"""The assignors behind the setting `partition_assignment_strategy`.

Names of Java's classes are understood too, so that a configuration can be shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas_client.consumer.assignors.assignor import Assignor
from barnabas_client.consumer.assignors.range import RangeAssignor
from barnabas_client.consumer.assignors.round_robin import RoundRobinAssignor
from barnabas_client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from barnabas_client.errors import ConfigurationError
from barnabas_protocol.settings.suggestions import nearest

_KINDS: Final = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
_BY_NAME: Final[dict[str, type[Assignor]]] = {
    **{kind.name: kind for kind in _KINDS},
    **{f"org.apache.kafka.clients.consumer.{kind.__name__}": kind for kind in _KINDS},
}


def assignors_for(strategies: Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """The assignors in order of preference; each name stands for a new object.

    Raises: ConfigurationError for an unknown name, the same name twice, or no name at all.
    """
    chosen = tuple(
        strategy if isinstance(strategy, Assignor) else _named(strategy) for strategy in strategies
    )
    names = [assignor.name for assignor in chosen]
    if not names:
        raise ConfigurationError("partition_assignment_strategy names no assignor")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"partition_assignment_strategy has a name twice: {names}")
    return chosen


def _named(name: str) -> Assignor:
    kind = _BY_NAME.get(name)
    if kind is None:
        near = nearest(name, _BY_NAME)
        hint = f"; did you mean {near!r}?" if near is not None else ""
        raise ConfigurationError(f"no assignor is called {name!r}{hint}")
    return kind()
