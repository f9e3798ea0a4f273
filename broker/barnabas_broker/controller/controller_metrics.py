"""What the active controller tells Prometheus: its queue, its elections, the state of the cluster.

Read at scrape time. The gauges of a node that is not the active controller are 0 (CTL-4). Source:
MET-1, CTL-8, LEAD-2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from barnabas_broker.controller import leader_balance
from barnabas_broker.metadata.image import NO_LEADER, MetadataImage
from barnabas_broker.metadata.records import MetadataRecord, PartitionRecord
from barnabas_broker.metrics.sample import Sample

_SECONDS_PER_NS = 1e-9


class ControllerMetrics:
    """Plain numbers, for as long as the process lives."""

    __slots__ = (
        "elections_count",
        "events_count",
        "failed_count",
        "processing_time_ns",
        "queue_time_ns",
        "unclean_elections_count",
    )

    def __init__(self) -> None:
        self.events_count = 0
        self.failed_count = 0
        self.queue_time_ns = 0
        self.processing_time_ns = 0
        self.elections_count = 0
        self.unclean_elections_count = 0

    def count_elections(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        """Take note of who was elected by records that are decided on an image."""
        for record in records:
            if not isinstance(record, PartitionRecord) or record.leader == NO_LEADER:
                continue
            topic = image.topics.by_id.get(record.topic_id)
            if topic is None or record.partition >= len(topic.partitions):
                continue  # a new partition
            before = topic.partitions[record.partition]
            if record.leader != before.leader:
                self.elections_count += 1
                had_all = (*before.isr, *before.eligible_leader_replicas)
                self.unclean_elections_count += record.leader not in had_all


class Compared(Protocol):
    """What the comparison of logs has to tell."""

    elected_count: int

    @property
    def waiting_count(self) -> int:
        """Partitions whose logs are being compared."""
        ...


class Measured(Protocol):
    """What of a controller is told to Prometheus."""

    metrics: ControllerMetrics

    @property
    def comparison(self) -> Compared:
        """The comparison of logs."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether it takes commands."""
        ...

    @property
    def queue_length(self) -> int:
        """Commands that wait."""
        ...

    @property
    def active_image(self) -> MetadataImage:
        """What it decides on; empty if it is not active."""
        ...


def controller_samples(controller: Measured) -> Iterator[Sample]:
    """The controller's queue of commands, and what they decided."""
    counted = controller.metrics
    for name, kind, text, value in (
        ("active", "gauge", "1 on the active controller.", float(controller.is_active)),
        ("queue_length", "gauge", "Commands that wait.", controller.queue_length),
        ("commands_total", "counter", "Commands decided.", counted.events_count),
        (
            "command_failures_total",
            "counter",
            "Commands that failed by a fault of ours.",
            counted.failed_count,
        ),
        (
            "queue_seconds_total",
            "counter",
            "Time that commands waited to be decided.",
            counted.queue_time_ns * _SECONDS_PER_NS,
        ),
        (
            "processing_seconds_total",
            "counter",
            "Time that deciding took.",
            counted.processing_time_ns * _SECONDS_PER_NS,
        ),
        ("elections_total", "counter", "Leaders elected.", counted.elections_count),
        (
            "unclean_elections_total",
            "counter",
            "Leaders elected that were not in sync: records may be lost.",
            counted.unclean_elections_count,
        ),
        (
            "compared_elections_total",
            "counter",
            "Leaders elected because their log was the best of those left.",
            controller.comparison.elected_count,
        ),
        (
            "comparing_partitions",
            "gauge",
            "Partitions without eligible replicas whose logs are being compared.",
            controller.comparison.waiting_count,
        ),
    ):
        yield Sample(f"barnabas_controller_{name}", kind, text, {}, value)
    yield from _cluster_samples(controller.active_image)


def _cluster_samples(image: MetadataImage) -> Iterator[Sample]:
    """The state of the cluster as the controller decides on it."""
    partitions = [
        partition for topic in image.topics.by_id.values() for partition in topic.partitions
    ]
    brokers = image.brokers.values()
    for name, text, value in (
        ("topics", "Topics.", len(image.topics.by_id)),
        ("partitions", "Partitions.", len(partitions)),
        (
            "offline_partitions",
            "Partitions without a leader.",
            sum(partition.leader == NO_LEADER for partition in partitions),
        ),
        (
            "preferred_replica_imbalance",
            "Partitions that their preferred replica does not lead.",
            leader_balance.imbalanced_count(image),
        ),
        (
            "reassigning_partitions",
            "Partitions whose replicas are being changed.",
            sum(partition.is_reassigning for partition in partitions),
        ),
        ("active_brokers", "Brokers that may lead.", sum(not b.fenced for b in brokers)),
        (
            "fenced_brokers",
            "Brokers that are registered and fenced.",
            sum(b.fenced for b in brokers),
        ),
        (
            "stopping_brokers",
            "Brokers that give their leaderships away.",
            sum(b.is_shutting_down and not b.fenced for b in brokers),
        ),
    ):
        yield Sample(f"barnabas_controller_{name}", "gauge", text, {}, value)
