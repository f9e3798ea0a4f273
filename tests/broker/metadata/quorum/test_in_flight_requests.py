"""Requests in flight to other nodes of the metadata log: each succeeds or fails."""

import asyncio
from typing import Any, cast

import pytest

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.in_flight_requests import InFlightRequests, OutboundRequest
from barnabas_broker.metadata.quorum.messages import QuorumFetchRequest
from barnabas_broker.metadata.quorum.transport import QuorumTransport
from barnabas_broker.metadata.quorum.voters import Voter
from tests.support.virtual_loop import run_virtual

ASKED = QuorumFetchRequest(controller_epoch=3, voter=Voter(1, b"1" * 16), end=LogEnd(3, 10))


class FailingTransport:
    """Every fetch fails in a way of its own."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.ask_count = 0

    async def fetch_records(
        self, node_id: int, request: QuorumFetchRequest, timeout_ms: int
    ) -> Any:
        """Fail."""
        self.ask_count += 1
        raise self.failure


@pytest.mark.parametrize("failure", [ConnectionResetError(), ValueError("a response of nonsense")])
def test_question_that_fails_in_any_way_is_lost_and_may_be_asked_again(failure: Exception) -> None:
    """Else the node would believe for ever that it is under way, and follow nobody any more."""

    async def work() -> None:
        transport = FailingTransport(failure)
        lost: list[tuple[int, OutboundRequest]] = []
        questions = InFlightRequests(
            cast("QuorumTransport", transport), lambda node, request: lost.append((node, request))
        )

        def on_response(response: tuple[object, Buffer]) -> None:
            raise AssertionError(response)

        for count in (1, 2):
            questions.fetch(2, ASKED, on_response)
            assert questions.has_any
            while questions.has_any:
                await asyncio.sleep(0)
            assert (transport.ask_count, lost) == (count, [(2, ASKED)] * count)
        await questions.close()

    run_virtual(work())
