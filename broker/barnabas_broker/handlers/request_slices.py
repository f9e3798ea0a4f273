"""Carries out a request of very many elements a slice at a time, so that the loop goes on between.

Each element of these requests is judged by itself: a request of a thousand gets in one response
what ten requests one after the other would get. Only what one
request may repeat without being refused is taken out before.

Not here: requests whose elements belong together (JoinGroup, Produce, Fetch), and what the response
for one element may cost, which is the handlers' own affair (Metadata).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from barnabas_broker.controller.partitions import PARTITIONS_PER_REQUEST_MAX
from barnabas_broker.controller.reassignment import TOO_MANY_CHANGES
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.network.heavy_work import SLICE, Pause
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.schema import Message

Path = Sequence[str]
Handle = Callable[[Any], Any]
Failed = Callable[[Any, Exception], Any]


@dataclass(frozen=True, slots=True)
class Slicing:
    """The arrays of a request from outside in, those of its response, and the size of a slice."""

    request: Path
    response: Path
    size: int = SLICE
    #: The identity of an outer element, where one that is repeated very often is served once.
    key: Callable[[Any], Hashable] | None = None
    #: What is wrong with the request as a whole, so that every element is refused.
    refusal: Callable[[Any], KafkaError | None] = lambda _: None


def _repeated(array: str, *names: str) -> Callable[[Any], KafkaError | None]:
    """Refuses requests that name one thing twice, which no part of them would show."""
    key = attrgetter(*names)

    def refusal(request: Any) -> KafkaError | None:
        elements = getattr(request, array)
        if len({key(element) for element in elements}) == len(elements):
            return None
        return KafkaError(ErrorCode.INVALID_REQUEST, "one name is there twice")

    return refusal


def _refused_creation(request: Any) -> KafkaError | None:
    """As the controller refuses a smaller request, which it sees as a whole (TOP-14)."""
    counts = [max(topic.num_partitions, len(topic.assignments), 1) for topic in request.topics]
    if sum(counts) > PARTITIONS_PER_REQUEST_MAX:
        return KafkaError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
    return _repeated("topics", "name")(request)


def _refused_reassignment(request: Any) -> KafkaError | None:
    if sum(len(topic.partitions) for topic in request.topics) > PARTITIONS_PER_REQUEST_MAX:
        return KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_CHANGES)
    return None


_PARTITIONS: Final = ("topics", "partitions")
_DESCRIBED_SIZE: Final = 4
"""Each resource has dozens of settings, each with its synonyms and its documentation."""
_TWICE_JUDGED_SIZE: Final = 200
"""Rights to a group and to a topic may be asked for with each."""
_DECIDED_SIZE: Final = 40
"""The controller decides on each by its image and writes what it decides."""
_ONE_RESOURCE: Final = _repeated("resources", "resource_type", "resource_name")
# Where versions differ, the first that a request has elements of.
SLICED: Final[dict[ApiKey, tuple[Slicing, ...]]] = {
    ApiKey.OFFSET_COMMIT: (Slicing(_PARTITIONS, _PARTITIONS),),
    ApiKey.OFFSET_FETCH: (
        Slicing(
            ("groups", "topics", "partition_indexes"),
            ("groups", "topics", "partitions"),
            _TWICE_JUDGED_SIZE,
            key=attrgetter("group_id"),
        ),
        Slicing(("topics", "partition_indexes"), _PARTITIONS),
    ),
    ApiKey.FIND_COORDINATOR: (Slicing(("coordinator_keys",), ("coordinators",), key=str),),
    ApiKey.DESCRIBE_GROUPS: (Slicing(("groups",), ("groups",), key=str),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (Slicing(("group_ids",), ("groups",), key=str),),
    ApiKey.SHARE_GROUP_DESCRIBE: (Slicing(("group_ids",), ("groups",), key=str),),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        Slicing(
            ("groups", "topics", "partitions"),
            ("groups", "topics", "partitions"),
            _TWICE_JUDGED_SIZE,
            key=attrgetter("group_id"),
        ),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        Slicing(("transactional_ids",), ("transaction_states",), key=str),
    ),
    # Each slice is in the same transaction, which is verified or added to with the first.
    ApiKey.TXN_OFFSET_COMMIT: (Slicing(_PARTITIONS, _PARTITIONS),),
    ApiKey.WRITE_TXN_MARKERS: (
        Slicing(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")),
    ),
    ApiKey.OFFSET_DELETE: (Slicing(_PARTITIONS, _PARTITIONS),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (Slicing(_PARTITIONS, _PARTITIONS),),
    ApiKey.CREATE_TOPICS: (
        Slicing(("topics",), ("topics",), _DECIDED_SIZE, refusal=_refused_creation),
    ),
    ApiKey.DELETE_TOPICS: (
        Slicing(("topics",), ("responses",), _DECIDED_SIZE),
        Slicing(("topic_names",), ("responses",), _DECIDED_SIZE),
    ),
    ApiKey.CREATE_PARTITIONS: (
        Slicing(("topics",), ("results",), _DECIDED_SIZE, refusal=_repeated("topics", "name")),
    ),
    ApiKey.ELECT_LEADERS: (
        Slicing(
            ("topic_partitions", "partitions"), ("replica_election_results", "partition_result")
        ),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        Slicing(_PARTITIONS, ("responses", "partitions"), refusal=_refused_reassignment),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        Slicing(("dirs", "topics", "partitions"), ("results", "partitions")),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        Slicing(("resources",), ("responses",), _DECIDED_SIZE, refusal=_ONE_RESOURCE),
    ),
    ApiKey.ALTER_CONFIGS: (
        Slicing(("resources",), ("responses",), _DECIDED_SIZE, refusal=_ONE_RESOURCE),
    ),
    ApiKey.DESCRIBE_CONFIGS: (
        Slicing(
            ("resources",),
            ("results",),
            _DESCRIBED_SIZE,
            key=attrgetter("resource_type", "resource_name"),
        ),
    ),
    ApiKey.DELETE_GROUPS: (Slicing(("groups_names",), ("results",)),),
}


def slicing_of(key: ApiKey, request: Message) -> Slicing | None:
    """How a request can be carried out in slices, None where it cannot or has no elements."""
    for slicing in SLICED.get(key, ()):
        if getattr(request, slicing.request[0]):
            return slicing
    return None


def as_a_whole(slicing: Slicing, request: Message) -> tuple[Message, KafkaError | None]:
    """The request with each element once, and what is wrong with all of it.

    For a thread: it looks at every element.
    """
    if slicing.key is not None:
        name = slicing.request[0]
        request = _with(request, name, list(each_once(getattr(request, name), slicing.key)))
    return request, slicing.refusal(request)


async def in_slices(
    slicing: Slicing,
    handle: Handle,
    failed: Failed,
    pause: Pause,
    request: Message,
    refusal: KafkaError | None,
) -> Any:
    """The response to a request, as `as_a_whole` gives it, that is carried out in slices.

    A slice that fails gets the response of `failed`; those before and after it stand.
    """
    whole: Any = None
    for piece, _ in pieces(request, slicing.request, slicing.size):
        await pause()
        try:
            if refusal is not None:
                raise refusal
            response = handle(piece)
            if inspect.isawaitable(response):
                response = await response
        except Exception as error:
            response = failed(piece, error)
        if whole is None:
            whole = response
        else:
            _merge(whole, response, slicing.response)
            if getattr(response, "error_code", 0):
                whole.error_code = response.error_code
            if getattr(response, "throttle_time_ms", 0) > getattr(whole, "throttle_time_ms", 0):
                whole.throttle_time_ms = response.throttle_time_ms
    return whole


def pieces(message: Any, path: Path, size: int) -> Iterator[tuple[Any, int]]:
    """Copies of a message that have its innermost elements among them, each with how many.

    They have less than twice as many as `size`.
    """
    name, *inner = path
    elements = getattr(message, name)
    if not elements:
        yield message, 1
        return
    taken: list[Any] = []
    weight = 0
    for element in elements:
        for piece, piece_weight in pieces(element, inner, size) if inner else ((element, 1),):
            taken.append(piece)
            weight += piece_weight
            if weight >= size:
                yield _with(message, name, taken), weight
                taken, weight = [], 0
    if taken:
        yield _with(message, name, taken), weight


def _with(message: Any, name: str, elements: list[Any]) -> Any:
    piece = copy.copy(message)
    setattr(piece, name, elements)
    return piece


def _merge(whole: Any, part: Any, path: Path) -> None:
    """Put what is in the arrays of a part behind what is in those of the whole."""
    name, *inner = path
    there, more = getattr(whole, name), getattr(part, name)
    if inner and there and more and _is_same(there[-1], more[0], inner[0]):
        _merge(there[-1], more[0], inner)
        more = more[1:]
    there.extend(more)


def _is_same(one: Message, other: Message, array: str) -> bool:
    """Whether both stand for the same topic, whatever is in their arrays."""
    names = [field.name for field in one.__fields__ if field.name != array]
    return all(getattr(one, name, None) == getattr(other, name, None) for name in names)
