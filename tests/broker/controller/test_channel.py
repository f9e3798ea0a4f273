"""Requests to the controller: whoever it is, and however often it changes."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas_broker.controller.channel import (
    LAST_ANSWER_SECONDS,
    ControllerChannel,
    Forwarded,
    is_not_controller,
)
from barnabas_broker.handlers.table import is_repeatable
from barnabas_broker.network.peers import Peers
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_partition import AlterPartitionResponse
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas_protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tests.support.peer_nodes import Asked, PeerNode, stop_all, until
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import VirtualClock, run_virtual


class Local:
    """The controller on this node."""

    def __init__(self, answer: Callable[[Any], Awaitable[Any]]) -> None:
        self.answer = answer


class Bench:
    """This node, and two others that may be the controller."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        network, clock = SimulatedNetwork(), VirtualClock(self.loop)
        self.nodes = [PeerNode(network), PeerNode(network)]
        self.controller_id: int | None = None
        self.local: Local | None = None
        self.changed = asyncio.Event()
        self.peers = Peers(network, resolve=self._address, client_id="broker-7")
        self.channel = ControllerChannel(
            self.peers,
            clock,
            controller_id=lambda: self.controller_id,
            local=lambda: self.local,
            wait_for_change=self._wait_for_change,
            is_repeatable=is_repeatable,
        )

    def _address(self, node_id: int) -> tuple[str, int] | None:
        return self.nodes[node_id].address if node_id < len(self.nodes) else None

    async def _wait_for_change(self) -> None:
        await self.changed.wait()

    def becomes(self, controller_id: int | None, local: Local | None = None) -> None:
        self.controller_id, self.local = controller_id, local
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def send(self, number: int = 1, timeout_ms: int = 30_000) -> Any:
        return await self.channel.send(
            BrokerHeartbeatRequest(broker_id=number), timeout_ms=timeout_ms
        )

    async def forward(self, envelope: EnvelopeRequest, *, is_repeatable: bool) -> Forwarded:
        return await self.channel.forward(envelope, timeout_ms=30_000, is_repeatable=is_repeatable)


def on_bench(work: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        bench = Bench()
        for node in bench.nodes:
            await node.start()
        try:
            await work(bench)
        finally:
            await bench.peers.close()
            await stop_all(bench.nodes)
        mine = asyncio.current_task()
        assert [task for task in asyncio.all_tasks() if task is not mine] == []

    run_virtual(run())


def answer(asked: Asked) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(throttle_time_ms=asked.message.broker_id)


def refuse(asked: Asked) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)


def test_the_controller_of_this_node_is_asked_without_a_connection() -> None:
    async def work(bench: Bench) -> None:
        async def local_answer(request: Any) -> Any:
            return BrokerHeartbeatResponse(throttle_time_ms=request.broker_id)

        bench.becomes(0, Local(local_answer))
        assert bench.channel.is_local
        assert (await bench.send(5)).throttle_time_ms == 5
        assert bench.nodes[0].connections == []

    on_bench(work)


def test_another_node_is_asked_in_the_newest_version() -> None:
    async def work(bench: Bench) -> None:
        bench.nodes[1].script = answer
        bench.becomes(1)
        assert not bench.channel.is_local
        assert (await bench.send(5)).throttle_time_ms == 5
        assert bench.nodes[1].asked[0].header.api_version == 2
        assert bench.nodes[1].asked[0].header.client_id == "broker-7"

    on_bench(work)


def test_while_no_controller_is_known_the_request_waits_for_one() -> None:
    async def work(bench: Bench) -> None:
        bench.nodes[1].script = answer
        sending = asyncio.create_task(bench.send(5))
        await asyncio.sleep(3)
        changed_at = bench.loop.time()
        bench.becomes(1)
        assert (await sending).throttle_time_ms == 5
        assert bench.loop.time() == changed_at

    on_bench(work)


def test_what_has_become_the_controller_is_asked_again_after_a_refusal() -> None:
    async def work(bench: Bench) -> None:
        bench.nodes[0].script = refuse
        bench.nodes[1].script = answer
        bench.becomes(0)
        sending = asyncio.create_task(bench.send(5))
        await until(lambda: len(bench.nodes[0].asked) == 3)
        bench.becomes(1)
        assert (await sending).throttle_time_ms == 5

    on_bench(work)


def test_refusals_are_met_with_growing_patience_and_an_end() -> None:
    """50 ms, doubled up to 500: a node that does not know of its election yet is not flooded."""

    async def work(bench: Bench) -> None:
        times: list[float] = []

        def script(asked: Asked) -> Any:
            times.append(bench.loop.time())
            return refuse(asked)

        bench.nodes[0].script = script
        bench.becomes(0)
        with pytest.raises(KafkaError) as timed_out:
            await bench.send(5, timeout_ms=3_000)
        assert timed_out.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert bench.loop.time() == pytest.approx(3, abs=0.01)
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert pauses[:6] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.5, 0.5], abs=0.002)

    on_bench(work)


def test_without_a_controller_the_request_times_out() -> None:
    async def work(bench: Bench) -> None:
        with pytest.raises(KafkaError) as timed_out:
            await bench.send(5, timeout_ms=2_000)
        assert timed_out.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert bench.loop.time() == pytest.approx(2, abs=0.01)

    on_bench(work)


def test_a_lost_answer_is_asked_for_again() -> None:
    async def work(bench: Bench) -> None:
        node = bench.nodes[0]
        bench.becomes(0)
        sending = asyncio.create_task(bench.send(5))
        await until(lambda: len(node.asked) == 1)
        node.script = answer
        node.drop_connections()
        assert (await sending).throttle_time_ms == 5
        assert len(node.asked) == 2

    on_bench(work)


def test_a_paused_controller_does_not_keep_the_request_from_the_next_one() -> None:
    """Its connection stays open and silent; only the change of the controller tells."""

    async def work(bench: Bench) -> None:
        bench.nodes[1].script = answer
        bench.becomes(0)
        sending = asyncio.create_task(bench.send(5))
        await until(lambda: len(bench.nodes[0].asked) == 1)
        await asyncio.sleep(2)
        changed_at = bench.loop.time()
        bench.becomes(None)
        await asyncio.sleep(0.1)
        bench.becomes(1)
        assert (await sending).throttle_time_ms == 5
        assert bench.loop.time() == pytest.approx(changed_at + 0.1, abs=0.001)

    on_bench(work)


def test_a_change_that_was_missed_is_seen_soon() -> None:
    async def work(bench: Bench) -> None:
        bench.nodes[1].script = answer
        bench.becomes(0)
        sending = asyncio.create_task(bench.send(5))
        await until(lambda: len(bench.nodes[0].asked) == 1)
        bench.controller_id = 1
        assert (await sending).throttle_time_ms == 5
        assert bench.loop.time() < 1

    on_bench(work)


def test_an_answer_is_taken_while_no_controller_is_known() -> None:
    """The view of who leads may be behind the one who answers."""

    async def work(bench: Bench) -> None:
        bench.becomes(0)
        sending = asyncio.create_task(bench.send(5))
        await until(lambda: len(bench.nodes[0].asked) == 1)
        bench.becomes(None)
        await asyncio.sleep(1)
        bench.nodes[0].asked[0].answer(answer(bench.nodes[0].asked[0]))
        assert (await sending).throttle_time_ms == 5

    on_bench(work)


def test_this_node_answers_once_it_has_become_the_controller() -> None:
    async def work(bench: Bench) -> None:
        async def local_answer(request: Any) -> Any:
            return BrokerHeartbeatResponse(throttle_time_ms=77)

        bench.becomes(0)
        sending = asyncio.create_task(bench.send())
        await until(lambda: len(bench.nodes[0].asked) == 1)
        bench.becomes(7, Local(local_answer))
        assert (await sending).throttle_time_ms == 77

    on_bench(work)


def test_this_node_stepping_down_sends_the_request_to_the_next() -> None:
    async def work(bench: Bench) -> None:
        async def local_answer(request: Any) -> Any:
            await bench.changed.wait()
            raise KafkaError(ErrorCode.NOT_CONTROLLER)

        bench.nodes[1].script = answer
        bench.becomes(7, Local(local_answer))
        sending = asyncio.create_task(bench.send(5))
        await asyncio.sleep(1)
        bench.becomes(1)
        assert (await sending).throttle_time_ms == 5

    on_bench(work)


def test_the_local_controller_s_own_errors_are_the_caller_s() -> None:
    async def work(bench: Bench) -> None:
        async def local_answer(request: Any) -> Any:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)

        bench.becomes(7, Local(local_answer))
        with pytest.raises(KafkaError) as stale:
            await bench.send()
        assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH

    on_bench(work)


def test_a_local_controller_that_cannot_commit_costs_the_timeout() -> None:
    async def work(bench: Bench) -> None:
        async def local_answer(request: Any) -> Any:
            await asyncio.Event().wait()

        bench.becomes(7, Local(local_answer))
        with pytest.raises(KafkaError) as timed_out:
            await bench.send(timeout_ms=1_000)
        assert timed_out.value.code is ErrorCode.REQUEST_TIMED_OUT

    on_bench(work)


def test_a_cancelled_caller_leaves_nothing_behind() -> None:
    async def work(bench: Bench) -> None:
        bench.becomes(0)
        sending = asyncio.create_task(bench.send())
        await until(lambda: len(bench.nodes[0].asked) == 1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    on_bench(work)


def test_heartbeats_do_not_wait_for_slow_commands() -> None:
    async def work(bench: Bench) -> None:
        node = bench.nodes[0]
        bench.becomes(0)
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        slow = asyncio.create_task(bench.channel.send(request, timeout_ms=30_000))
        await until(lambda: len(node.asked) == 1)
        node.script = answer
        assert (await bench.send(5)).throttle_time_ms == 5
        node.asked[0].answer(CreateTopicsResponse())
        assert await slow == CreateTopicsResponse()

    on_bench(work)


def test_a_refusal_of_every_item_is_a_refusal() -> None:
    refused = CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)
    assert is_not_controller(CreateTopicsResponse(topics=[refused]))
    assert not is_not_controller(CreateTopicsResponse(topics=[CreatableTopicResult(name="t")]))
    assert not is_not_controller(CreateTopicsResponse())
    assert is_not_controller(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert not is_not_controller(AlterPartitionResponse(error_code=ErrorCode.INVALID_REQUEST))


def test_an_envelope_goes_to_the_controller_until_this_node_is_it() -> None:
    async def work(bench: Bench) -> None:
        envelope = EnvelopeRequest(request_data=b"frame")
        answered = EnvelopeResponse(response_data=b"answer")
        bench.nodes[0].script = lambda asked: EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        bench.nodes[1].script = lambda asked: answered
        bench.becomes(0)
        forwarding = asyncio.create_task(bench.forward(envelope, is_repeatable=True))
        await until(lambda: len(bench.nodes[0].asked) == 2)
        bench.becomes(1)
        got = await forwarding
        assert got.response is not None
        assert bytes(got.response.response_data or b"") == b"answer"
        assert not got.was_repeated  # who refuses has not carried it out
        bench.nodes[1].script = None
        forwarding = asyncio.create_task(bench.forward(envelope, is_repeatable=True))
        await until(lambda: len(bench.nodes[1].asked) == 2)

        async def never(request: Any) -> Any:
            raise AssertionError("the caller carries it out")

        bench.becomes(7, Local(never))
        assert await forwarding == Forwarded(None, was_repeated=True)

    on_bench(work)


def test_what_may_have_been_carried_out_is_not_sent_again_unless_that_is_harmless() -> None:
    """A lost response, and a controller that is another one before it has answered."""

    async def work(bench: Bench) -> None:
        node, envelope = bench.nodes[0], EnvelopeRequest(request_data=b"frame")
        bench.becomes(0)

        def lose_connection() -> None:
            node.drop_connections()

        losses = ((lose_connection, 0.0), (lambda: bench.becomes(1), LAST_ANSWER_SECONDS))
        for number, (lose, seconds) in enumerate(losses, start=1):
            forwarding = asyncio.create_task(bench.forward(envelope, is_repeatable=False))
            await until(lambda number=number: len(node.asked) == number)  # type: ignore[misc]
            began_at = bench.loop.time()
            lose()
            with pytest.raises(KafkaError) as not_known:
                await forwarding
            assert not_known.value.code is ErrorCode.REQUEST_TIMED_OUT
            assert bench.loop.time() == pytest.approx(began_at + seconds, abs=0.001)
        assert [len(node.asked) for node in bench.nodes] == [2, 0]

    on_bench(work)


@pytest.mark.parametrize("is_refused", [True, False])
def test_the_last_answer_of_a_controller_that_stops_is_awaited(is_refused: bool) -> None:
    """CTL-15: on a slow machine the news of the next one comes before it."""

    async def work(bench: Bench) -> None:
        old, new = bench.nodes
        new.script = lambda asked: EnvelopeResponse(response_data=b"new")
        bench.becomes(0)
        envelope = EnvelopeRequest(request_data=b"frame")
        forwarding = asyncio.create_task(bench.forward(envelope, is_repeatable=False))
        await until(lambda: len(old.asked) == 1)
        bench.becomes(1)
        await asyncio.sleep(1)
        code = ErrorCode.NOT_CONTROLLER if is_refused else ErrorCode.NONE
        old.asked[0].answer(EnvelopeResponse(error_code=code, response_data=b"old"))
        got = await forwarding
        assert got.response is not None
        assert got.response.response_data == (b"new" if is_refused else b"old")
        assert not got.was_repeated

    on_bench(work)


def test_a_node_that_becomes_the_controller_does_not_repeat_what_it_has_sent() -> None:
    async def work(bench: Bench) -> None:
        bench.becomes(0)
        envelope = EnvelopeRequest(request_data=b"frame")
        forwarding = asyncio.create_task(bench.forward(envelope, is_repeatable=False))
        await until(lambda: len(bench.nodes[0].asked) == 1)

        async def never(request: Any) -> Any:
            raise AssertionError("it may have been carried out")

        bench.becomes(7, Local(never))
        with pytest.raises(KafkaError) as not_known:
            await forwarding
        assert not_known.value.code is ErrorCode.REQUEST_TIMED_OUT

    on_bench(work)


def test_what_was_never_sent_goes_to_the_next_controller() -> None:
    """Nobody listens where the first one was: that harms no request, whatever it does."""

    async def work(bench: Bench) -> None:
        await bench.nodes[0].stop()
        bench.nodes[1].script = lambda asked: EnvelopeResponse(response_data=b"answer")
        bench.becomes(0)
        envelope = EnvelopeRequest(request_data=b"frame")
        forwarding = asyncio.create_task(bench.forward(envelope, is_repeatable=False))
        await asyncio.sleep(1)
        bench.becomes(1)
        got = await forwarding
        assert got.response is not None
        assert not got.was_repeated

    on_bench(work)


def test_a_topic_is_not_created_twice_by_the_broker_itself() -> None:
    """`send` knows from the table of handlers what bears to be repeated."""

    async def work(bench: Bench) -> None:
        bench.becomes(0)
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        sending = asyncio.create_task(bench.channel.send(request, timeout_ms=30_000))
        await until(lambda: len(bench.nodes[0].asked) == 1)
        bench.nodes[0].drop_connections()
        with pytest.raises(KafkaError) as not_known:
            await sending
        assert not_known.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert len(bench.nodes[0].asked) == 1

    on_bench(work)
