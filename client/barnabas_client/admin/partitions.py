"""`admin.partitions`: ListOffsets (2), DeleteRecords (21), OffsetForLeaderEpoch (23),
ElectLeaders (43), AlterPartitionReassignments (45) and ListPartitionReassignments (46). Timestamps
of records are fetched with them (`record_times.py`).

Offsets, epochs and records are sent to partition leaders, the rest of the controller.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from barnabas_client.admin.api_errors import ApiError, error_of, errors_of, outcomes_of
from barnabas_client.admin.lookup_strategies import ControllerStrategy, PartitionLeaderStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext, nameless
from barnabas_client.admin.values.partitions import (
    ElectionType,
    OffsetSpec,
    PartitionOffset,
    Reassignment,
)
from barnabas_client.cluster.partitions import by_topic
from barnabas_client.errors import UsageError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

# The first version of ListOffsets that knows a spec; 2 knows read_committed.
_VERSION_BY_SPEC: Final[dict[int, int]] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
_READ_COMMITTED_VERSION: Final = 2
# A broker looks each of them up before it serves anybody else.
_OFFSETS_PER_REQUEST: Final = 500


class Partitions:
    """What can be done about partitions."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, PartitionOffset]:
        """Offsets by spec, or by timestamp in milliseconds: the first record that is not older.

        Raises: UsageError for a negative timestamp that is no spec.
        """
        specs = {partition: _timestamp(spec) for partition, spec in wanted.items()}
        needed = max((_VERSION_BY_SPEC.get(spec, 1) for spec in specs.values()), default=1)
        call = Call[TopicPartition, PartitionOffset](
            action="list offsets of",
            api=ApiKey.LIST_OFFSETS,
            to=PartitionLeaderStrategy(lambda partition: partition),
            build=lambda context: _list_offsets(context, specs, read_committed),
            read=lambda response, context: {
                TopicPartition(topic.name, one.partition_index): error_of(one)
                or PartitionOffset(
                    offset=_known(one.offset),
                    timestamp_ms=_known(one.timestamp),
                    leader_epoch=_known(one.leader_epoch),
                )
                for topic in response.topics
                for one in topic.partitions
            },
            version_min=max(needed, _READ_COMMITTED_VERSION if read_committed else 1),
            items_per_request=lambda _: _OFFSETS_PER_REQUEST,
        )
        return await self._routing.each(specs, call, timeout_ms)

    async def epoch_ends(
        self, leader_epochs: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, int | None]:
        """Where the log has ended the leader epoch, or the last one before it; exclusive.

        Below it a log is what it was under that epoch: who has read further has read records that
        are gone (KIP-101). None where the log knows no such epoch.
        """
        call = Call[TopicPartition, int | None](
            action="look up a leader epoch of",
            api=ApiKey.OFFSET_FOR_LEADER_EPOCH,
            to=PartitionLeaderStrategy(lambda partition: partition),
            build=lambda context: OffsetForLeaderEpochRequest(
                topics=[
                    OffsetForLeaderTopic(
                        topic=topic,
                        partitions=[
                            OffsetForLeaderPartition(
                                partition=one.partition, leader_epoch=leader_epochs[one]
                            )
                            for one in partitions
                        ],
                    )
                    for topic, partitions in by_topic(context.keys).items()
                ]
            ),
            read=lambda response, context: {
                TopicPartition(topic.topic, one.partition): error_of(one) or _known(one.end_offset)
                for topic in response.topics
                for one in topic.partitions
            },
            items_per_request=lambda _: _OFFSETS_PER_REQUEST,
        )
        return await self._routing.each(leader_epochs, call, timeout_ms)

    async def record_timestamps(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, int | None]:
        """The timestamp in milliseconds of the record at each offset, or of the first behind it.

        None where there is no record, or one without a timestamp.
        """
        from barnabas_client.admin.record_times import record_timestamps

        return await record_timestamps(self._routing, offsets, timeout_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, int]:
        """Delete the records before an offset (exclusive), -1 for all.

        The value is the log start offset from now on. What consumers have not read is lost.
        """
        call = Call[TopicPartition, int](
            action="delete records of",
            api=ApiKey.DELETE_RECORDS,
            to=PartitionLeaderStrategy(lambda partition: partition),
            build=lambda context: DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=one.partition, offset=before[one]
                            )
                            for one in partitions
                        ],
                    )
                    for topic, partitions in by_topic(context.keys).items()
                ],
                timeout_ms=context.timeout_ms,
            ),
            read=lambda response, context: {
                TopicPartition(topic.name, one.partition_index): error_of(one) or one.low_watermark
                for topic in response.topics
                for one in topic.partitions
            },
            is_change=True,
        )
        return await self._routing.each(before, call, timeout_ms)

    async def elect_leaders(
        self,
        election_type: ElectionType = ElectionType.PREFERRED,
        partitions: Collection[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Elect leaders; of all partitions that need it if none are named.

        A named partition that needs no election has an error with ELECTION_NOT_NEEDED.
        """
        version_min = 1 if election_type is not ElectionType.PREFERRED else 0
        if partitions is None:
            everything = Call[None, Mapping[TopicPartition, ApiError | None]](
                action="elect leaders",
                api=ApiKey.ELECT_LEADERS,
                to=ControllerStrategy(),
                build=lambda context: ElectLeadersRequest(
                    election_type=election_type,
                    topic_partitions=None,
                    timeout_ms=context.timeout_ms,
                ),
                read=lambda response, context: {None: error_of(response) or _elections(response)},
                name=nameless,
                is_change=True,
                version_min=version_min,
            )
            elected = await self._routing.one(everything, timeout_ms)
            return outcomes_of("elect leader of", elected)
        call = Call[TopicPartition, None](
            action="elect leader of",
            api=ApiKey.ELECT_LEADERS,
            to=ControllerStrategy(),
            build=lambda context: ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=[
                    TopicPartitions(topic=topic, partitions=[one.partition for one in some])
                    for topic, some in by_topic(context.keys).items()
                ],
                timeout_ms=context.timeout_ms,
            ),
            read=lambda response, context: (
                errors_of(context.keys, response) or _elections(response)
            ),
            is_change=True,
            version_min=version_min,
        )
        return await self._routing.each(partitions, call, timeout_ms)

    async def reassign(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Begin to move partitions to these brokers, the preferred leader first.

        None cancels a move that is under way. `list_reassignments` tells when it is done.
        """
        call = Call[TopicPartition, None](
            action="reassign",
            api=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            to=ControllerStrategy(),
            build=lambda context: AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name=topic, partitions=[_target(one, targets[one]) for one in some]
                    )
                    for topic, some in by_topic(context.keys).items()
                ],
                allow_replication_factor_change=allow_replication_factor_change,
                timeout_ms=context.timeout_ms,
            ),
            read=lambda response, context: (
                errors_of(context.keys, response)
                or {
                    TopicPartition(topic.name, one.partition_index): error_of(one)
                    for topic in response.responses
                    for one in topic.partitions
                }
            ),
            is_change=True,
            # Before, a request could not forbid the change.
            version_min=0 if allow_replication_factor_change else 1,
        )
        return await self._routing.each(targets, call, timeout_ms)

    async def list_reassignments(
        self,
        partitions: Collection[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Reassignment]:
        """The partitions that are on the move, among those named if any are.

        Raises: TimedOutError, or what the broker says.
        """
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(
                    name=topic, partition_indexes=[one.partition for one in some]
                )
                for topic, some in by_topic(partitions).items()
            ]
        call = Call[None, dict[TopicPartition, Reassignment]](
            action="list reassignments",
            api=ApiKey.LIST_PARTITION_REASSIGNMENTS,
            to=ControllerStrategy(),
            build=lambda context: ListPartitionReassignmentsRequest(
                topics=topics, timeout_ms=context.timeout_ms
            ),
            read=lambda response, context: {None: error_of(response) or _reassignments(response)},
            name=nameless,
        )
        return await self._routing.one(call, timeout_ms)


def _timestamp(spec: OffsetSpec | int) -> int:
    if spec >= 0:
        return spec
    try:
        return OffsetSpec(spec)
    except ValueError:
        raise UsageError(f"{spec} is neither a timestamp nor an OffsetSpec") from None


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _list_offsets(
    context: RequestContext[TopicPartition],
    specs: Mapping[TopicPartition, int],
    read_committed: bool,
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=one.partition, timestamp=specs[one])
                    for one in partitions
                ],
            )
            for topic, partitions in by_topic(context.keys).items()
        ],
        timeout_ms=context.timeout_ms,
    )


def _elections(response: Any) -> dict[TopicPartition, ApiError | None]:
    return {
        TopicPartition(topic.topic, one.partition_id): error_of(one)
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


def _target(partition: TopicPartition, brokers: Sequence[int] | None) -> ReassignablePartition:
    return ReassignablePartition(
        partition_index=partition.partition, replicas=None if brokers is None else list(brokers)
    )


def _reassignments(response: Any) -> dict[TopicPartition, Reassignment]:
    return {
        TopicPartition(topic.name, one.partition_index): Reassignment(
            replica_ids=tuple(one.replicas),
            adding_replica_ids=tuple(one.adding_replicas),
            removing_replica_ids=tuple(one.removing_replicas),
        )
        for topic in response.topics
        for one in topic.partitions
    }
