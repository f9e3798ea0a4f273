"""Keeps the state of share partitions by requests to the share coordinators.

Not here: what the coordinators do (`coordinator.py`), how a request reaches one (the server).
Source: SHR-27.

An operation waits until the request before has its response; then it goes out with those of the
same group and api that wait as well. A broker carries out the requests of a connection one after
the other, so each coordinator has a few lanes, and a group always has the same one.

Invariants: one request of a lane is under way; operations of one kind on a share partition are
sent in the order of the calls; every call ends, with a response or an error; what waits is bounded.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from barnabas_broker.coordinator.share.records import message_batches, read_batches
from barnabas_broker.share.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from barnabas_protocol.api import ApiKey
from barnabas_protocol.backoff import ExponentialBackoff
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages import delete_share_group_state as deletes
from barnabas_protocol.messages import initialize_share_group_state as initializes
from barnabas_protocol.messages import read_share_group_state as reads
from barnabas_protocol.messages import read_share_group_state_summary as summaries
from barnabas_protocol.messages import write_share_group_state as writes

BACKOFF: Final = ExponentialBackoff(1_000, 30_000)
ATTEMPTS: Final = 5

LANES: Final = 4
PENDING_MAX: Final = 20_000
"""Operations of one lane that wait; more fail as if there were no coordinator."""
BATCHES_PER_REQUEST: Final = 2_000
LOOKED_AT_MAX: Final = 1_000
"""How many operations are looked at to make one request: a millisecond of work."""

_REPEATED: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class StateApi(NamedTuple):
    """An API of share coordinators, and how many share partitions a request of it may name."""

    api_key: ApiKey
    request: Any
    topic: Any
    share_partitions_max: int


INITIALIZE: Final = StateApi(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    initializes.InitializeShareGroupStateRequest,
    initializes.InitializeStateData,
    100,
)
# Few, as each may have thousands of batches in its response.
READ: Final = StateApi(
    ApiKey.READ_SHARE_GROUP_STATE, reads.ReadShareGroupStateRequest, reads.ReadStateData, 10
)
WRITE: Final = StateApi(
    ApiKey.WRITE_SHARE_GROUP_STATE, writes.WriteShareGroupStateRequest, writes.WriteStateData, 100
)
DELETE: Final = StateApi(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    deletes.DeleteShareGroupStateRequest,
    deletes.DeleteStateData,
    100,
)
SUMMARY: Final = StateApi(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    summaries.ReadShareGroupStateSummaryRequest,
    summaries.ReadStateSummaryData,
    100,
)


class ShareCoordinators(Protocol):
    """Where the share coordinators are."""

    def node_of(self, key: SharePartitionKey) -> int | None:
        """Return the broker that coordinates a share partition.

        None while there is none; the topic is being made then, if there is none.
        """
        ...

    def send(self, node_id: int, lane: int, api: StateApi, request: Any) -> Awaitable[Any]:
        """Send a request to a broker, or to this one. Raises: OSError, KafkaError."""
        ...


class _Operation:
    """What is to be done with one share partition, and who waits for it."""

    __slots__ = ("api", "data", "future", "key")

    def __init__(self, api: StateApi, key: SharePartitionKey, data: Any) -> None:
        self.api = api
        self.key = key
        self.data = data
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def respond(self, result: Any) -> None:
        """Give the result of the share partition in a response, or the code instead of one."""
        if self.future.done():
            return
        code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, None
        if result is not None:
            code, message = ErrorCode(result.error_code), result.error_message
        if code is ErrorCode.UNSUPPORTED_VERSION:
            # Who asks knows that share groups are served: the coordinator's metadata lags.
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if code is ErrorCode.NONE:
            self.future.set_result(result)
        else:
            self.future.set_exception(KafkaError(code, message))


class StatePersister:
    """A `SharePersister` over the share coordinators of the cluster."""

    def __init__(self, coordinators: ShareCoordinators) -> None:
        self._coordinators = coordinators
        self._lanes: dict[tuple[int, int], list[_Operation]] = {}
        self._senders: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._is_closed = False
        self.request_count = 0
        self.failure_count = 0
        self.repetition_count = 0

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin anew at the offset, under this state epoch."""
        data = initializes.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        await self._carry_out(INITIALIZE, key, data)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        """Return the state and fence older leaders."""
        data = reads.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        result: reads.PartitionResult = await self._carry_out(READ, key, data)
        return ShareState(
            result.state_epoch, result.start_offset, tuple(read_batches(result.state_batches))
        )

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Merge batches into the state; start offset -1 leaves it."""
        data = writes.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=message_batches(writes.StateBatch, batches),
        )
        await self._carry_out(WRITE, key, data)

    async def delete(self, key: SharePartitionKey) -> None:
        """Forget the share partition."""
        await self._carry_out(DELETE, key, deletes.PartitionData(partition=key.partition))

    async def summary(self, key: SharePartitionKey) -> ShareStateSummary:
        """Return epochs, start offset and count."""
        data = summaries.PartitionData(partition=key.partition, leader_epoch=-1)
        result: summaries.PartitionResult = await self._carry_out(SUMMARY, key, data)
        return ShareStateSummary(
            result.state_epoch,
            result.leader_epoch,
            result.start_offset,
            result.delivery_complete_count,
        )

    async def close(self) -> None:
        """Stop; who waits is told that there is no coordinator, and nothing is sent any more."""
        self._is_closed = True
        tasks = list(self._senders.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ---- requests ------------------------------------------------------------------------------

    async def _carry_out(self, api: StateApi, key: SharePartitionKey, data: Any) -> Any:
        """Return the result of a share partition; an error that may pass is tried again."""
        failures = 0
        while True:
            try:
                return await self._once(api, key, data)
            except KafkaError as error:
                failures += 1
                if error.code not in _REPEATED or failures == ATTEMPTS or self._is_closed:
                    raise
            self.repetition_count += 1
            await asyncio.sleep(BACKOFF.wait_ms(failures - 1) / 1000)

    async def _once(self, api: StateApi, key: SharePartitionKey, data: Any) -> Any:
        node_id = None if self._is_closed else self._coordinators.node_of(key)
        if node_id is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        lane = node_id, zlib.crc32(key.group_id.encode()) % LANES
        waiting = self._lanes.setdefault(lane, [])
        if len(waiting) >= PENDING_MAX:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        operation = _Operation(api, key, data)
        waiting.append(operation)
        if lane not in self._senders:
            task = asyncio.get_running_loop().create_task(self._send_all(lane))
            self._senders[lane] = task
        return await operation.future

    async def _send_all(self, lane: tuple[int, int]) -> None:
        """Send what waits in a lane, until nothing does."""
        try:
            while self._lanes[lane]:
                some, self._lanes[lane] = _take(self._lanes[lane])
                if some:
                    await self._send(lane, some)
        finally:
            del self._senders[lane]
            for operation in self._lanes.pop(lane):
                operation.respond(None)

    async def _send(self, lane: tuple[int, int], operations: Sequence[_Operation]) -> None:
        api, group_id = operations[0].api, operations[0].key.group_id
        topics: dict[bytes, dict[int, Any]] = {}
        for operation in operations:
            partitions = topics.setdefault(operation.key.topic_id, {})
            known = partitions.get(operation.key.partition)
            partitions[operation.key.partition] = _joined(known, operation.data)
        request = api.request(
            group_id=group_id,
            topics=[
                api.topic(topic_id=topic_id, partitions=list(partitions.values()))
                for topic_id, partitions in topics.items()
            ],
        )
        results: dict[tuple[bytes, int], Any] = {}
        self.request_count += 1
        try:
            response = await self._coordinators.send(*lane, api, request)
        except (OSError, KafkaError):
            self.failure_count += 1
        else:
            results = {
                (bytes(topic.topic_id), result.partition): result
                for topic in response.results
                for result in topic.partitions
            }
        finally:
            for operation in operations:
                key = operation.key
                operation.respond(results.get((key.topic_id, key.partition)))


def _take(waiting: list[_Operation]) -> tuple[list[_Operation], list[_Operation]]:
    """Return the operations of the next request, and the others in their order.

    A share partition is once in a request, but writes of one leader can be one.
    """
    api, group_id = waiting[0].api, waiting[0].key.group_id
    taken: list[_Operation] = []
    left: list[_Operation] = []
    last: dict[SharePartitionKey, _Operation] = {}
    closed: set[SharePartitionKey] = set()
    batch_count = 0
    for operation in waiting[:LOOKED_AT_MAX]:
        if operation.future.done():
            continue  # its caller is gone
        key = operation.key
        size = len(operation.data.state_batches) if api is WRITE is operation.api else 0
        if operation.api is not api or key.group_id != group_id:
            left.append(operation)
        elif (
            key in closed
            or (taken and batch_count + size > BATCHES_PER_REQUEST)
            or (key not in last and len(last) == api.share_partitions_max)
            or (key in last and not _can_join(api, last[key].data, operation.data))
        ):
            closed.add(key)
            left.append(operation)
        else:
            last[key] = operation
            batch_count += size
            taken.append(operation)
    return taken, left + waiting[LOOKED_AT_MAX:]


def _can_join(api: StateApi, before: Any, after: Any) -> bool:
    return (
        api is WRITE
        and before.state_epoch == after.state_epoch
        and before.leader_epoch == after.leader_epoch
        and before.start_offset <= after.start_offset
    )


def _joined(before: writes.PartitionData | None, after: Any) -> Any:
    """Return two writes of a leader as one; the later one knows the start and the count."""
    if before is None:
        return after
    return writes.PartitionData(
        partition=after.partition,
        state_epoch=after.state_epoch,
        leader_epoch=after.leader_epoch,
        start_offset=after.start_offset,
        delivery_complete_count=after.delivery_complete_count,
        state_batches=[*before.state_batches, *after.state_batches],
    )
