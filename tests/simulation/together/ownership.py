"""What must hold of consumer groups (KIP-848) at each place of their log: one owner each."""

import struct
from collections.abc import Iterable

from barnabas_broker.coordinator.group.consumer.consumer_groups import ConsumerGroups
from barnabas_broker.coordinator.group.consumer.records import read_consumer_key
from barnabas_broker.coordinator.group.group_memory import BrokerGroupMemory
from barnabas_broker.coordinator.group.groups import GroupQuota
from barnabas_broker.coordinator.runtime.journal import UndoJournal
from barnabas_protocol.records.record import Record
from tests.simulation.together.programs import Violation

_CURRENT_TYPE = 8
_LIMIT = 1_000_000


def check_ownership(records: Iterable[Record]) -> int:
    """No two members have a partition, and no member epoch goes back.

    Returns how many assignments there were. Raises: Violation.
    """
    groups = ConsumerGroups(
        GroupQuota(_LIMIT, _LIMIT, BrokerGroupMemory(_LIMIT, _LIMIT)), UndoJournal()
    )
    epochs: dict[tuple[str, str], int] = {}
    assignment_count = 0
    for record in records:
        if record.key is None or len(record.key) < 2:
            continue
        (record_type,) = struct.unpack_from(">h", record.key)
        key = read_consumer_key(record_type, record.key)
        if key is None:
            continue
        groups.replay(key, record.value)
        if record_type != _CURRENT_TYPE:
            continue
        member_key = (key.group_id, key.name)
        group = groups.get(key.group_id)
        if record.value is None or group is None:
            epochs.pop(member_key, None)
            continue
        assignment_count += 1
        member_epoch = group.members[key.name].member_epoch
        if 0 <= member_epoch < epochs.get(member_key, 0):
            raise Violation(f"{member_key} went back to epoch {member_epoch}: {record.offset}")
        epochs[member_key] = max(member_epoch, 0)
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for place in member.held():
                other = owners.setdefault(place, member.member_id)
                if other != member.member_id:
                    raise Violation(
                        f"{key.group_id}: {place} is {other}'s and {member.member_id}'s at "
                        f"{record.offset}"
                    )
    return assignment_count
