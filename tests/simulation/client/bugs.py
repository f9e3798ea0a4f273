"""The faults that were found in the client before, planted again: the stories must find them.

That the command line committed what it had not shown cannot be reached here: the command line runs
in a process of its own (`tests/cli/test_consuming_in_groups.py`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.group.classic_membership import ClassicMembership
from barnabas_client.consumer.group.classic_rebalance import ClassicRebalance
from barnabas_client.consumer.group.group_session import GroupSession
from barnabas_client.consumer.poll_loop import PollLoop
from barnabas_client.errors import RetriableError
from barnabas_client.producer.admission import Admission
from barnabas_client.producer.batch_completion import BatchCompletion
from barnabas_client.producer.delivery import Delivery
from barnabas_client.producer.idempotence import PartitionSequences
from barnabas_client.producer.queues import TopicQueues
from barnabas_client.producer.sender import Sender
from barnabas_client.producer.transaction_calls import TransactionCalls
from barnabas_client.producer.transaction_manager import TransactionManager
from barnabas_client.producer.transactions import ProducerTransaction, TransactionStatus
from barnabas_protocol.errors import ErrorCode

Patches = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def _all(*patches: contextlib.AbstractContextManager[Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


def _false_ack() -> contextlib.AbstractContextManager[Any]:
    """A refusal for good ends the doubt, and the numbers go to other records."""
    before = BatchCompletion._fail

    def fail(self: Any, batch: Any, error: Any, **more: Any) -> None:
        if not isinstance(error, RetriableError):
            batch.is_in_doubt = False
        before(self, batch, error, **more)

    return patch.object(BatchCompletion, "_fail", fail)


def _stale_metadata() -> contextlib.AbstractContextManager[Any]:
    """A partition that is missing in one answer takes its numbers with it."""
    before = TopicQueues.update

    def update(self: Any, metadata: Any) -> None:
        if metadata.partitions:
            count = max(metadata.partitions) + 1
            while len(self.queues) > count and not (
                self.queues[-1].batches or self.queues[-1].in_flight
            ):
                gone = self.queues.pop()
                (self.sequences or {}).pop(gone.partition, None)
                if self.sticky is gone:
                    self.choose_sticky()
        before(self, metadata)

    return patch.object(TopicQueues, "update", update)


def _numbers_by_id() -> contextlib.AbstractContextManager[Any]:
    """Numbers begin anew with each id that Metadata tells for a topic."""
    before = TopicQueues.update

    def update(self: Any, metadata: Any) -> None:
        if metadata.topic_id != self.topic_id and self.sequences:
            for queue in self.queues:
                if not queue.in_flight and queue.sequences is not None:
                    for batch in queue.batches:
                        if batch.sequences is not None:
                            batch.sequences.forget(batch)
                    queue.sequences = self.sequences[queue.partition] = PartitionSequences()
        before(self, metadata)

    return patch.object(TopicQueues, "update", update)


def _split_in_doubt() -> contextlib.AbstractContextManager[Any]:
    """A batch in doubt is split like any other."""
    before = BatchCompletion.handle_error

    def refuse(self: Any, queue: Any, batch: Any, code: int, *rest: Any, **more: Any) -> None:
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            batch.is_in_doubt = False
        before(self, queue, batch, code, *rest, **more)

    return patch.object(BatchCompletion, "handle_error", refuse)


def _gather() -> contextlib.AbstractContextManager[Any]:
    """Deliveries cannot be cancelled."""
    return patch.object(Delivery, "cancel", lambda self, msg=None: False)


def _program_end() -> contextlib.AbstractContextManager[Any]:
    """A sender that is cancelled leaves its records as they are."""
    before = Sender.abort_incomplete_batches

    def abort_incomplete_batches(self: Any, error: Any) -> None:
        if "the program ended" not in str(error):
            before(self, error)

    return patch.object(Sender, "abort_incomplete_batches", abort_incomplete_batches)


def _fewer_partitions() -> contextlib.AbstractContextManager[Any]:
    """Partitions that a topic made anew does not have any more are filled as before."""
    before = TopicQueues.update

    def update(self: Any, metadata: Any) -> None:
        kept = list(self.queues)
        before(self, metadata)
        for queue in kept[len(self.queues) :]:
            queue.is_gone = False
            self.queues.append(queue)
        if kept and self.sticky not in kept:
            self.sticky = kept[-1]

    return patch.object(TopicQueues, "update", update)


def _unsubscribe() -> contextlib.AbstractContextManager[Any]:
    """An unsubscribe that is cancelled has done nothing."""

    async def unsubscribe(self: Any) -> None:
        with self._use:
            loop = self._running
            loop.interrupt()
            if loop.membership is not None and self._subscription.is_group_managed:
                await loop.membership.leave(self.settings.default_api_timeout_ms)
            self._subscription.unsubscribe()
            loop.follow_subscription()

    async def leave(self: Any, timeout_ms: int, *, leave_group: bool | None = None) -> None:
        deadline_ms = self._now_ms() + timeout_ms
        was_joining = self.rebalance.is_running
        await self.rebalance.cancel()
        await self._callbacks.cancel_commit()
        self._revocation = self._change = None
        await self._callbacks.revoke_all(deadline_ms - self._now_ms(), self._has_generation)
        if self.member.member_id:
            request = self.member.leave_request("the consumer leaves")
            left_ms = deadline_ms - self._now_ms()
            await self._session.leave_group(request, left_ms, is_joining=was_joining)
        self.member.on_left("the consumer left")
        self._callbacks.raise_error()

    def nothing(*_: Any, **__: Any) -> None:
        """Send no request to leave."""

    return _all(
        patch.object(Consumer, "unsubscribe", unsubscribe),
        patch.object(ClassicMembership, "leave", leave),
        patch.object(GroupSession, "leave_group_in_background", nothing),
    )


def _rebalance_task() -> contextlib.AbstractContextManager[Any]:
    """A rebalance that was cancelled before its first step counts as running for ever."""

    async def cancel(self: Any) -> None:
        task = self._task
        self._watched = None
        if task is not None:
            has_begun = task.get_coro().cr_frame is None or task.get_coro().cr_await is not None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if has_begun:
                self._task = None

    return patch.object(ClassicRebalance, "cancel", cancel)


def _on_assigned() -> contextlib.AbstractContextManager[Any]:
    """A callback whose poll was cancelled counts as called."""
    before = ClassicMembership._finish_change

    async def finish(self: Any) -> None:
        try:
            await before(self)
        except asyncio.CancelledError:
            self._change = None
            raise

    return patch.object(ClassicMembership, "_finish_change", finish)


def _iteration() -> contextlib.AbstractContextManager[Any]:
    """An iteration hands out all that one answer brought before it looks at anything else."""
    return patch.object(PollLoop, "is_maintenance_due", lambda self: False)


def _commit_cancelled() -> contextlib.AbstractContextManager[Any]:
    """What was cancelled within its commit is ended by nobody."""

    async def end_if_open(self: Any) -> None:
        if self.state.status in (TransactionStatus.OPEN, TransactionStatus.FAILED):
            with contextlib.suppress(Exception):
                await self.abort()

    return _all(
        patch.object(TransactionCalls, "_end_if_open", end_if_open),
        patch.object(ProducerTransaction, "is_undecided", property(lambda self: False)),
    )


def _abort_not_begun() -> contextlib.AbstractContextManager[Any]:
    """A coordinator that never heard of the transaction makes the producer useless."""
    return patch.object(
        TransactionManager, "_end_code", lambda self, response: int(response.error_code)
    )


def _line_in_transaction() -> contextlib.AbstractContextManager[Any]:
    """A transaction is committed without the records that had to wait too long for metadata."""
    before = Admission.admit

    def admit(self: Any, now_ms: int) -> None:
        self.on_failure = lambda error: None
        before(self, now_ms)

    return patch.object(Admission, "admit", admit)


BUGS: dict[str, Patches] = {
    "false ack": _false_ack,
    "stale metadata": _stale_metadata,
    "numbers by topic id": _numbers_by_id,
    "split in doubt": _split_in_doubt,
    "gather": _gather,
    "program end": _program_end,
    "fewer partitions": _fewer_partitions,
    "unsubscribe cancelled": _unsubscribe,
    "rebalance task cancelled": _rebalance_task,
    "on_assigned cancelled": _on_assigned,
    "iteration starves": _iteration,
    "commit cancelled": _commit_cancelled,
    "abort not begun": _abort_not_begun,
    "record in line fails": _line_in_transaction,
}


def planted(name: str) -> contextlib.AbstractContextManager[Any]:
    """While this lasts, the client has a fault."""
    return BUGS[name]()
