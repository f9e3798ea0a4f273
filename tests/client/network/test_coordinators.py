"""Looking for coordinators, in one request for many keys or in many for one each."""

import asyncio
from typing import Any

import pytest

from barnabas_client.cluster.metadata import Node
from barnabas_client.errors import (
    AuthorizationError,
    BarnabasError,
    CoordinatorMovedError,
)
from barnabas_client.network.coordinators import (
    CoordinatorCache,
    CoordinatorType,
    read_response,
    requests_for,
)
from barnabas_client.network.node_connections import COORDINATOR_BASE, broker_id
from barnabas_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

GROUP = CoordinatorType.GROUP


@pytest.mark.parametrize(("version", "count"), [(0, 3), (3, 3), (4, 1), (6, 1)])
def test_keys_go_together_where_the_broker_can(version: int, count: int) -> None:
    """KIP-699: from version 4 on."""
    requests = requests_for(CoordinatorType.TRANSACTION, ["a", "b", "c"], version)
    assert len(requests) == count
    assert all(request.key_type == 1 for request in requests)


def test_each_key_has_an_outcome() -> None:
    """One key's error is not another's."""
    rows = [
        Coordinator(key="a", node_id=7, host="seven", port=1),
        Coordinator(key="b", error_code=15),
        Coordinator(key="c", error_code=30, error_message="no"),
    ]
    found = read_response(GROUP, ["a", "b", "c"], 4, FindCoordinatorResponse(coordinators=rows))
    assert found["a"] == ("a", Node(node_id=7, host="seven", port=1))
    assert isinstance(found["b"], CoordinatorMovedError)
    assert isinstance(found["c"], AuthorizationError)
    assert "group 'c': no" in str(found["c"])


def test_an_old_response_belongs_to_the_one_key() -> None:
    """Before version 4 the key is not repeated in the answer."""
    answer = FindCoordinatorResponse(error_code=16, error_message=None)
    found = read_response(GROUP, ["a"], 2, answer)
    assert isinstance(found["a"], CoordinatorMovedError)
    answer = FindCoordinatorResponse(node_id=3, host="three", port=1)
    assert read_response(GROUP, ["a"], 2, answer)["a"] == (
        "a",
        Node(node_id=3, host="three", port=1),
    )


def test_what_was_found_is_remembered_until_it_is_forgotten() -> None:
    """By the number of a connection of its own, and the node is learned."""
    asked: list[Any] = []
    learned: list[Node] = []

    async def version(_: CoordinatorType) -> tuple[int, int]:
        return 1, 4

    async def request(_: int, request: Any, __: int) -> FindCoordinatorResponse:
        asked.append(request.coordinator_keys)
        rows = [
            Coordinator(key=key, node_id=2, host="two", port=1)
            for key in request.coordinator_keys
            if key != "lost"
        ]
        return FindCoordinatorResponse(coordinators=rows)

    async def run() -> None:
        coordinators = CoordinatorCache(version=version, request=request, learn=learned.append)
        found = await coordinators.find(GROUP, ["a", "b", "a", "lost"])
        assert asked == [["a", "b", "lost"]]
        assert found["a"] == found["b"] == COORDINATOR_BASE + 2
        assert isinstance(found["lost"], BarnabasError)
        assert broker_id(COORDINATOR_BASE + 2) == 2
        assert learned[0].host == "two"
        assert coordinators.known(GROUP, "a") == COORDINATOR_BASE + 2
        assert coordinators.known(CoordinatorType.SHARE, "a") is None
        coordinators.forget(GROUP, "a")
        assert coordinators.known(GROUP, "a") is None
        coordinators.forget_node(COORDINATOR_BASE + 2)
        assert coordinators.known(GROUP, "b") is None

    asyncio.run(run())
