"""Who may commit and fetch the offsets of a consumer group. Source: CG-6.

commit  at the member's own epoch; at an older one if every partition was assigned by then and
        is still held; without a member only while the group is empty, or in a transaction
fetch   at exactly the member's epoch, or without a member
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.heartbeat import member_of
from barnabas_broker.coordinator.group.consumer.member import ConsumerMember
from barnabas_protocol.errors import ErrorCode, KafkaError

# The first version of OffsetCommit that knows member epochs.
MEMBER_EPOCHS_SINCE = 9


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    member_epoch: int,
    partitions: Iterable[tuple[bytes | None, int]],
    api_version: int | None,
    *,
    names_instance: bool = False,
) -> None:
    """Refuse a commit of offsets for partitions; without a version it is in a transaction.

    Raises: KafkaError 22, 25, 35, 113.
    """
    if member_epoch < 0 and group.is_empty:
        return
    if api_version is None and member_epoch < 0 and not member_id and not names_instance:
        return
    member = member_of(group, member_id)
    if api_version is not None and api_version < MEMBER_EPOCHS_SINCE and member.classic is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"OffsetCommit version {MEMBER_EPOCHS_SINCE} or above must be used by members using "
            "the modern group protocol",
        )
    if member_epoch == member.member_epoch:
        return
    if member.classic is None and member_epoch < member.member_epoch:
        since = [
            None if topic_id is None else member.assigned_since(topic_id, partition)
            for topic_id, partition in partitions
        ]
        if all(each is not None and each <= member_epoch for each in since):
            return
    raise _stale(member, member_epoch)


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """Refuse a fetch of offsets. Raises: KafkaError 22, 25, 113."""
    if member_id is None and member_epoch < 0:
        return
    member = member_of(group, member_id or "")
    if member_epoch != member.member_epoch:
        raise _stale(member, member_epoch)


def _stale(member: ConsumerMember, received: int) -> KafkaError:
    if member.classic is not None:
        return KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {received} does not match the expected member epoch "
            f"{member.member_epoch}.",
        )
    return KafkaError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {received} does not match the expected member epoch "
        f"{member.member_epoch}.",
    )
