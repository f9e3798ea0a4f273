"""Questions to other nodes of the metadata log: each is answered or lost, whatever goes wrong."""

import asyncio
from typing import Any, cast

import pytest

from barnabas_broker.env.disk import Buffer
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.quorum_messages import FetchAsked
from barnabas_broker.metadata.quorum_questions import Question, Questions
from barnabas_broker.metadata.quorum_transport_protocol import QuorumTransport
from tests.support.virtual_loop import run_virtual

ASKED = FetchAsked(controller_epoch=3, seat=Seat(1, b"1" * 16), end=LogEnd(3, 10))


class FailingTransport:
    """Every fetch fails in a way of its own."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.ask_count = 0

    async def ask_fetch(self, node_id: int, asked: FetchAsked, timeout_ms: int) -> Any:
        """Fail."""
        self.ask_count += 1
        raise self.failure


@pytest.mark.parametrize("failure", [ConnectionResetError(), ValueError("an answer of nonsense")])
def test_question_that_fails_in_any_way_is_lost_and_may_be_asked_again(failure: Exception) -> None:
    """Else the node would believe for ever that it is under way, and follow nobody any more."""

    async def work() -> None:
        transport = FailingTransport(failure)
        lost: list[tuple[int, Question]] = []
        questions = Questions(
            cast("QuorumTransport", transport), lambda node, asked: lost.append((node, asked))
        )

        def told(answer: tuple[object, Buffer]) -> None:
            raise AssertionError(answer)

        for count in (1, 2):
            questions.fetch(2, ASKED, told)
            assert questions.has_any
            while questions.has_any:
                await asyncio.sleep(0)
            assert (transport.ask_count, lost) == (count, [(2, ASKED)] * count)
        await questions.close()

    run_virtual(work())
