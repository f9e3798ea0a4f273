"""The previous owners of partitions, which the sticky assignors start from.

Not here: what is made of it (`sticky.py`).

Source: the user data of Kafka's StickyAssignor and CooperativeStickyAssignor. All integers are big
endian, arrays have an int32 count, strings an int16 length:

    sticky              previous_assignment [topic string, partitions [int32]];
                        v1 + generation int32
    cooperative-sticky  generation int32

Invariants: a partition has at most one owner here. If several members say that they own it, the
highest generation is right; within one generation nobody is, and the partition is contested.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas_client.consumer.assignors.assignor import NO_GENERATION, GroupMember
from barnabas_protocol.consumer_protocol import Partitions

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one member claims to have owned at the end of a generation."""

    partitions: Partitions
    generation_id: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousOwners:
    """`owners` has None for what is contested; `by_member` what its owner still wants, by topic."""

    owners: Mapping[tuple[str, int], str | None]
    by_member: Mapping[str, Mapping[str, list[int]]]


def encode_sticky_user_data(claim: Claim) -> bytes:
    """The user data of `sticky`, with the generation."""
    out = bytearray(_INT32.pack(len(claim.partitions)))
    for topic, numbers in claim.partitions.items():
        name = topic.encode()
        out += _INT16.pack(len(name)) + name
        out += struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return bytes(out + _INT32.pack(claim.generation_id))


def decode_sticky_user_data(data: bytes | None) -> Claim:
    """The claim in the user data of `sticky`; one that cannot be read claims nothing."""
    if not data:
        return Claim(partitions={})
    partitions: dict[str, tuple[int, ...]] = {}
    try:
        (topic_count,) = _INT32.unpack_from(data, 0)
        at = _INT32.size
        for _ in range(topic_count):
            (size,) = _INT16.unpack_from(data, at)
            at += _INT16.size
            topic = data[at : at + size].decode()
            at += size
            (count,) = _INT32.unpack_from(data, at)
            at += _INT32.size
            partitions[topic] = struct.unpack_from(f">{count}i", data, at)
            at += count * _INT32.size
    except (struct.error, UnicodeDecodeError):
        return Claim(partitions={})
    generation_id = NO_GENERATION
    if len(data) - at >= _INT32.size:
        (generation_id,) = _INT32.unpack_from(data, at)
    return Claim(partitions=partitions, generation_id=generation_id)


def encode_generation(generation_id: int) -> bytes:
    """The user data of `cooperative-sticky`."""
    return _INT32.pack(generation_id)


def decode_generation(data: bytes | None) -> int:
    """The generation in the user data of `cooperative-sticky`; -1 where there is none."""
    if data is None or len(data) < _INT32.size:
        return NO_GENERATION
    return int(_INT32.unpack_from(data)[0])


def settle_claims(
    members: Sequence[GroupMember], claims: Mapping[str, Claim], partition_counts: Mapping[str, int]
) -> PreviousOwners:
    """The owners of the partitions that exist, by the claims."""
    generations: dict[tuple[str, int], int] = {}
    owners: dict[tuple[str, int], str | None] = {}
    for member in members:
        claim = claims[member.member_id]
        for topic, numbers in claim.partitions.items():
            count = partition_counts.get(topic, 0)
            for number in dict.fromkeys(numbers):
                if not 0 <= number < count:
                    continue
                partition = (topic, number)
                known = generations.get(partition)
                if known is None or claim.generation_id > known:
                    generations[partition] = claim.generation_id
                    owners[partition] = member.member_id
                elif claim.generation_id == known:
                    owners[partition] = None
    wanted = {member.member_id: set(member.subscription.topics) for member in members}
    by_member: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in wanted}
    for (topic, number), owner in owners.items():
        if owner is not None and topic in wanted[owner]:
            by_member[owner].setdefault(topic, []).append(number)
    return PreviousOwners(owners=owners, by_member=by_member)
