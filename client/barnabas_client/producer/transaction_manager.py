"""Sends the requests of a transactional producer to its coordinator, and to that of a group.

Not here: what may be called when (`transactions.py`), records (`sender.py`).

Source: KIP-98, KIP-360, KIP-447 (group metadata with offsets), KIP-890 (version 2).

Invariants: every call ends by `max_block_ms`; one that got no response can be repeated, because the
coordinator responds to a repeated request as to the first; behind the end of a transaction nothing
is requested for it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.errors import (
    AuthorizationError,
    BarnabasError,
    CommitFailedError,
    FencedError,
    RetriableError,
    TimedOutError,
    error_for,
    known_code,
)
from barnabas_client.network.client import CoordinatorType
from barnabas_client.producer.idempotence import Identities, ProducerIdentity
from barnabas_client.producer.queues import PartitionQueue
from barnabas_client.producer.transactions import ProducerTransaction, TransactionStatus
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import RETRIABLE, ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas_protocol.messages.end_txn import EndTxnRequest
from barnabas_protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from barnabas_client.config.producer_settings import ProducerSettings
    from barnabas_client.network.client import Client

# The markers of the transaction before are written in a moment (Java waits as long).
_CONCURRENT_WAIT_MS: Final = 20
_COORDINATOR_ERRORS: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_RETRIED: Final = RETRIABLE | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    *_COORDINATOR_ERRORS,
}
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
# Errors of a member that was replaced in its group.
_LOST_MEMBERSHIP: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
)
_VERSION_2_FEATURE: Final = "transaction.version"


class TransactionManager:
    """The requests to coordinators; the sender's `IdentitySource` in a transactional producer."""

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings,
        state: ProducerTransaction,
        identities: Identities,
    ) -> None:
        self._client = client
        self._state = state
        self._identities = identities
        self._transaction_timeout_ms = settings.transaction_timeout_ms
        self._max_block_ms = settings.max_block_ms
        # Who adds partitions now, in the sender's name.
        self._acquiring: asyncio.Task[None] | None = None

    # ---- for the sender --------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Always: without a producer id no transaction is open, and nothing waits."""
        return True

    @property
    def produce_version_max(self) -> int:
        """From 12 on Produce adds partitions by itself, which only version 2 allows."""
        return 13 if self._state.is_version_2 else 11

    @property
    def needs_acquire(self) -> bool:
        """Whether partitions must be added to the transaction."""
        return bool(self._state.wanted) and self._state.is_sending

    def sendable(self, queues: list[PartitionQueue]) -> list[PartitionQueue]:
        """The queues whose partitions belong to the transaction."""
        return self._state.sendable(queues)

    @property
    def failure(self) -> BarnabasError | None:
        """Why no batch may be sent any more."""
        return self._state.abort_reason

    async def acquire(self) -> None:
        """Add the wanted partitions to the transaction, all in one request."""
        state = self._state
        wanted = state.wanted
        by_topic: dict[str, list[int]] = {}
        for name, partition in wanted:
            by_topic.setdefault(name, []).append(partition)
        topics = [AddPartitionsToTxnTopic(name=n, partitions=p) for n, p in by_topic.items()]
        identity = self._identity()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=state.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=topics,
        )
        state.is_begun_at_broker = True
        self._acquiring = asyncio.current_task()
        try:
            await self._request(request, ApiKey.ADD_PARTITIONS_TO_TXN, 3, _worst_of_partitions)
        except BarnabasError as error:
            state.fail(error)
            return
        finally:
            self._acquiring = None
        state.partitions_added(wanted)

    async def _stop_acquiring(self) -> None:
        """Ask for no partition any more, as the transaction ends.

        A request that was repeated later would belong to no transaction, or to the next one.
        """
        acquiring = self._acquiring
        if acquiring is not None:
            acquiring.cancel()
            await asyncio.wait((acquiring,))

    # ---- for the application ---------------------------------------------------------------

    async def initialize(self) -> None:
        """Get the producer id; the coordinator aborts what a former instance left open."""
        state = self._state
        state.move(TransactionStatus.INITIALIZING)
        try:
            await self._check_transactions_are_served()
            await self._init_producer_id(ProducerIdentity(-1, -1))
            await self._choose_version()
        except RetriableError:
            state.move(TransactionStatus.UNINITIALIZED)
            raise
        except BarnabasError as error:
            state.break_down(error)
            raise
        except asyncio.CancelledError:
            state.move(TransactionStatus.UNINITIALIZED)
            raise
        state.move(TransactionStatus.READY)

    async def _check_transactions_are_served(self) -> None:
        """Fail at once where no coordinator will ever be found.

        Raises: UnsupportedError if the first broker that responds does not know transactions.
        """
        for node_id in self._client.cluster.nodes:
            try:
                await self._client.version(node_id, ApiKey.END_TXN)
            except RetriableError:
                continue
            return

    async def _init_producer_id(self, former: ProducerIdentity) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._state.transactional_id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            producer_id=former.producer_id,
            producer_epoch=former.producer_epoch,
        )
        response = await self._request(request, ApiKey.INIT_PRODUCER_ID, 5, _own_code)
        self._identities.current = ProducerIdentity(response.producer_id, response.producer_epoch)

    async def _choose_version(self) -> None:
        """Choose the protocol version of the next transaction."""
        node_id = await self._transaction_node()
        version = await self._client.version(node_id, ApiKey.END_TXN)
        level = self._client.finalized_features(node_id).get(_VERSION_2_FEATURE, 0)
        self._state.is_version_2 = level >= 2 and version >= 5

    async def end(self, *, is_committed: bool) -> None:
        """Commit or abort; no batch of the transaction may wait or be in flight any more."""
        state = self._state
        identity = self._identity()
        await self._stop_acquiring()
        if state.is_begun_at_broker and not state.has_ended_at_broker:
            request = EndTxnRequest(
                transactional_id=state.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                committed=is_committed,
            )
            version_max = 5 if state.is_version_2 else 4
            state.is_end_sent = True
            try:
                response = await self._request(request, ApiKey.END_TXN, version_max, self._end_code)
            except RetriableError:
                raise
            except BarnabasError as error:
                self._on_end_error(error)
                raise
            # What follows may fail or be cancelled; then the next call continues from here.
            state.has_ended_at_broker = True
            if state.is_version_2 and response.producer_id >= 0:
                self._identities.current = ProducerIdentity(
                    response.producer_id, response.producer_epoch
                )
                state.needs_new_epoch = False
        if state.needs_new_epoch and self._identity() == identity:
            await self._bump_epoch(identity)
            state.needs_new_epoch = False
        await self._choose_version()
        state.end()

    def _end_code(self, response: Any) -> int:
        """The code of an EndTxn response, NONE where there was nothing to abort.

        With version 1 a coordinator that has refused all partitions knows of no transaction.
        """
        state, code = self._state, int(response.error_code)
        if (
            code == ErrorCode.INVALID_TXN_STATE
            and state.status is TransactionStatus.ABORTING
            and not state.is_known_at_broker
        ):
            state.needs_new_epoch = True
            return ErrorCode.NONE
        return code

    def _on_end_error(self, error: BarnabasError) -> None:
        if error.code == ErrorCode.TRANSACTION_ABORTABLE:
            self._state.fail(error)
        else:
            self._state.break_down(error)

    async def _bump_epoch(self, identity: ProducerIdentity) -> None:
        """Bump the epoch after sequences were lost (KIP-360)."""
        try:
            await self._init_producer_id(identity)
        except RetriableError:
            raise
        except BarnabasError as error:
            self._state.break_down(error)
            raise

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Make the group's offsets part of the transaction."""
        state = self._state
        identity = self._identity()
        state.is_begun_at_broker = True
        try:
            if not state.is_version_2:
                request = AddOffsetsToTxnRequest(
                    transactional_id=state.transactional_id,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    group_id=group.group_id,
                )
                await self._request(request, ApiKey.ADD_OFFSETS_TO_TXN, 4, _own_code)
                state.is_known_at_broker = True
            await self._commit_offsets(offsets, group, identity)
        except RetriableError:
            raise
        except BarnabasError as error:
            state.fail(error)
            raise

    async def _commit_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        identity: ProducerIdentity,
    ) -> None:
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self._state.transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=n, partitions=p) for n, p in by_topic.items()],
        )
        kind, key = CoordinatorType.GROUP, group.group_id
        version_max = 5 if self._state.is_version_2 else 4
        await self._request_coordinator(
            kind, key, request, ApiKey.TXN_OFFSET_COMMIT, version_max, _worst_of_offsets
        )

    # ---- requests --------------------------------------------------------------------------

    def _identity(self) -> ProducerIdentity:
        identity = self._identities.current
        assert identity is not None
        return identity

    async def _transaction_node(self) -> int:
        return await self._client.coordinator(
            CoordinatorType.TRANSACTION, self._state.transactional_id, timeout_ms=self._max_block_ms
        )

    def _request(
        self, request: Any, api: ApiKey, version_max: int, code_of: Callable[[Any], int]
    ) -> Awaitable[Any]:
        kind, key = CoordinatorType.TRANSACTION, self._state.transactional_id
        return self._request_coordinator(kind, key, request, api, version_max, code_of)

    async def _request_coordinator(
        self,
        kind: CoordinatorType,
        key: str,
        request: Any,
        api: ApiKey,
        version_max: int,
        code_of: Callable[[Any], int],
    ) -> Any:
        """Repeat the request until the response is neither "not now" nor "not coordinator".

        Raises: TimedOutError after `max_block_ms`; the errors of other responses.
        """
        client = self._client
        clock = client.environment.clock
        deadline_ms = clock.monotonic_ms() + self._max_block_ms
        attempt = 0
        while True:
            wait_ms = client.backoff_ms(attempt)
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                raise TimedOutError(f"{api.name} got no response within {self._max_block_ms} ms")
            try:
                node_id = await client.coordinator(kind, key, timeout_ms=left_ms)
                version = await client.version(node_id, api, maximum=version_max)
                response = await client.request(node_id, request, version=version)
            except RetriableError:
                client.forget_coordinator(kind, key)
            else:
                code = code_of(response)
                if code == ErrorCode.NONE:
                    return response
                if code not in _RETRIED:
                    raise _error_for(api, code)
                if code in _COORDINATOR_ERRORS:
                    client.forget_coordinator(kind, key)
                elif code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    wait_ms = _CONCURRENT_WAIT_MS
            await asyncio.sleep(wait_ms / 1000)
            attempt += 1


def _own_code(response: Any) -> int:
    return int(response.error_code)


def _worst(codes: list[int]) -> int:
    """The code that decides: a fatal one before a retriable one."""
    for code in codes:
        if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED, *_RETRIED):
            return code
    return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)


def _worst_of_partitions(response: Any) -> int:
    topics = response.results_by_topic_v3_and_below
    return _worst([p.partition_error_code for t in topics for p in t.results_by_partition])


def _worst_of_offsets(response: Any) -> int:
    return _worst([p.error_code for topic in response.topics for p in topic.partitions])


def _error_for(api: ApiKey, code: int) -> BarnabasError:
    if code in _FENCED:
        return FencedError(
            "a newer producer with the same transactional_id has taken over, or the transaction "
            "was open for longer than transaction_timeout_ms: close this producer",
            known_code(code),
        )
    if code in _LOST_MEMBERSHIP:
        return CommitFailedError(
            "the consumer is no longer the group's member that read these records: abort, and "
            "poll again",
            known_code(code),
        )
    error = error_for(code, f"{api.name} was refused")
    if isinstance(error, AuthorizationError):
        return AuthorizationError(f"the credentials do not allow {api.name}", error.code)
    return error
