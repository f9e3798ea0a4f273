"""Faults of a client that show on a real cluster only when it fails: the stories must find them."""

import contextlib
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.producer.outcomes import Outcomes
from tests.simulation.client import bugs

Patch = contextlib.AbstractContextManager[Any]


def _no_doubt() -> Patch:
    """A batch whose answer was lost fails as if it were nowhere."""
    before = Outcomes.lose

    def lose(self: Any, queue: Any, batch: Any, *rest: Any) -> None:
        before(self, queue, batch, *rest)
        batch.is_in_doubt = False

    return patch.object(Outcomes, "lose", lose)


def _numbered_anew() -> Patch:
    """A batch whose answer was lost goes again with other numbers."""
    before = Outcomes.lose

    def lose(self: Any, queue: Any, batch: Any, *rest: Any) -> None:
        before(self, queue, batch, *rest)
        if batch.sequences is not None and not batch.is_done:
            batch.sequences.forget(batch)

    return patch.object(Outcomes, "lose", lose)


def _commits_ahead() -> Patch:
    """What is committed is one beyond what was handed out."""
    before = SubscriptionState.positions

    def positions(self: Any) -> Any:
        return {one: at._replace(offset=at.offset + 1) for one, at in before(self).items()}

    return patch.object(SubscriptionState, "positions", positions)


def _poll_loses() -> Patch:
    """A poll now and then drops the last record that it took."""
    before = Consumer.poll

    async def poll(self: Any, *arguments: Any, **named: Any) -> Any:
        records = await before(self, *arguments, **named)
        return records[:-1] if len(records) > 3 else records

    return patch.object(Consumer, "poll", poll)


BUGS: dict[str, Callable[[], Patch]] = {
    "no doubt": _no_doubt,
    "numbered anew": _numbered_anew,
    "commits ahead": _commits_ahead,
    "poll loses": _poll_loses,
    "program end": lambda: bugs.planted("program end"),
}


def planted(name: str) -> Patch:
    """While this lasts, the client has a fault."""
    return BUGS[name]()


def told_with(name: str, seed: int) -> str:
    """Why a story fails in which a fault is planted; empty if it does not."""
    from tests.simulation.together.telling import tell

    with planted(name):
        return tell(seed).reason
