"""One Produce request at work.

Appends to each partition, then waits until all of them may be acknowledged.

Not the wire format (the handler's) and not the log's rules. Source: REQ-1 to REQ-4 of the behaviour
list.
Invariant: the answer is given exactly once, and only after the data of every partition that
succeeded is in its file.
"""

from collections.abc import Awaitable, Callable, Sequence

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.append_info import AppendInfo
from barnabas_broker.log.validator import CheckedBatch, HeavyBatchError
from barnabas_broker.network.heavy_work import Pause
from barnabas_broker.purgatory.purgatory import DelayedOperation, Purgatory
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

ACKS_ALL = -1
TopicRecords = Sequence[tuple[TopicPartition, bytes, Buffer | None]]
# Place among the results, topic id, records, and what checks them.
HeavyAppend = tuple[int, bytes, Buffer | None, HeavyBatchError]
CheckApart = Callable[[Callable[[], CheckedBatch]], Awaitable[CheckedBatch]]
"""Has a check done in a thread."""
HeavyAppends = Callable[[CheckApart, Pause], Awaitable[None]]
"""What is left of a request whose batches take long to check or are very many."""


class ProduceResult:
    """What became of one partition of the request.

    With an error, `partition` is the one whose log refused the batch, if it came that far.
    """

    __slots__ = ("error", "info", "partition", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        partition: Partition | None,
        info: AppendInfo | None,
        error: KafkaError | None,
    ) -> None:
        self.topic_partition = topic_partition
        self.partition = partition
        self.info = info
        self.error = error


class Production(DelayedOperation):
    """The results of one request, and whom to tell when they are final."""

    __slots__ = ("_acks", "_done", "_results", "_unsettled", "_waiting_room")

    def __init__(
        self,
        results: Sequence[ProduceResult],
        acks: int,
        timeout_ms: int,
        done: Callable[[Sequence[ProduceResult]], None],
        waiting_room: Purgatory,
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._unsettled = [result for result in results if result.error is None]
        self._acks = acks
        self._done = done
        self._waiting_room = waiting_room

    @property
    def keys(self) -> list[TopicPartition]:
        """The partitions whose progress may complete it."""
        return [result.topic_partition for result in self._results if result.info is not None]

    def written(self) -> None:
        """Answer now that the turn's data is in the files, or wait for what is missing."""
        if self.is_settled():
            self.is_completed = True
            self._done(self._results)
        else:
            self._waiting_room.watch(self, self.keys)

    def is_settled(self) -> bool:
        """Settle partitions up to one that cannot be settled yet; tells whether there is none.

        It is asked whenever one of them has moved: all of them each time would be their square.
        """
        unsettled = self._unsettled
        while unsettled and self._settle(unsettled[-1]):
            unsettled.pop()
        return not unsettled

    def _settle(self, result: ProduceResult) -> bool:
        partition, info = result.partition, result.info
        assert partition is not None
        assert info is not None
        if partition.log.is_offline:
            result.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        elif not partition.is_leader:
            result.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif not partition.is_acknowledged(info.last_offset + 1, self._acks):
            return False
        elif self._acks == ACKS_ALL and len(partition.image.isr) < partition.minimum_in_sync:
            result.error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def try_complete(self) -> bool:
        """Complete if every partition is settled."""
        return self.is_settled() and self.force_complete()

    def on_complete(self) -> None:
        """Answer."""
        self._done(self._results)

    def on_expire(self) -> None:
        """Answer what is not settled with REQUEST_TIMED_OUT; its data stays in the log (REQ-3)."""
        for result in self._unsettled:
            if not self._settle(result):
                result.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
