"""Compares an archive with its topics, record by record. Needs pyspark.

Counts and sums of fingerprints of keys, values, headers and timestamps are compared first; only
partitions in which they differ are joined offset by offset, to find what is wrong.

Not here: what is a fault (`findings.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from barnabas_pipelines.archive.batches import ReadRange, known
from barnabas_pipelines.archive.findings import PartitionFindings
from barnabas_pipelines.archive.planning import check_same_topic
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.tables.marks import TopicReach
from barnabas_pipelines.tables.table import Table
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLACE: Final = ("topic", "partition")
_FAULTS_SHOWN: Final = 5

Bounds = dict[TopicPartition, int]


def verify(
    table: Table,
    cluster: ClusterFacts,
    topics: Sequence[str],
    read: ReadRange,
    report: Callable[[str], None],
) -> None:
    """Compare the archive with the topics. Raises: PipelineError with the first faults."""
    state = known(table)
    reaches = [one for one in (state.mark.topics if state.mark else ()) if one.name in topics]
    if not reaches:
        report("nothing is archived, so there is nothing to verify")
        return
    rows = table.rows(state.version)
    found = _findings(rows, reaches, cluster, read)
    faults = [fault for one in found if (fault := one.fault()) is not None]
    if faults:
        more = len(faults) - _FAULTS_SHOWN
        rest = f"; and {more} partitions more" if more > 0 else ""
        raise PipelineError(
            f"the archive is not what the topic is: {'; '.join(faults[:_FAULTS_SHOWN])}{rest}"
        )
    for one in found:
        report(one.text())


def _findings(
    rows: DataFrame, reaches: Sequence[TopicReach], cluster: ClusterFacts, read: ReadRange
) -> list[PartitionFindings]:
    logs = cluster.topics([one.name for one in reaches])
    begins: Bounds = {}
    ends: Bounds = {}
    compared: Bounds = {}
    for reach in reaches:
        log = logs[reach.name]
        check_same_topic(reach.name, reach.topic_id, log.topic_id)
        for partition, end in reach.ends.items():
            key = TopicPartition(reach.name, partition)
            begins[key], ends[key] = reach.starts[partition], end
            compared[key] = min(end, max(reach.starts[partition], log.starts[partition]))
    named = rows.where(sf.col("topic").isin([one.name for one in reaches]))
    within = named.where(_at(compared, ">=") & _at(ends, "<"))
    wanted = {one: end for one, end in ends.items() if end > compared[one]}
    theirs = read({one: compared[one] for one in wanted}, wanted)
    mine_sums, their_sums = _sums(within), _sums(theirs)
    counts = {key: sums[0] for key, sums in mine_sums.items()}
    older = _older(named.where(_at(begins, ">=") & _at(compared, "<")))
    outside = _counts(named.where(~_at(begins, ">=") | ~_at(ends, "<")))
    differing = [one for one in ends if mine_sums.get(one) != their_sums.get(one)]
    details = _details(within, theirs, differing) if differing else {}
    gone: Bounds = {}
    for one in reaches:
        for gap in one.gaps:
            key = TopicPartition(one.name, gap.partition)
            gone[key] = gone.get(key, 0) + gap.end - gap.start
    is_compacted = {
        one.name: "compact" in (cluster.topic_setting(one.name, "cleanup.policy") or "")
        for one in reaches
    }
    return [
        PartitionFindings(
            topic=key.topic,
            partition=key.partition,
            compared_from=compared.get(key, 0),
            end=ends.get(key, 0),
            record_count=counts.get(key, 0) + older.get(key, (0, 0))[0],
            older=older.get(key, (0, 0))[0],
            older_doubled=older.get(key, (0, 0))[1],
            outside=outside.get(key, 0),
            gone_before=gone.get(key, 0),
            is_compacted=is_compacted[key.topic],
            **details.get(key, {}),
        )
        for key in sorted(ends.keys() | outside.keys())
    ]


def _fingerprint() -> Column:
    """A number of what a record is made of; null is not the same as empty."""
    columns = ("key", "value", "headers")
    nulls = [sf.col(name).isNull() for name in columns]
    return sf.xxhash64("offset", *nulls, *columns, sf.unix_millis("timestamp"), "timestampType")


def _sums(rows: DataFrame) -> dict[TopicPartition, tuple[int, int]]:
    total = sf.sum(_fingerprint().cast("decimal(38,0)"))
    found = rows.groupBy(*_PLACE).agg(sf.count("offset"), total).collect()
    return {TopicPartition(row[0], row[1]): (row[2], int(row[3])) for row in found}


def _counts(rows: DataFrame) -> dict[TopicPartition, int]:
    found = rows.groupBy(*_PLACE).count().collect()
    return {TopicPartition(row[0], row[1]): row[2] for row in found}


def _older(rows: DataFrame) -> dict[TopicPartition, tuple[int, int]]:
    """Records that the topic has no more, and how many of them are there twice."""
    count, different = sf.count("offset"), sf.count_distinct("offset")
    found = rows.groupBy(*_PLACE).agg(count, different).collect()
    return {TopicPartition(row[0], row[1]): (row[2], row[2] - row[3]) for row in found}


def _details(
    mine: DataFrame, theirs: DataFrame, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Mapping[str, Any]]:
    """What is wrong in these partitions, offset by offset."""
    chosen = sf.lit(False)
    for topic, partition in partitions:
        chosen = chosen | ((sf.col("topic") == topic) & (sf.col("partition") == partition))
    place = (*_PLACE, "offset")
    mark = _fingerprint().alias("mark")
    in_table = (
        mine.where(chosen)
        .select(*place, mark)
        .groupBy(*place)
        .agg(sf.count("mark").alias("copies"), sf.min("mark").alias("mine"))
    )
    in_topic = theirs.where(chosen).select(*place, mark.alias("theirs"))
    copies, mine_mark, their_mark = (sf.col(name) for name in ("copies", "mine", "theirs"))
    kinds = {
        "missing": copies.isNull(),
        "doubled": copies > 1,
        "different": mine_mark != their_mark,
        "surplus": their_mark.isNull(),
    }
    is_wrong = sf.lit(False)
    for wrong in kinds.values():
        is_wrong = is_wrong | sf.coalesce(wrong, sf.lit(False))
    found = (
        in_table.join(in_topic, on=list(place), how="full_outer")
        .groupBy(*_PLACE)
        .agg(
            *(sf.count_if(wrong).alias(name) for name, wrong in kinds.items()),
            sf.min(sf.when(is_wrong, sf.col("offset"))).alias("first_fault"),
        )
        .collect()
    )
    return {
        TopicPartition(row.topic, row.partition): {
            name: row[name] for name in (*kinds, "first_fault")
        }
        for row in found
    }


def _at(bounds: Mapping[TopicPartition, int], how: str) -> Column:
    """Whether an offset lies at or behind (`>=`), or before (`<`), the bound of its partition."""
    # A map from "topic/partition", because a condition for each partition would be a long one.
    entries = [
        sf.lit(part)
        for (topic, partition), bound in bounds.items()
        for part in (f"{topic}/{partition}", bound)
    ]
    place = sf.concat_ws("/", "topic", sf.col("partition").cast("string"))
    bound = sf.try_element_at(sf.create_map(*entries), place)
    is_so = sf.col("offset") >= bound if how == ">=" else sf.col("offset") < bound
    return sf.coalesce(is_so, sf.lit(False))
