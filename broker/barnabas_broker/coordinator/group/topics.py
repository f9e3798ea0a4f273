"""What the group coordinator knows of topics: which one a name stands for.

A name may be used again, an id never is. A committed offset belongs to the topic that had the name
when it was committed. Source: KIP-516; OffsetCommitValue 4 has the id in a tag.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_broker.metadata.image import MetadataImage, TopicsImage
from barnabas_protocol.ids import ZERO_UUID

# The topic of an offset without an id (older releases) whose topic was not there when it was
# loaded: whatever gets the name later is another topic.
NO_TOPIC = b"\xff" * 16


class Topics(Protocol):
    """The topics of the newest metadata image that this broker has."""

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of the topic of that name; None if there is none."""
        ...

    def partition_count(self, name: str) -> int:
        """Return how many partitions the topic has; 0 if there is none."""
        ...

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic of that id; None if there is none."""
        ...

    def names(self) -> Collection[str]:
        """Return the names of all topics."""
        ...

    def names_version(self) -> int:
        """Return a number that is another one when the names have changed."""
        ...

    def snapshot(self) -> object:
        """Return an object that is another one when anything of the topics may have changed."""
        ...

    def metadata_offset(self) -> int:
        """Return the offset of the newest metadata record that is known."""
        ...


class ImageSource(Protocol):
    """What has the newest metadata image: the publisher."""

    image: MetadataImage


class ImageTopics:
    """The topics of the newest image.

    An image is the newest before its partitions are led: whoever loads one of them knows every
    topic that the coordinator before it knew.
    """

    def __init__(self, source: ImageSource) -> None:
        self._source = source
        self._named: TopicsImage | None = None
        self._names_version = 0

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of the topic of that name; None if there is none."""
        topic = self._source.image.topics.by_name.get(name)
        return None if topic is None else topic.topic_id

    def partition_count(self, name: str) -> int:
        """Return how many partitions the topic has; 0 if there is none."""
        topic = self._source.image.topics.by_name.get(name)
        return 0 if topic is None else len(topic.partitions)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic of that id; None if there is none."""
        topic = self._source.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def names(self) -> Collection[str]:
        """Return the names of all topics."""
        return self._source.image.topics.by_name.keys()

    def names_version(self) -> int:
        """Return a number that is another one when the names have changed."""
        topics = self._source.image.topics
        if topics is not self._named:
            if self._named is None or topics.by_name.keys() != self._named.by_name.keys():
                self._names_version += 1
            self._named = topics
        return self._names_version

    def snapshot(self) -> object:
        """Return the topics of the newest image."""
        return self._source.image.topics

    def metadata_offset(self) -> int:
        """Return the offset of the newest metadata record that is known."""
        return self._source.image.offset


class AnyTopics:
    """Every topic there is, with any partition and no id: where no metadata is at hand."""

    def __init__(self, offsets_partition_count: int = 50) -> None:
        self._offsets_partition_count = offsets_partition_count

    def topic_id(self, name: str) -> bytes | None:
        """Return zero: the id is not known."""
        return ZERO_UUID

    def partition_count(self, name: str) -> int:
        """Return more than any request names, except for the coordinators' own topic."""
        return self._offsets_partition_count if name == OFFSETS_TOPIC else 2**31

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return None: no id is known."""
        return None

    def names(self) -> Collection[str]:
        """Return nothing: there are too many."""
        return ()

    def names_version(self) -> int:
        """Return always the same."""
        return 0

    def snapshot(self) -> object:
        """Return always the same."""
        return self

    def metadata_offset(self) -> int:
        """Return that no metadata is known."""
        return -1


def is_of(committed_id: bytes, current_id: bytes | None) -> bool:
    """Whether an offset may be of the topic that has its name now, or of none that is there."""
    return (
        current_id is None or committed_id == current_id or ZERO_UUID in (committed_id, current_id)
    )


def bound_id(current_id: bytes | None) -> bytes:
    """Return which topic a loaded offset without an id belongs to: the one that is there now."""
    return NO_TOPIC if current_id is None else current_id
