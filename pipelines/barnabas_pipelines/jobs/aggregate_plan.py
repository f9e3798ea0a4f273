"""What `aggregate` says before it runs, for `--dry-run`: from its settings and from the cluster.

Not here: what it does (`aggregate.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas_pipelines.errors import TopicGoneError
from barnabas_pipelines.jobs.aggregate_settings import DEAD_LETTER, FAIL, Aggregation
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.jobs.job import Plan
from barnabas_pipelines.jobs.settings import JobSettings
from barnabas_pipelines.jobs.streaming import trigger_text
from barnabas_pipelines.transforms.measures import Measure


def plan(settings: JobSettings) -> Plan:
    """What is going to be done, with what the cluster says now.

    Raises: TopicGoneError, UnreachableError.
    """
    aggregation = Aggregation.of(settings)
    facts = ClusterFacts.of(settings)
    (source,) = facts.topics([settings["topic"]]).values()
    window = aggregation.window
    every = "" if window.windows_per_record == 1 else f", one every {_text(window.slide_ms)}"
    return Plan.of(
        (
            "reads",
            f"{source.name}: {len(source.ends)} partitions, {source.record_count_max:,} offsets, "
            f"from {settings['starting-offsets']} on the first run, then from the checkpoint",
        ),
        ("when", trigger_text(settings)),
        ("computes", ", ".join(f"{_of(one)} as {one.name}" for one in aggregation.measures)),
        (
            "per",
            f"window of {_text(window.length_ms)}{every} over "
            f"{aggregation.event_time_field or 'the time of the record'}"
            + "".join(f", {group.path}" for group in aggregation.groups),
        ),
        *_percentile_lines(settings, aggregation),
        (
            "late",
            f"records {_text(window.watermark_ms)} older than the newest are dropped and counted; "
            "the last windows stay open until newer records come",
        ),
        ("undecodable", _undecodable_text(settings)),
        ("writes", _target_text(settings, facts, len(source.ends))),
        (
            "remembers",
            f"{settings['checkpoint']}, in {settings['state-partitions']} partitions of "
            f"{settings['state-store']}; only watermark, policies and limits can change",
        ),
        (
            "guarantees",
            "the newest row per key counts every record that is not late exactly once, also after "
            "a failure: a batch that is repeated writes the same keys again. Sums of DOUBLE may "
            "then differ in their last digits, DECIMAL ones not",
        ),
    )


def _target_text(settings: JobSettings, facts: ClusterFacts, partition_count: int) -> str:
    target = settings["target"]
    mode = {
        "update": "a row whenever it has changed",
        "append": "a row once, when the watermark has passed its window",
    }[settings["output-mode"]]
    try:
        facts.topic_ids([target])
    except TopicGoneError:
        if settings["create-target"]:
            there = f"created, compacted, with {partition_count} partitions"
        else:
            there = "MISSING: create it, or give --create-target"
    else:
        policy = facts.topic_setting(target, "cleanup.policy") or "unknown"
        there = f"cleanup.policy {policy}"
        if "compact" not in policy:
            there += ": it keeps every row, so readers must take the newest per key themselves"
    return f"{target} ({there}): {mode}, keyed by window and group"


def _undecodable_text(settings: JobSettings) -> str:
    return {
        FAIL: "the job fails and names the record; nothing of its batch is written",
        DEAD_LETTER: f"written to {settings['dead-letter-topic']} with the reason in a header "
        "(some twice after a failure), left out and counted",
    }.get(settings["undecodable"], "left out, counted in the progress")


def _percentile_lines(settings: JobSettings, aggregation: Aggregation) -> Iterator[tuple[str, str]]:
    if any(one.percentile is not None for one in aggregation.measures):
        if settings["percentiles"] == "exact":
            yield "percentiles", "exact, with every distinct value in the state"
        else:
            accuracy = settings["percentile-accuracy"]
            yield (
                "percentiles",
                f"approximate: their rank is off by {1 / accuracy:.2%} of the count at most",
            )


def _of(measure: Measure) -> str:
    if measure.percentile is not None:
        return f"p{measure.percentile:g}({measure.field})"
    return measure.kind.value if measure.field is None else f"{measure.kind.value}({measure.field})"


def _text(duration_ms: int) -> str:
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if duration_ms and duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms}{unit}"
    return f"{duration_ms}ms"
