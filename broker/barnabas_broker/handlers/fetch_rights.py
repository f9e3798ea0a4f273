"""What of a fetch its client may read, where there is an authorizer. Source: SEC-46."""

from __future__ import annotations

from collections.abc import Sequence, Set

from barnabas_broker.handlers.authorization import refused_topics
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.leader.delayed_fetch import PartitionData
from barnabas_broker.replication.leader.fetch_session import FetchPartition
from barnabas_broker.security.authorizer import Authorizer
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode


class ReadRights:
    """Which partitions of one fetch its client may read: asked at first, and again at the end.

    A fetch may wait for as long as its client likes, and rights go meanwhile.
    """

    __slots__ = ("_authorizer", "_generation", "_in_flight", "_refused", "_services")

    def __init__(
        self, services: Services, authorizer: Authorizer, in_flight: InFlightRequest
    ) -> None:
        self._services = services
        self._authorizer = authorizer
        self._in_flight = in_flight
        self._generation = authorizer.generation
        self._refused: list[PartitionData] = []

    def readable(self, partitions: Sequence[FetchPartition]) -> Sequence[FetchPartition]:
        """The partitions that may be read; the others are part of the response at once."""
        unreadable = self._unreadable(partitions)
        if not unreadable:
            return partitions
        left = []
        for partition in partitions:
            if partition.topic_partition.topic in unreadable:
                self._refused.append(refused_data(partition))
            else:
                left.append(partition)
        return left

    def merge(self, results: list[PartitionData]) -> list[PartitionData]:
        """The results of all partitions, without what may not be read any more."""
        if self._authorizer.generation != self._generation:
            unreadable = self._unreadable([data.request for data in results])
            results = [
                refused_data(data.request)
                if data.request.topic_partition.topic in unreadable
                else data
                for data in results
            ]
        return [*results, *self._refused] if self._refused else results

    def _unreadable(self, partitions: Sequence[FetchPartition]) -> Set[str]:
        names = {partition.topic_partition.topic for partition in partitions}
        names.discard("")  # of an id that no topic has
        return refused_topics(
            self._services, self._authorizer, self._in_flight, AclOperation.READ, names
        )


def refused_data(partition: FetchPartition) -> PartitionData:
    """The result of a partition that may not be read."""
    data = PartitionData(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    data.aborted = []  # not null, as in Apache Kafka
    return data
