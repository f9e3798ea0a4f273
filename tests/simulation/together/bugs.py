"""Faults that show to clients only on a whole cluster that fails: the stories must find them."""

import contextlib
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from barnabas_broker.coordinator.group.offsets import OffsetStore
from barnabas_broker.coordinator.transaction.markers import MarkerSender
from barnabas_broker.coordinator.transaction.shard import TransactionShard
from barnabas_broker.coordinator.transaction.state import Transaction
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.producer.batch_completion import BatchCompletion
from tests.simulation import transaction_bugs
from tests.simulation.client import bugs

Patch = contextlib.AbstractContextManager[Any]


def _no_doubt() -> Patch:
    """A batch whose answer was lost fails as if it were nowhere."""
    before = BatchCompletion.handle_no_response

    def lose(self: Any, queue: Any, batch: Any, *rest: Any) -> None:
        before(self, queue, batch, *rest)
        batch.is_in_doubt = False

    return patch.object(BatchCompletion, "handle_no_response", lose)


def _numbered_anew() -> Patch:
    """A batch whose answer was lost goes again with other numbers."""
    before = BatchCompletion.handle_no_response

    def lose(self: Any, queue: Any, batch: Any, *rest: Any) -> None:
        before(self, queue, batch, *rest)
        if batch.sequences is not None and not batch.is_done:
            batch.sequences.forget(batch)

    return patch.object(BatchCompletion, "handle_no_response", lose)


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


def _marker_lost() -> Patch:
    """A coordinator forgets a partition of a transaction that it ends."""
    return patch.object(MarkerSender, "send", transaction_bugs.send_to_all_but_one)


def _abort_commits() -> Patch:
    """The markers of an abort say commit."""
    return patch.object(MarkerSender, "send", transaction_bugs.send_commits)


def _unfenced() -> Patch:
    """Who begins does not fence the producer before it."""
    return patch.object(Transaction, "with_next_epoch", transaction_bugs.with_same_epoch)


def _aborted_offsets() -> Patch:
    """An abort publishes the offsets of its transaction."""
    before = OffsetStore.end_transaction

    def end_transaction(self: OffsetStore, producer_id: int, is_committed: bool) -> None:
        before(self, producer_id, True)

    return patch.object(OffsetStore, "end_transaction", end_transaction)


def _late_end() -> Patch:
    """The end of an earlier transaction ends the one that is open (the hole KIP-890 closes)."""
    return patch.object(TransactionShard, "end", transaction_bugs.end_of_whatever_is_open)


def _late_add() -> Patch:
    """A partition that an earlier transaction wanted gets into the one that is open."""
    return patch.multiple(
        TransactionShard,
        add_partitions=transaction_bugs.add_to_whatever_is_open,
        verify=transaction_bugs.verify_by_whatever_is_open,
    )


BUGS: dict[str, Callable[[], Patch]] = {
    "no doubt": _no_doubt,
    "numbered anew": _numbered_anew,
    "commits ahead": _commits_ahead,
    "poll loses": _poll_loses,
    "marker lost": _marker_lost,
    "abort commits": _abort_commits,
    "unfenced": _unfenced,
    "aborted offsets": _aborted_offsets,
    "late end": _late_end,
    "late add": _late_add,
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
