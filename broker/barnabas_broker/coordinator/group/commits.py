"""Commits, fetches and removals of offsets, and the deletion of groups.

Not here: the store itself (`offsets.py`) and the records' bytes (`records.py`). Source: OFS-7 to
OFS-11, GRP-19, TXN-4, TXN-12.

Invariants: a change of the store and its record are made together; a group with offsets exists in
the shard; a group goes away when its tombstones are decided, and comes back if they are refused; an
offset of a topic whose name is another's now is nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.consumer_groups import ConsumerGroups
from barnabas_broker.coordinator.group.consumer.offset_checks import (
    MEMBER_EPOCHS_SINCE,
    check_commit,
    check_fetch,
)
from barnabas_broker.coordinator.group.expiry import (
    expired_of_consumer_group,
    expired_partitions,
)
from barnabas_broker.coordinator.group.groups import Groups
from barnabas_broker.coordinator.group.offsets import OffsetStore
from barnabas_broker.coordinator.group.rebalance import Rebalancer
from barnabas_broker.coordinator.group.records import (
    CommittedOffset,
    OffsetKey,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.group.share.share_groups import ShareGroups
from barnabas_broker.coordinator.group.topics import NO_TOPIC, Topics, is_of
from barnabas_broker.coordinator.runtime.shard import (
    AppendHook,
    CoordinatorRecord,
    Instant,
    Result,
    TransactionWrite,
    no_change,
)
from barnabas_protocol.consumer_protocol import PROTOCOL_TYPE
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.delete_groups import DeletableGroupResult
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas_protocol.records.control import ControlType, TransactionMarker

TRANSACTION_EPOCHS_SINCE = 6
# No transaction is open for longer: the log of one that seems to be was imported without its end.
TRANSACTION_MS_MAX = 24 * 60 * 60 * 1000


class OffsetCommands:
    """What can be done with the offsets of one shard."""

    def __init__(
        self,
        rebalancer: Rebalancer,
        groups: Groups,
        consumer_groups: ConsumerGroups,
        share_groups: ShareGroups,
        store: OffsetStore,
        topics: Topics,
    ) -> None:
        self._rebalancer = rebalancer
        self._settings = rebalancer.settings
        self._metrics = rebalancer.metrics
        self._groups = groups
        self._consumer_groups = consumer_groups
        self._share_groups = share_groups
        self._store = store
        self._topics = topics

    # ---- commit --------------------------------------------------------------------------------

    def commit(
        self,
        request: OffsetCommitRequest,
        now: Instant,
        api_version: int = 0,
        host: str = "",
    ) -> Result[OffsetCommitResponse]:
        """Store the offsets of a commit.

        Raises: KafkaError if the group refuses the whole request.
        """
        self._admit(request, now, api_version, host)
        retention_ms = request.retention_time_ms
        expire_ms = -1 if retention_ms < 0 else now.wall_ms + retention_ms
        records: list[CoordinatorRecord] = []
        topics: list[OffsetCommitResponseTopic] = []
        for topic in request.topics:
            results: list[OffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                index = partition.partition_index
                key = OffsetKey(request.group_id, topic.name, index)
                committed = self._committed(key, partition, now, expire_ms)
                code = ErrorCode.NONE
                if isinstance(committed, ErrorCode):
                    code = committed
                else:
                    records.append(offset_record(key, committed))
                    self._store.put(key, committed)
                results.append(
                    OffsetCommitResponsePartition(partition_index=index, error_code=code)
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
        self._metrics.commit_count += len(records)
        return Result(reply=OffsetCommitResponse(topics=topics), records=records)

    def _committed(
        self,
        key: OffsetKey,
        partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
        now: Instant,
        expire_ms: int = -1,
    ) -> CommittedOffset | ErrorCode:
        """Return what a commit is to store for a partition, or why it cannot (OFS-7)."""
        bytes_max = self._settings.offset_metadata_bytes_max
        metadata = partition.committed_metadata or ""
        if not self._exists(key.topic, key.partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if len(metadata) > bytes_max or len(metadata.encode()) > bytes_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            metadata,
            now.wall_ms,
            expire_ms,
            self._topics.topic_id(key.topic) or ZERO_UUID,
        )

    # ---- in transactions -----------------------------------------------------------------------

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        now: Instant,
        api_version: int,
        host: str,
        check: Callable[[], None] | None = None,
    ) -> Result[TxnOffsetCommitResponse]:
        """Store offsets that show when the producer's transaction commits (TXN-4).

        `check` raises if that is not open any more when they are appended.
        Topics are named, whatever the version; one that is also given by id may have been made anew
        under its name since. Raises: KafkaError if the group refuses the whole request.
        """
        self._admit_in_transaction(request, now, api_version, host)
        records: list[CoordinatorRecord] = []
        topics: list[TxnOffsetCommitResponseTopic] = []
        for topic in request.topics:
            results: list[TxnOffsetCommitResponsePartition] = []
            is_known = topic.topic_id in (ZERO_UUID, self._topics.topic_id(topic.name))
            for partition in topic.partitions:
                index = partition.partition_index
                key = OffsetKey(request.group_id, topic.name, index)
                committed: CommittedOffset | ErrorCode = ErrorCode.UNKNOWN_TOPIC_ID
                if is_known:
                    committed = self._committed(key, partition, now)
                code = ErrorCode.NONE
                if isinstance(committed, ErrorCode):
                    code = committed
                else:
                    records.append(offset_record(key, committed))
                    self._store.put_pending(request.producer_id, key, committed)
                results.append(
                    TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
                )
            topics.append(
                TxnOffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=results
                )
            )
        self._metrics.commit_count += len(records)
        producer = request.producer_id, request.producer_epoch
        write = TransactionWrite(*producer, check=check) if records else None
        return Result(
            reply=TxnOffsetCommitResponse(topics=topics), records=records, transaction=write
        )

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: TransactionMarker,
        check: Callable[[], None] | None = None,
    ) -> Result[None]:
        """Take over or drop what a producer has committed in its transaction (TXN-12).

        `check` raises if the marker is not of that transaction; all is undone then.
        """
        self._store.end_transaction(producer_id, marker.control_type is ControlType.COMMIT)
        write = TransactionWrite(producer_id, producer_epoch, marker, check)
        return Result(reply=None, transaction=write)

    def _admit_in_transaction(
        self, request: TxnOffsetCommitRequest, now: Instant, api_version: int, host: str
    ) -> None:
        """Decide whether the group takes a commit of a producer (TXN-4).

        A producer that says nothing of a member commits beside them: it is the transactional id
        that fences then.
        """
        self._refuse_share_group(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        consumer_group = self._consumer_groups.get(request.group_id)
        if consumer_group is not None:
            check_commit(
                consumer_group,
                request.member_id,
                generation_id,
                self._partitions_of(request),
                None,
                names_instance=request.group_instance_id is not None,
            )
            return
        group = self._groups.get(request.group_id)
        is_new = api_version >= TRANSACTION_EPOCHS_SINCE
        if group is None:
            if generation_id >= 0:
                code = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
                raise KafkaError(code)
            self._create_for_offsets(request.group_id, now, host)
            return
        if group.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_id < 0 and group.is_empty:
            return
        if generation_id >= 0 or request.member_id or request.group_instance_id is not None:
            group.validate(request.member_id, request.group_instance_id)
            if generation_id != group.generation_id:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def _admit(
        self, request: OffsetCommitRequest, now: Instant, api_version: int, host: str
    ) -> None:
        """Decide whether the group takes the commit (GRP-19); count it as a heartbeat."""
        self._refuse_share_group(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        consumer_group = self._consumer_groups.get(request.group_id)
        if consumer_group is not None:
            partitions = self._partitions_of(request)
            check_commit(consumer_group, request.member_id, generation_id, partitions, api_version)
            return
        group = self._groups.get(request.group_id)
        if group is None:
            if generation_id >= 0:
                # KIP-848: new clients tell a lost group from a lost generation.
                is_new = api_version >= MEMBER_EPOCHS_SINCE
                code = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
                raise KafkaError(code)
            self._create_for_offsets(request.group_id, now, host)
            return
        if group.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_id < 0 and group.is_empty:
            return
        if generation_id < 0 and not request.member_id and request.group_instance_id is None:
            # Only members may commit while there are any.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.validate(request.member_id, request.group_instance_id)
        if generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        self._rebalancer.touch(group, member, now)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def _refuse_share_group(self, group_id: str) -> None:
        """Share groups commit no offsets. Raises: KafkaError 69."""
        if group_id in self._share_groups:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )

    def _partitions_of(
        self, request: OffsetCommitRequest | TxnOffsetCommitRequest
    ) -> Iterator[tuple[bytes | None, int]]:
        for topic in request.topics:
            topic_id = self._topics.topic_id(topic.name)
            for partition in topic.partitions:
                yield topic_id, partition.partition_index

    def _create_for_offsets(self, group_id: str, now: Instant, host: str) -> None:
        """Make a group that has nothing but offsets. Raises: KafkaError 81."""
        if not self._groups.quota.has_room(host):
            self._rebalancer.make_room(now)
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        self._groups.create(group_id, now.wall_ms, host)

    def _exists(self, topic: str, index: int) -> bool:
        """Whether a partition exists; a commit for one that does not is refused (OFS-7)."""
        return 0 <= index < self._topics.partition_count(topic)

    # ---- fetch ---------------------------------------------------------------------------------

    def fetch(
        self, request: OffsetFetchRequestGroup, require_stable: bool
    ) -> Result[OffsetFetchResponseGroup]:
        """Return committed offsets; -1 where there is none, never an error for that (OFS-11).

        Raises: KafkaError if a member of a consumer group asks at another epoch (CG-6).
        """
        group_id = request.group_id
        self._refuse_share_group(group_id)
        consumer_group = self._consumer_groups.get(group_id)
        if consumer_group is not None:
            check_fetch(consumer_group, request.member_id, request.member_epoch)
        wanted: Iterable[tuple[str, Collection[int]]]
        if request.topics is None:
            by_topic: dict[str, list[int]] = {}
            for topic, index in self.offsets_of(group_id):
                by_topic.setdefault(topic, []).append(index)
            wanted = by_topic.items()
        else:
            wanted = ((topic.name, topic.partition_indexes) for topic in request.topics)
        topics = [
            OffsetFetchResponseTopics(
                name=topic,
                partitions=[
                    self._fetch_one(OffsetKey(group_id, topic, index), require_stable)
                    for index in indexes
                ],
            )
            for topic, indexes in wanted
        ]
        return Result(
            reply=OffsetFetchResponseGroup(group_id=group_id, topics=topics),
            waits_for_commit=True,
        )

    def _fetch_one(self, key: OffsetKey, require_stable: bool) -> OffsetFetchResponsePartitions:
        if require_stable and self._store.is_pending(key):
            return OffsetFetchResponsePartitions(
                partition_index=key.partition,
                committed_offset=-1,
                metadata="",
                error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
            )
        committed = self._store.of_group(key.group_id).get((key.topic, key.partition))
        if committed is None or not self._is_current(key.topic, committed):
            return OffsetFetchResponsePartitions(
                partition_index=key.partition, committed_offset=-1, metadata=""
            )
        return OffsetFetchResponsePartitions(
            partition_index=key.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    def offsets_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Return topic and partition of the group's offsets that are of the topics of today."""
        for (topic, index), committed in self._store.of_group(group_id).items():
            if self._is_current(topic, committed):
                yield topic, index

    def _is_current(self, topic: str, committed: CommittedOffset) -> bool:
        return is_of(committed.topic_id, self._topics.topic_id(topic))

    # ---- removal of offsets ----------------------------------------------------------------------

    def delete_offsets(self, request: OffsetDeleteRequest) -> Result[OffsetDeleteResponse]:
        """Remove the offsets that an admin names, except of topics that are being consumed.

        A partition that does not exist is refused.

        Raises: KafkaError if the group is unknown, or has members of another protocol type.
        """
        self._refuse_share_group(request.group_id)
        group: ClassicGroup | ConsumerGroup | None = self._consumer_groups.get(request.group_id)
        if group is None:
            group = self._groups.get(request.group_id)
        if group is None or group.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.is_empty and group.protocol_type != PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        records: list[CoordinatorRecord] = []
        topics: list[OffsetDeleteResponseTopic] = []
        for topic in request.topics:
            is_consumed = group.is_subscribed_to(topic.name)
            answers = []
            for index in (partition.partition_index for partition in topic.partitions):
                code = ErrorCode.NONE
                if not self._exists(topic.name, index):
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif is_consumed:
                    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                else:
                    records += self._remove(group.group_id, [(topic.name, index)])
                answers.append(
                    OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                )
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        self._metrics.deleted_offset_count += len(records)
        return Result(
            reply=OffsetDeleteResponse(topics=topics),
            records=records,
            waits_for_commit=True,
            is_atomic=False,
        )

    def delete_topics(self, deleted: Mapping[str, bytes]) -> Result[None]:
        """Remove the offsets of deleted topics, given by name and id, from all groups (OFS-10).

        A topic that has the name by now keeps what was committed for it, in transactions that have
        not ended, too: what is left beside those is nobody's, and goes with the next expiry.
        """
        records: list[CoordinatorRecord] = []

        def is_gone(topic: str, committed: CommittedOffset) -> bool:
            topic_id = deleted.get(topic)
            return topic_id is not None and (
                committed.topic_id in (topic_id, NO_TOPIC)
                or ZERO_UUID in (committed.topic_id, topic_id)
            )

        for group_id in [*self._groups, *self._consumer_groups]:
            pending = self._store.pending_of(group_id)
            gone = [key for key, committed in pending.items() if is_gone(key[0], committed)]
            # A tombstone would take along what a transaction has of the next topic.
            gone += [
                key
                for key, committed in self._store.of_group(group_id).items()
                if key not in pending and is_gone(key[0], committed)
            ]
            records += self._remove(group_id, gone)
        self._metrics.deleted_offset_count += len(records)
        return Result(reply=None, records=records, is_atomic=False)

    def _remove(
        self, group_id: str, partitions: Iterable[tuple[str, int]]
    ) -> list[CoordinatorRecord]:
        """Remove offsets, those that wait for the end of a transaction too."""
        records: list[CoordinatorRecord] = []
        for topic, index in dict.fromkeys(partitions):
            key = OffsetKey(group_id, topic, index)
            if (topic, index) in self._store.of_group(group_id) or self._store.is_pending(key):
                self._store.remove(key)
                records.append(offset_tombstone(key))
        return records

    # ---- removal of groups -----------------------------------------------------------------------

    def delete_group(self, group_id: str) -> Result[DeletableGroupResult]:
        """Delete a group that is Empty, with its offsets (OFS-10).

        Of a share group, the state of its partitions must have been deleted before (SHR-32).
        """
        share_group = self._share_groups.get(group_id)
        if share_group is not None:
            return self._delete_share_group(share_group)
        consumer_group = self._consumer_groups.get(group_id)
        if consumer_group is not None and consumer_group.is_empty:
            records = self._remove_all(group_id)
            records += self._take_out_consumer_group(consumer_group)
            return Result(
                reply=DeletableGroupResult(group_id=group_id), records=records, is_atomic=False
            )
        group = self._groups.get(group_id)
        if consumer_group is not None:
            code = ErrorCode.NON_EMPTY_GROUP
        elif group is None or group.state is GroupState.DEAD:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            code = ErrorCode.NON_EMPTY_GROUP
        else:
            records = self._remove_all(group_id)
            records.append(group_tombstone(group_id))
            self.take_out(group)
            return Result(
                reply=DeletableGroupResult(group_id=group_id),
                records=records,
                on_append=self._bury_when_committed([group]),
                is_atomic=False,
            )
        # It may be unknown because it is just being deleted.
        return Result(
            reply=DeletableGroupResult(group_id=group_id, error_code=code), waits_for_commit=True
        )

    def _delete_share_group(self, group: ShareGroup) -> Result[DeletableGroupResult]:
        reply = DeletableGroupResult(group_id=group.group_id)
        if not group.is_empty:
            reply.error_code = ErrorCode.NON_EMPTY_GROUP
        elif not group.partitions.is_empty:
            # Somebody has begun with it again meanwhile.
            reply.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            return Result(reply=reply, records=self._take_out_share_group(group))
        return Result(reply=reply, waits_for_commit=True)

    def expire(self, group: ClassicGroup, now: Instant) -> list[CoordinatorRecord]:
        """Remove the group's expired offsets; returns their tombstones (OFS-8, OFS-9).

        The group's own tombstone follows if it is Empty and has no offset left.
        """
        offsets = self._store.of_group(group.group_id)
        retention_ms = self._settings.offsets_retention_ms
        expired = expired_partitions(group, offsets, now.wall_ms, retention_ms)
        records = self._expire(group.group_id, expired, now)
        if self.is_abandoned(group):
            if group.generation_id > 0:
                records.append(group_tombstone(group.group_id))
            self.take_out(group)
        return records

    def expire_consumer_group(self, group: ConsumerGroup, now: Instant) -> list[CoordinatorRecord]:
        """Do the same for a consumer group."""
        offsets = self._store.of_group(group.group_id)
        retention_ms = self._settings.offsets_retention_ms
        expired = expired_of_consumer_group(group, offsets, now.wall_ms, retention_ms)
        records = self._expire(group.group_id, expired, now)
        if group.is_empty and not self._store.has_any(group.group_id):
            records += self._take_out_consumer_group(group)
        return records

    def expire_share_group(self, group: ShareGroup) -> list[CoordinatorRecord]:
        """Take out a share group without members of whose partitions there is no state."""
        if group.is_empty and group.partitions.is_empty:
            return self._take_out_share_group(group)
        return []

    def _take_out_share_group(self, group: ShareGroup) -> list[CoordinatorRecord]:
        changes = self._share_groups.changes(group)
        changes.everything_removed()
        self._share_groups.take_out(group)
        self._metrics.deleted_group_count += 1
        return changes.records

    def _take_out_consumer_group(self, group: ConsumerGroup) -> list[CoordinatorRecord]:
        changes = self._consumer_groups.changes(group)
        changes.everything_removed()
        self._consumer_groups.take_out(group)
        self._store.forget_group(group.group_id)
        self._metrics.deleted_group_count += 1
        return changes.records

    def _remove_all(self, group_id: str) -> list[CoordinatorRecord]:
        records = self._remove(
            group_id, [*self._store.of_group(group_id), *self._store.pending_of(group_id)]
        )
        self._metrics.deleted_offset_count += len(records)
        return records

    def _expire(
        self, group_id: str, expired: list[tuple[str, int]], now: Instant
    ) -> list[CoordinatorRecord]:
        """Remove offsets that have expired, and those of topics that are gone."""
        retention_ms = self._settings.offsets_retention_ms
        offsets = self._store.of_group(group_id)
        expired += [
            key for key, committed in offsets.items() if not self._is_current(key[0], committed)
        ]
        since_ms = now.wall_ms - max(retention_ms, TRANSACTION_MS_MAX)
        pending = self._store.pending_of(group_id)
        expired += [key for key, committed in pending.items() if committed.commit_ms <= since_ms]
        records = self._remove(
            group_id,
            [
                (topic, index)
                for topic, index in expired
                if not self._store.is_pending(OffsetKey(group_id, topic, index), since_ms)
            ],
        )
        self._metrics.expired_offset_count += len(records)
        return records

    def is_abandoned(self, group: ClassicGroup) -> bool:
        """Whether nothing speaks for keeping the group."""
        return (
            group.is_empty
            and not group.pending_member_ids
            and not self._store.has_any(group.group_id)
        )

    def take_out(self, group: ClassicGroup) -> None:
        """Forget a group whose tombstones are decided, or of which the log knows nothing."""
        self._groups.take_out(group)
        self._store.forget_group(group.group_id)

    def bury(self, groups: Iterable[ClassicGroup], now: Instant) -> None:
        """End groups that were taken out, now that this is committed."""
        for group in groups:
            for member_id in group.pending_member_ids:
                self._rebalancer.stop_session(group, member_id)
            group.transition(GroupState.DEAD, now.wall_ms)
            self._metrics.deleted_group_count += 1

    def _bury_when_committed(self, groups: list[ClassicGroup]) -> AppendHook:
        def on_append(error: KafkaError | None, now: Instant) -> Result[None]:
            if error is None:
                self.bury(groups, now)
            else:
                self._metrics.append_failure_count += 1
            return no_change()

        return on_append
