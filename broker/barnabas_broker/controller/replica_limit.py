"""How many replicas a broker may get: each holds a file open, and descriptors are not without end.

Clients may make topics as they like; what they make must not take the descriptors that brokers
need for one another, or a broker loses its disk (`env.open_files`). What is refused is told.
Pure. Invariant: internal topics are always made, as the cluster does not work without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from barnabas_broker.metadata.image import MetadataImage
from barnabas_protocol.errors import ErrorCode, KafkaError

UNLIMITED: Final = 2**31 - 1


class ReplicaLimit:
    """The replicas that the brokers of an image have, and those that one command adds."""

    def __init__(self, image: MetadataImage, replicas_max: int) -> None:
        self._image = image
        self._max = replicas_max
        # No broker has more replicas than there are partitions.
        self._partition_count = sum(len(one.partitions) for one in image.topics.by_name.values())
        self._taken: Counter[int] = Counter()
        self._known: Counter[int] | None = None

    def take(self, assignments: Sequence[Iterable[int]]) -> None:
        """Count the replicas of new partitions. Raises: KafkaError 44 where they are too many."""
        wanted = Counter(chain.from_iterable(assignments))
        if self._partition_count + len(assignments) > self._max:
            known = self._count()
            for node_id, count in wanted.items():
                total = known[node_id] + self._taken[node_id] + count
                if total > self._max:
                    raise KafkaError(
                        ErrorCode.POLICY_VIOLATION,
                        f"Broker {node_id} would have {total} replicas; it may have {self._max}, a"
                        " quarter of the files that it may have open.",
                    )
        self._taken += wanted
        self._partition_count += len(assignments)

    def _count(self) -> Counter[int]:
        if self._known is None:
            self._known = Counter(
                node_id
                for topic in self._image.topics.by_name.values()
                for partition in topic.partitions
                for node_id in partition.replicas
            )
        return self._known
