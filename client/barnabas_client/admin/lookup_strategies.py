"""Which broker serves the items of a call: one lookup strategy per rule, as in Kafka's client.

    AnyBrokerStrategy       whichever is connected and has least to do
    Controller      the broker that Metadata names; it forwards to the active controller
    Brokers         the broker that an item names
    Leaders         the leader of the partition that an item names
    Coordinators    the coordinator of the group or transactional id that an item names

A destination lives for one call and is asked anew before every attempt, so what moved is found
where it is by then. Look-ups are batched: one Metadata or FindCoordinator request for all items.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from barnabas_client.admin.api_errors import ApiError
from barnabas_client.admin.outcome import K
from barnabas_client.errors import BrokerUnreachableError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from barnabas_client.network.client import Client

K_contra = TypeVar("K_contra", contravariant=True)

GROUP: Final = 0
TRANSACTION: Final = 1

# From here on a FindCoordinator request takes many keys (KIP-699).
_BATCHED_LOOKUP_VERSION: Final = 4


class LookupStrategy(Protocol[K]):
    """Finds the brokers for items."""

    # Codes that are retried a few times only: the metadata of the broker may lag behind.
    patient: Collection[int]

    async def locate(
        self, client: Client, keys: Sequence[K], timeout_ms: int
    ) -> Mapping[K, int | ApiError]:
        """The node of each item, or why there is none."""
        ...

    def failed(self, node_id: int) -> None:
        """Hear that a node did not respond, or that it was the wrong one."""
        ...


class AnyBrokerStrategy(Generic[K]):
    """Whichever broker is connected and has least to do; those that failed come last."""

    patient: Collection[int] = ()

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}

    async def locate(
        self, client: Client, keys: Sequence[K], timeout_ms: int
    ) -> Mapping[K, int | ApiError]:
        """One broker for all items.

        Raises: BrokerUnreachableError if no broker is known.
        """
        node_id = self.choose(client)
        return dict.fromkeys(keys, node_id)

    def choose(self, client: Client) -> int:
        """The broker for the next request."""
        nodes = client.cluster.nodes
        if not nodes:
            client.request_refresh()
            raise BrokerUnreachableError("no broker of the cluster is known")
        return min(
            nodes,
            key=lambda node_id: (
                self._failures.get(node_id, 0),
                not client.is_ready(node_id),
                client.in_flight_count(node_id),
            ),
        )

    def failed(self, node_id: int) -> None:
        """Ask the others first."""
        self._failures[node_id] = self._failures.get(node_id, 0) + 1


class ControllerStrategy(Generic[K]):
    """The broker that Metadata names as controller."""

    patient: Collection[int] = ()

    def __init__(self) -> None:
        self._is_stale = False

    async def locate(
        self, client: Client, keys: Sequence[K], timeout_ms: int
    ) -> Mapping[K, int | ApiError]:
        """The controller for all items, looked up again if the last one was not it."""
        cluster = client.cluster
        if self._is_stale or cluster.controller_id not in cluster.nodes:
            cluster = await client.refresh(timeout_ms=timeout_ms)
            self._is_stale = False
        if cluster.controller_id not in cluster.nodes:
            raise BrokerUnreachableError("the cluster has no controller at the moment")
        return dict.fromkeys(keys, cluster.controller_id)

    def failed(self, node_id: int) -> None:
        """Look again before the next attempt."""
        self._is_stale = True


class StaticBrokerStrategy(Generic[K]):
    """The broker that each item names."""

    patient: Collection[int] = ()

    def __init__(self, node_id: Callable[[K], int]) -> None:
        self._node_id = node_id

    async def locate(
        self, client: Client, keys: Sequence[K], timeout_ms: int
    ) -> Mapping[K, int | ApiError]:
        """The named brokers; metadata are requested again if one is not known."""
        wanted = {key: self._node_id(key) for key in keys}
        nodes = client.cluster.nodes
        if not nodes.keys() >= set(wanted.values()):
            nodes = (await client.refresh(timeout_ms=timeout_ms)).nodes
        return {
            key: node_id
            if node_id in nodes
            else ApiError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"the cluster has no live broker {node_id}"
            )
            for key, node_id in wanted.items()
        }

    def failed(self, node_id: int) -> None:
        """No other broker can serve the item."""


class PartitionLeaderStrategy(Generic[K]):
    """The leader of the partition that each item names."""

    patient: Collection[int] = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )

    def __init__(self, partition: Callable[[K], TopicPartition]) -> None:
        self._partition = partition

    async def locate(
        self, client: Client, keys: Sequence[K], timeout_ms: int
    ) -> Mapping[K, int | ApiError]:
        """The leaders, by one Metadata request for all topics; it creates none of them."""
        partitions = {key: self._partition(key) for key in keys}
        names = dict.fromkeys(one.topic for one in partitions.values())
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        response = await client.request_any(request, timeout_ms=timeout_ms)
        leaders = leaders_of(response)
        if not client.cluster.nodes.keys() >= {one for one in leaders.values() if type(one) is int}:
            await client.refresh(timeout_ms=timeout_ms)
        return {key: leader_or_error(leaders, one) for key, one in partitions.items()}

    def failed(self, node_id: int) -> None:
        """Leaders are looked up before every attempt anyway."""


def leaders_of(response: Any) -> dict[str | TopicPartition, int | ApiError]:
    """The leaders in a Metadata response; a topic with an error stands for all its partitions."""
    leaders: dict[str | TopicPartition, int | ApiError] = {}
    for topic in response.topics:
        if topic.error_code:
            leaders[topic.name] = ApiError(topic.error_code)
        for one in topic.partitions:
            place = TopicPartition(topic.name, one.partition_index)
            if one.leader_id >= 0:
                leaders[place] = one.leader_id
            else:
                leaders[place] = ApiError(
                    one.error_code or ErrorCode.LEADER_NOT_AVAILABLE, "it has no leader"
                )
    return leaders


def leader_or_error(
    leaders: Mapping[str | TopicPartition, int | ApiError], partition: TopicPartition
) -> int | ApiError:
    """The leader of a partition, or what is wrong with it or with its topic."""
    found = leaders.get(partition)
    if found is None:
        found = leaders.get(partition.topic)
    if found is None:
        found = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return found


class CoordinatorStrategy(Generic[K]):
    """The coordinator of the group or transactional id that each item names."""

    patient: Collection[int] = ()

    def __init__(self, key_type: int, name: Callable[[K], str]) -> None:
        """Take the kind, GROUP or TRANSACTION; groups of all types share one kind."""
        self._key_type = key_type
        self._name = name
        self._any = AnyBrokerStrategy[str]()

    async def locate(
        self, client: Client, keys: Sequence[K], timeout_ms: int
    ) -> Mapping[K, int | ApiError]:
        """The coordinators, by one FindCoordinator request where the broker takes many keys."""
        names = {key: self._name(key) for key in keys}
        wanted = list(dict.fromkeys(names.values()))
        node_id = self._any.choose(client)
        await client.ready(node_id, timeout_ms=timeout_ms)
        version = await client.version(node_id, ApiKey.FIND_COORDINATOR)
        found: dict[str, int | ApiError] = {}
        if version >= _BATCHED_LOOKUP_VERSION:
            request = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=wanted)
            response = await client.request(
                node_id, request, version=version, timeout_ms=timeout_ms
            )
            for one in response.coordinators:
                found[one.key] = _node_or_error(one)
        else:
            for name in wanted:
                request = FindCoordinatorRequest(key_type=self._key_type, key=name)
                found[name] = _node_or_error(
                    await client.request(node_id, request, version=version, timeout_ms=timeout_ms)
                )
        unknown = {one for one in found.values() if type(one) is int} - client.cluster.nodes.keys()
        if unknown:
            await client.refresh(timeout_ms=timeout_ms)
        return {
            key: found.get(name, ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            for key, name in names.items()
        }

    def failed(self, node_id: int) -> None:
        """Look the coordinators up at another broker next time."""
        self._any.failed(node_id)


def _node_or_error(response: Any) -> int | ApiError:
    if response.error_code:
        return ApiError(response.error_code, response.error_message)
    node_id: int = response.node_id
    return node_id
