"""Partitions in the order that requests want them: by topic."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_protocol.ids import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """The partitions of each topic, topics and partitions in the order given."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics
