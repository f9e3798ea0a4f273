"""Which offsets `startingOffsets`, `endingOffsets` and their sisters mean, in every partition.

Not here: the forms of the options (`options.py`).

Source: Spark's Kafka connector: a timestamp for all goes before timestamps by partition, those
before offsets; where partitions are named, all have to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas_pipelines.datasource.cluster_view import ClusterView, described
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.offsets import LogView, StreamOffsets
from barnabas_pipelines.option_table import EARLIEST, LATEST
from barnabas_pipelines.options import Options
from barnabas_protocol.ids import TopicPartition


def starting_offsets(options: Options, now: LogView, times: ClusterView) -> StreamOffsets:
    """Where reading begins.

    Raises: OptionsError if partitions are left out or unknown, or a time is behind all records.
    """
    named = _timestamps(options, now, "startingTimestamp", "startingOffsetsByTimestamp")
    if named is None:
        return _by_offset("startingOffsets", options["startingOffsets"], now)
    found = times.offsets_at(named)
    late = sorted(partition for partition, offset in found.items() if offset is None)
    if late and options["startingOffsetsByTimestampStrategy"] == "error":
        raise OptionsError(
            f"no record of {described(late)} is at or behind timestamp {named[late[0]]}: choose an"
            " earlier one, or set startingOffsetsByTimestampStrategy=latest"
        )
    return _with_ends(found, now)


def ending_offsets(options: Options, now: LogView, times: ClusterView) -> StreamOffsets:
    """Where a batch ends, exclusive.

    Raises: OptionsError if partitions are left out or unknown.
    """
    named = _timestamps(options, now, "endingTimestamp", "endingOffsetsByTimestamp")
    if named is None:
        return _by_offset("endingOffsets", options["endingOffsets"], now)
    return _with_ends(times.offsets_at(named), now)


def _timestamps(
    options: Options, now: LogView, for_all: str, by_partition: str
) -> Mapping[TopicPartition, int] | None:
    """The timestamps that were given; None if offsets count."""
    if options[for_all] is not None:
        return dict.fromkeys(now.starts, options[for_all])
    named: Mapping[TopicPartition, int] | None = options[by_partition]
    if named is not None:
        _check_all_named(by_partition, named, now)
    return named


def _with_ends(found: Mapping[TopicPartition, int | None], now: LogView) -> StreamOffsets:
    ends = now.ends.offsets
    offsets = {one: ends[one] if offset is None else offset for one, offset in found.items()}
    return StreamOffsets(offsets=offsets, topic_ids=now.ends.topic_ids)


def _by_offset(name: str, given: Any, now: LogView) -> StreamOffsets:
    if given == "earliest":
        offsets = now.starts
    elif given == "latest":
        offsets = now.ends.offsets
    else:
        _check_all_named(name, given, now)
        special = {EARLIEST: now.starts, LATEST: now.ends.offsets}
        offsets = {
            partition: special[offset][partition] if offset in special else offset
            for partition, offset in given.items()
        }
    return StreamOffsets(offsets=offsets, topic_ids=now.ends.topic_ids)


def _check_all_named(name: str, given: Mapping[TopicPartition, int], now: LogView) -> None:
    unknown = given.keys() - now.starts.keys()
    if unknown:
        raise OptionsError(f"{name} names {described(unknown)}, which is not read or not there")
    missing = now.starts.keys() - given.keys()
    if missing:
        raise OptionsError(
            f"{name} leaves out {described(missing)}: name every partition (-2 is the earliest, -1"
            " the latest offset)"
        )
