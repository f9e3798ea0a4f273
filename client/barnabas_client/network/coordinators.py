"""Finds the coordinators of groups, transactions and share groups, and remembers them.

Source: KIP-699 (FindCoordinator from version 4 takes many keys), KIP-98 (transactions).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from barnabas_client.cluster.metadata import Node
from barnabas_client.errors import BarnabasError, error_for
from barnabas_client.network.node_connections import COORDINATOR_BASE
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_FROM: Final = 4


class CoordinatorType(IntEnum):
    """What a coordinator coordinates, by the number in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Found(NamedTuple):
    """A coordinator as a broker named it."""

    key: str
    node: Node


def requests_for(kind: CoordinatorType, keys: Iterable[str], version: int) -> list[Any]:
    """The requests for some keys: one, or one for each key in versions before 4."""
    if version >= BATCHED_FROM:
        return [FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))]
    return [FindCoordinatorRequest(key=key, key_type=kind) for key in keys]


def read_response(
    kind: CoordinatorType, keys: list[str], version: int, response: FindCoordinatorResponse
) -> dict[str, Found | BarnabasError]:
    """What a response holds for each key of its request."""
    if version < BATCHED_FROM:
        (key,) = keys
        if response.error_code != ErrorCode.NONE:
            return {key: _error(kind, key, response.error_code, response.error_message)}
        node = Node(node_id=response.node_id, host=response.host, port=response.port)
        return {key: Found(key, node)}
    found: dict[str, Found | BarnabasError] = {}
    for row in response.coordinators:
        if row.error_code != ErrorCode.NONE:
            found[row.key] = _error(kind, row.key, row.error_code, row.error_message)
        else:
            node = Node(node_id=row.node_id, host=row.host, port=row.port)
            found[row.key] = Found(row.key, node)
    return found


def _error(kind: CoordinatorType, key: str, code: int, message: str | None) -> BarnabasError:
    what = f"no coordinator for the {kind.name.lower()} {key!r}"
    return error_for(code, f"{what}: {message}" if message else what)


class CoordinatorCache:
    """The known coordinators of one client, as numbers of connections of their own."""

    def __init__(
        self,
        *,
        version: Callable[[CoordinatorType], Awaitable[tuple[int, int]]],
        request: Callable[[int, Any, int], Awaitable[Any]],
        learn: Callable[[Node], None],
    ) -> None:
        self._version = version
        self._request = request
        self._learn = learn
        self._known: dict[tuple[CoordinatorType, str], int] = {}

    def known(self, kind: CoordinatorType, key: str) -> int | None:
        """The coordinator found earlier."""
        return self._known.get((kind, key))

    def forget(self, kind: CoordinatorType, key: str) -> None:
        """Look again next time: the coordinator is none any more, or is not there."""
        self._known.pop((kind, key), None)

    def forget_node(self, node_id: int) -> None:
        """Look again for everything that a lost connection led to."""
        for known in [known for known, node in self._known.items() if node == node_id]:
            del self._known[known]

    async def find(
        self, kind: CoordinatorType, keys: Iterable[str]
    ) -> Mapping[str, int | BarnabasError]:
        """One attempt for many keys: the coordinators, or why there is none.

        Raises: BarnabasError if no broker could be reached.
        """
        wanted = list(dict.fromkeys(keys))
        node_id, version = await self._version(kind)
        result: dict[str, int | BarnabasError] = {}
        for request in requests_for(kind, wanted, version):
            requested = wanted if version >= BATCHED_FROM else [request.key]
            response = await self._request(node_id, request, version)
            for key, found in read_response(kind, requested, version, response).items():
                if isinstance(found, BarnabasError):
                    result[key] = found
                    continue
                self._learn(found.node)
                result[key] = COORDINATOR_BASE + found.node.node_id
                self._known[kind, key] = COORDINATOR_BASE + found.node.node_id
        for key in wanted:
            if key not in result:
                result[key] = error_for(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    f"the broker left out the coordinator of {key!r}",
                )
        return result
