"""Wrong versions of what keeps transactions apart, for the stories that must find them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from barnabas_broker.coordinator.transaction.markers import MarkerSender
from barnabas_broker.coordinator.transaction.shard import Producer, TransactionShard
from barnabas_broker.coordinator.transaction.state import Transaction, TransactionState
from barnabas_broker.replication.partition import Partition

_send = MarkerSender.send


def send_to_all_but_one(self: MarkerSender, partition: int, transaction: Transaction) -> None:
    """For `MarkerSender.send`: a partition of a transaction that ends gets no marker."""
    fewer = frozenset(sorted(transaction.partitions)[1:])
    _send(self, partition, replace(transaction, partitions=fewer))


def send_commits(self: MarkerSender, partition: int, transaction: Transaction) -> None:
    """For `MarkerSender.send`: the markers of an abort say commit."""
    commits = replace(transaction, state=TransactionState.PREPARE_COMMIT)
    _send(self, partition, commits)


def with_same_epoch(
    self: Transaction, timeout_ms: int, expected_epoch: int, now_ms: int
) -> Transaction:
    """For `Transaction.with_next_epoch`: who begins does not fence the producer before it."""
    return replace(
        self,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        producer_epoch=max(self.producer_epoch, 0),
        updated_ms=now_ms,
    )


def _as_of_now(method: Callable[..., Any]) -> Callable[..., Any]:
    """A request of an earlier transaction counts as one of the transaction that is open."""

    def taken(self: Any, transactional_id: str, producer: Producer, *rest: Any, **more: Any) -> Any:
        known = self.transactions.get(transactional_id)
        if known is not None and known.state is TransactionState.ONGOING:
            producer = Producer(known.producer_id, known.producer_epoch)
        return method(self, transactional_id, producer, *rest, **more)

    return taken


end_of_whatever_is_open = _as_of_now(TransactionShard.end)
"""For `TransactionShard.end`: a late end ends the transaction that is open (KIP-890)."""
add_to_whatever_is_open = _as_of_now(TransactionShard.add_partitions)
"""For `TransactionShard.add_partitions`: a late one is added to the transaction that is open."""
verify_by_whatever_is_open = _as_of_now(TransactionShard.verify)
"""For `TransactionShard.verify`, which belongs to it."""


def limit_at_high_watermark(self: Partition, *, is_follower: bool, read_committed: bool) -> int:
    """For `Partition.limit_offset`: readers of committed records read past the LSO (TXL-7)."""
    return self.log.log_end_offset if is_follower else self.log.high_watermark
