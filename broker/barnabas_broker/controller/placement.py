"""Which brokers hold the replicas of new partitions: pure arithmetic over live brokers and racks.

Source: Kafka's classic assignment (TOP-9, TOP-10), not its newer striped one, which may repeat
leaders when the numbers of racks and brokers share a divisor (TOP-12). Properties: the brokers of a
partition differ; leaders are spread evenly; with racks, no rack gets a second replica while
another has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from barnabas_broker.env.randomness import Random
from barnabas_protocol.errors import ErrorCode, KafkaError

Assignment = tuple[int, ...]


class PlacementBroker(NamedTuple):
    """A broker that may get replicas."""

    node_id: int
    rack: str | None
    fenced: bool = False
    cordoned: bool = False  # gets no replicas where others have room


def place(
    brokers: Sequence[PlacementBroker],
    partition_count: int,
    replication_factor: int,
    random: Random,
    *,
    first_partition: int = 0,
    start_index: int | None = None,
) -> list[Assignment]:
    """The replicas of each new partition, the preferred leader first.

    Partitions are placed on unfenced brokers; fenced ones only fill up what is missing (TOP-12),
    and cordoned ones come last, where too few others are left (VOL-4).
    `start_index` fixes the draw, for partitions added to a topic (TOP-13).
    Raises: KafkaError 38 if there are too few brokers.
    """
    live = [broker for broker in brokers if not broker.fenced]
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered.",
        )
    if not live:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are "
            "currently fenced.",
        )
    roomy = [broker for broker in live if not broker.cordoned]
    cordoned: list[int] = []
    if roomy and len(roomy) < len(live):
        cordoned = sorted(broker.node_id for broker in live if broker.cordoned)
        live, start_index = roomy, None
    start = random.integer(len(live)) if start_index is None else start_index % len(live)
    shift = random.integer(len(live)) if start_index is None else start
    factor = min(replication_factor, len(live))
    if any(broker.rack is not None for broker in live):
        placed = place_by_rack(live, partition_count, factor, start, shift, first_partition)
    else:
        node_ids = sorted(broker.node_id for broker in live)
        placed = place_evenly(node_ids, partition_count, factor, start, shift, first_partition)
    if factor == replication_factor:
        return placed
    placed = _filled_up(placed, cordoned, replication_factor)
    fenced = sorted(broker.node_id for broker in brokers if broker.fenced)
    return _filled_up(placed, fenced, replication_factor)


def _filled_up(
    placed: Sequence[Assignment], node_ids: Sequence[int], replication_factor: int
) -> list[Assignment]:
    """Assignments with as many more replicas as are missing and there are brokers for, in turn."""
    count = len(node_ids)
    return [
        (
            *replicas,
            *(
                node_ids[(index + step) % count]
                for step in range(min(replication_factor - len(replicas), count))
            ),
        )
        for index, replicas in enumerate(placed)
    ]


def place_evenly(
    node_ids: Sequence[int],
    partition_count: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> list[Assignment]:
    """Round robin; the distance of the followers grows by one with each turn (TOP-9)."""
    count = len(node_ids)
    assignments = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        followers = (
            node_ids[_follower_index(first, shift, step, count)]
            for step in range(replication_factor - 1)
        )
        assignments.append((node_ids[first], *followers))
    return assignments


def place_by_rack(
    brokers: Iterable[PlacementBroker],
    partition_count: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> list[Assignment]:
    """Round robin over brokers interleaved by rack, skipping racks that have a replica (TOP-10).

    Brokers without a rack count as one more rack (TOP-11).
    """
    racks = {broker.node_id: broker.rack or "" for broker in brokers}
    order = interleave_racks(racks)
    rack_count, count = len(set(racks.values())), len(order)
    assignments = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        replicas = [order[first]]
        used_racks = {racks[order[first]]}
        probe = 0
        while len(replicas) < replication_factor:
            node = order[_follower_index(first, shift * rack_count, probe, count)]
            probe += 1
            rack_repeats = racks[node] in used_racks and len(used_racks) < rack_count
            node_repeats = node in replicas and len(replicas) < count
            if not rack_repeats and not node_repeats:
                replicas.append(node)
                used_racks.add(racks[node])
        assignments.append(tuple(replicas))
    return assignments


def interleave_racks(racks: dict[int, str]) -> list[int]:
    """Brokers rack by rack in turn: racks by name, brokers by id inside a rack."""
    by_rack: dict[str, list[int]] = {}
    for node_id in sorted(racks):
        by_rack.setdefault(racks[node_id], []).append(node_id)
    columns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [node_id for node_id in chain.from_iterable(columns) if node_id is not None]


def _follower_index(first: int, shift: int, step: int, count: int) -> int:
    return (first + 1 + (shift + step) % (count - 1)) % count
