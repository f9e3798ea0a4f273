"""Changes of the in-sync replicas, as the leaders of partitions propose them: a pure command.

Source: KIP-497 (the controller decides, by the partition epoch), KIP-841 (no fenced or stopping
broker joins), KIP-903 (nor one that has restarted since its leader saw it, or was not seen at all),
REP-8; nor one whose log directory has failed, as far as is known. A leader that is shutting down
stays in the ISR until it moves. A change that completes a reassignment closes it in the same record
(LEAD-10). Takes and gives the messages of AlterPartition (56): a broker may have thousands of
partitions in one.

Invariants: what is answered without an error is what the image says after the records. A refusal of
members raises the partition epoch: it is final, also for copies of the proposal that come later.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from barnabas_broker.controller.brokers import check_broker_epoch
from barnabas_broker.controller.partition_change import (
    Candidates,
    PartitionChanges,
    change_partition,
    renewed,
)
from barnabas_broker.metadata.image import MetadataImage, PartitionImage
from barnabas_broker.metadata.records import PartitionRecord
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

# The broker epoch of an ISR member that its leader has not heard yet: not compared.
UNKNOWN_EPOCH: Final = -1

_Proposal = AlterPartitionRequestPartitionData
_Result = AlterPartitionResponsePartitionData


def alter_partitions(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    topics: Sequence[AlterPartitionRequestTopicData],
    cordoned: Collection[bytes] = (),
) -> tuple[list[PartitionRecord], list[AlterPartitionResponseTopicData]]:
    """The records of the changes, and a result for each partition, in the order of the request.

    Errors of one partition: 100 and 3 for what does not exist; 41 for a state newer than ours (then
    this controller is the old one); 74 for an old leader epoch, 95 for an old partition epoch; 42
    for what is no ISR; 107 for members that may not be in it; 108 if the change made another
    replica the leader. Raises: KafkaError 102, 77 for the broker itself.
    """
    check_broker_epoch(image, broker_id, broker_epoch)
    candidates = Candidates(image, cordoned=cordoned)
    changes = PartitionChanges(image)
    answered = [
        AlterPartitionResponseTopicData(
            topic_id=topic.topic_id,
            partitions=[
                _answer(proposal, *_alter(image, broker_id, topic, proposal, candidates, changes))
                for proposal in topic.partitions
            ],
        )
        for topic in topics
    ]
    return changes.records, answered


def _answer(proposal: _Proposal, error: ErrorCode, partition: PartitionImage | None) -> _Result:
    if partition is None:
        return _Result(partition_index=proposal.partition_index, error_code=error)
    return _Result(
        partition_index=proposal.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
    )


def _alter(
    image: MetadataImage,
    broker_id: int,
    topic: AlterPartitionRequestTopicData,
    proposal: _Proposal,
    candidates: Candidates,
    changes: PartitionChanges,
) -> tuple[ErrorCode, PartitionImage | None]:
    if topic.topic_id not in image.topics.by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    partition = changes.partition(topic.topic_id, proposal.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    members = _members(proposal)
    error = _check(image, broker_id, proposal, members, partition, candidates)
    if error is ErrorCode.INELIGIBLE_REPLICA:
        # The leader goes back to the ISR that there is, and may commit without whom it has named.
        # What it sent before and nobody has answered, or late copies of this, are granted no more.
        changes.add(renewed(topic.topic_id, proposal.partition_index, partition))
    if error is not ErrorCode.NONE:
        return error, None
    isr = tuple([node for node, _ in members])
    if len(isr) > 1 and broker_id not in candidates.live:
        # The leader is shutting down and was the last one in sync: now another one can take over.
        isr = tuple([node for node in isr if node != broker_id])
    record = change_partition(
        topic.topic_id, proposal.partition_index, partition, candidates, isr=isr
    )
    if record is None:
        return ErrorCode.NONE, partition
    partition = changes.add(record)
    if partition.leader != broker_id:
        return ErrorCode.NEW_LEADER_ELECTED, None
    return ErrorCode.NONE, partition


def _members(proposal: _Proposal) -> list[tuple[int, int]]:
    """The proposed ISR with the broker epoch of each member; version 2 has no epochs."""
    if proposal.new_isr_with_epochs:
        return [(member.broker_id, member.broker_epoch) for member in proposal.new_isr_with_epochs]
    return [(node_id, UNKNOWN_EPOCH) for node_id in proposal.new_isr]


def _check(
    image: MetadataImage,
    broker_id: int,
    proposal: _Proposal,
    members: list[tuple[int, int]],
    partition: PartitionImage,
    candidates: Candidates,
) -> ErrorCode:
    """What speaks against a proposal, in the order in which leaders have to hear it."""
    isr = {node for node, _ in members}
    error = ErrorCode.NONE
    if (
        proposal.leader_epoch > partition.leader_epoch
        or proposal.partition_epoch > partition.partition_epoch
    ):
        error = ErrorCode.NOT_CONTROLLER
    elif proposal.leader_epoch < partition.leader_epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif broker_id != partition.leader:
        error = ErrorCode.INVALID_REQUEST
    elif proposal.partition_epoch < partition.partition_epoch:
        error = ErrorCode.INVALID_UPDATE_VERSION
    elif (
        broker_id not in isr
        or len(isr) != len(members)
        or not isr.issubset(partition.replicas)
        or proposal.leader_recovery_state != 0  # a leader here is ready once it is elected
    ):
        error = ErrorCode.INVALID_REQUEST
    elif not all(
        (node == broker_id or candidates.may_lead(node, partition))
        and (
            epoch == image.brokers[node].epoch
            # Who joins must have fetched; a member need not have, from a leader that is new.
            or (epoch == UNKNOWN_EPOCH and node in partition.isr)
        )
        for node, epoch in members
    ):
        error = ErrorCode.INELIGIBLE_REPLICA
    return error
