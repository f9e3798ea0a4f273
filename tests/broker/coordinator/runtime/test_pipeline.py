"""Commands of one shard: committing, failing, undoing, timers; on virtual time."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_broker.coordinator.runtime.shard import (
    AppendHook,
    CoordinatorRecord,
    Instant,
    Result,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.compression import Compression
from tests.broker.coordinator.runtime.counting_shard import CountingShard
from tests.broker.coordinator.runtime.runtime_world import World
from tests.support.virtual_loop import run_virtual


def test_a_reply_waits_for_the_commit_and_the_state_does_not() -> None:
    """OFS-5."""

    async def scenario() -> None:
        world = World()
        await world.start()
        world.writer.pause()
        first = asyncio.ensure_future(world.add())
        await asyncio.sleep(0.1)
        assert not first.done()
        assert world.shards[0].counts == {"n": 1}
        second = asyncio.ensure_future(world.add())
        reading = asyncio.ensure_future(world.get())
        await asyncio.sleep(0.1)
        assert not second.done()
        assert not reading.done()
        world.writer.resume()
        assert await asyncio.gather(first, second, reading) == [1, 2, 2]
        await world.runtime.close()

    run_virtual(scenario())


def test_commands_of_one_turn_share_a_batch() -> None:
    async def scenario() -> None:
        world = World()
        await world.start()
        assert await asyncio.gather(*(world.add() for _ in range(50))) == list(range(1, 51))
        assert world.writer.append_count == 1
        assert len(world.log().records()) == 50
        await world.runtime.close()

    run_virtual(scenario())


def test_batches_stay_below_the_limit_and_keep_the_order() -> None:
    async def scenario() -> None:
        world = World(batch_bytes_max=300)
        await world.start()
        await asyncio.gather(*(world.add(padding=100) for _ in range(7)))
        assert world.writer.append_count == 4
        assert [int(record.value) for record in world.log().records()] == list(range(1, 8))
        await world.runtime.close()

    run_virtual(scenario())


@pytest.mark.parametrize("codec", Compression)
def test_batches_are_compressed_by_the_codec_that_is_set(codec: Compression) -> None:
    """`offsets.topic.compression.codec`: and such a log is loaded again."""

    async def scenario() -> None:
        world = World(compression=codec)
        await world.start()
        await asyncio.gather(*(world.add(padding=100) for _ in range(20)))
        ((_, batch),) = world.log().batches
        assert read_header(batch).compression == codec
        assert (len(batch) < 1000) == (codec is not Compression.NONE)
        world.runtime.unload(0)
        await world.start()
        assert await world.get() == 20
        await world.runtime.close()

    run_virtual(scenario())


def test_a_command_that_cannot_fit_fails_alone() -> None:
    """OFS-6: 10."""

    async def scenario() -> None:
        world = World(batch_bytes_max=300)
        await world.start()
        small = asyncio.ensure_future(world.add("small"))
        large = asyncio.ensure_future(world.error(world.add("large", padding=500)))
        assert await large is ErrorCode.MESSAGE_TOO_LARGE
        assert await small == 1
        assert world.shards[0].counts == {"small": 1, "large": 0}
        await world.runtime.close()

    run_virtual(scenario())


def test_tombstones_may_be_spread_over_batches() -> None:
    async def scenario() -> None:
        world = World(batch_bytes_max=300)
        await world.start()
        records = [CoordinatorRecord(b"x" * 60, b"0") for _ in range(10)]
        calls: list[object] = []

        def hook(error: KafkaError | None, _: Instant) -> Result[None]:
            calls.append(error)
            return Result(reply=None)

        await world.runtime.execute(
            0,
            lambda shard, _: Result(reply=None, records=records, is_atomic=False, on_append=hook),
        )
        assert len(world.log().records()) == 10
        assert world.writer.append_count == 4
        assert calls == [None]
        await world.runtime.close()

    run_virtual(scenario())


@pytest.mark.parametrize("is_behind_a_write", [False, True])
def test_a_reply_that_waits_for_others_has_its_hook_called(is_behind_a_write: bool) -> None:
    """OFS-5: once, when they are committed, or at once if there are none."""

    async def scenario() -> None:
        world = World()
        await world.start()
        calls: list[object] = []

        def hook(error: KafkaError | None, _: Instant) -> Result[None]:
            calls.append(error)
            return Result(reply=None)

        if is_behind_a_write:
            world.writer.pause()
        first = asyncio.ensure_future(world.add())
        await asyncio.sleep(0.1)
        waiting = asyncio.ensure_future(
            world.runtime.execute(
                0, lambda shard, _: Result(reply=None, on_append=hook, waits_for_commit=True)
            )
        )
        await asyncio.sleep(0.1)
        assert calls == ([] if is_behind_a_write else [None])
        world.writer.resume()
        await asyncio.gather(first, waiting)
        assert calls == [None]
        await world.runtime.close()

    run_virtual(scenario())


def test_a_record_that_no_batch_can_take_fails_alone() -> None:
    """OFS-5: also where the command may be spread over batches; nothing of it is appended."""

    async def scenario() -> None:
        world = World(batch_bytes_max=300)
        await world.start()
        limit = world.writer.batch_bytes_max(TopicPartition("__counters", 0))
        limit = max(limit, 300)
        records = [CoordinatorRecord(b"x", b"0"), CoordinatorRecord(b"y", b"0" * limit)]
        first = asyncio.ensure_future(world.add())
        await asyncio.sleep(0)
        too_large = world.runtime.execute(
            0, lambda shard, _: Result(reply=None, records=records, is_atomic=False)
        )
        with pytest.raises(KafkaError) as caught:
            await too_large
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert await first == 1
        assert len(world.log().records()) == 1
        assert len(world.shards) == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_a_refused_append_is_undone_and_the_shard_lives_on() -> None:
    """OFS-5: rolled back on failure, with all that was built on it."""

    async def scenario() -> None:
        world = World()
        await world.start()
        assert await world.add(count=5) == 5
        world.writer.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        seen: list[ErrorCode | None] = []

        def hook(error: KafkaError | None, _: Instant) -> Result[None]:
            seen.append(None if error is None else error.code)
            return Result(reply=None)

        errors = await asyncio.gather(
            world.error(world.add(hook=hook)), world.error(world.add()), world.error(world.get())
        )
        assert set(errors) == {ErrorCode.NOT_ENOUGH_REPLICAS}
        assert seen == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert world.shards[0].counts == {"n": 5}
        world.writer.refuse_with = None
        assert await world.add() == 6
        assert len(world.shards) == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_what_was_queued_behind_a_refused_append_fails_with_it() -> None:
    """OFS-5: a later command may rest on the one that is undone."""

    async def scenario() -> None:
        world = World()
        await world.start()
        world.writer.pause()
        first = asyncio.ensure_future(world.error(world.add()))
        await asyncio.sleep(0.1)
        second = asyncio.ensure_future(world.error(world.add()))
        await asyncio.sleep(0.1)
        world.writer.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.writer.resume()
        assert await first is await second is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert world.shards[0].counts == {"n": 0}
        await world.runtime.close()

    run_virtual(scenario())


@pytest.mark.parametrize(
    "code",
    [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND],
)
def test_after_a_doubtful_append_the_log_decides(code: ErrorCode) -> None:
    """OFS-5: the records may be committed later, so the shard is loaded from the log."""

    async def scenario() -> None:
        world = World()
        await world.start()
        await world.add()
        world.writer.doubt_with = code
        assert await world.error(world.add()) is code
        assert world.shards[0].closed_with is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await world.error(world.get()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await world.runtime.wait_until_loaded(0)
        assert await world.get() == 2
        await world.runtime.close()

    run_virtual(scenario())


def test_an_append_that_takes_too_long_is_awaited_and_not_loaded_again() -> None:
    """OFS-5: `offsets.commit.timeout.ms` ends the wait of the client, not that of the shard."""

    async def scenario() -> None:
        world = World(commit_timeout_ms=5000)
        await world.start()
        world.writer.pause()
        started = asyncio.get_running_loop().time()
        assert await world.error(world.add()) is ErrorCode.REQUEST_TIMED_OUT
        assert asyncio.get_running_loop().time() - started == pytest.approx(5)
        # What is not committed is not shown, and nothing is built on it.
        assert await world.error(world.get()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await world.error(world.add()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.writer.resume()
        await asyncio.sleep(0.1)
        assert await world.get() == 1
        assert len(world.shards) == 1
        assert len(world.log().records()) == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_readers_that_gave_up_are_not_kept() -> None:
    """Everything is bounded: a commit may hang for hours, and clients ask again and again."""

    async def scenario() -> None:
        world = World(commit_timeout_ms=5000)
        await world.start()
        world.writer.pause()
        adding = asyncio.ensure_future(world.error(world.add()))
        await asyncio.sleep(0.1)
        reading = [asyncio.ensure_future(world.error(world.get())) for _ in range(5)]
        await asyncio.sleep(6)
        assert {await each for each in reading} == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert await adding is ErrorCode.REQUEST_TIMED_OUT
        pipeline = world.runtime._slots[0].pipeline
        assert pipeline is not None
        assert len(pipeline._queue) == 1
        world.writer.resume()
        await asyncio.sleep(0.1)
        assert await world.get() == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_a_late_refusal_is_undone() -> None:
    """OFS-5: the outcome counts, whenever it is known; hooks hear of both."""

    async def scenario() -> None:
        world = World(commit_timeout_ms=5000)
        await world.start()
        assert await world.add() == 1
        world.writer.pause()
        heard: list[tuple[str, ErrorCode | None]] = []

        def hook(error: KafkaError | None, _: Instant) -> Result[None]:
            heard.append(("append", None if error is None else error.code))
            return Result(reply=None)

        def timed_out(error: KafkaError, _: Instant) -> Result[None]:
            heard.append(("timeout", error.code))
            return Result(reply=None)

        def command(shard: CountingShard, _: Instant) -> Result[int]:
            result = shard.add("n", hook=hook)
            result.on_timeout = timed_out
            return result

        assert await world.error(world.runtime.execute(0, command)) is ErrorCode.REQUEST_TIMED_OUT
        assert heard == [("timeout", ErrorCode.REQUEST_TIMED_OUT)]
        world.writer.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        world.writer.resume()
        await asyncio.sleep(0.1)
        world.writer.refuse_with = None
        assert heard[1:] == [("append", ErrorCode.NOT_ENOUGH_REPLICAS)]
        assert await world.get() == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_hooks_of_refused_commands_run_newest_first() -> None:
    """Each may have built on those before it."""

    async def scenario() -> None:
        world = World()
        await world.start()
        world.writer.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        order: list[int] = []

        def hook(number: int) -> AppendHook:
            def heard(_: KafkaError | None, __: Instant) -> Result[None]:
                order.append(number)
                return Result(reply=None)

            return heard

        await asyncio.gather(*(world.error(world.add(hook=hook(n))) for n in range(3)))
        assert order == [2, 1, 0]
        await world.runtime.close()

    run_virtual(scenario())


def test_a_timer_set_by_a_refusal_is_armed() -> None:
    """A command that is refused at once sets a timer by its hook, and no other command comes."""

    async def scenario() -> None:
        world = World(batch_bytes_max=300)
        await world.start()
        shard = world.shards[0]
        fired: list[int] = []

        def action(now: Instant) -> Result[None]:
            fired.append(now.monotonic_ms)
            return Result(reply=None)

        def hook(_: KafkaError | None, now: Instant) -> Result[None]:
            shard.timers.schedule("later", now.monotonic_ms + 1000, action)
            return Result(reply=None)

        large = world.add(padding=500, hook=hook)
        assert await world.error(large) is ErrorCode.MESSAGE_TOO_LARGE
        await asyncio.sleep(2)
        assert len(fired) == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_one_command_may_be_as_large_as_the_topic_takes() -> None:
    """A group of a megabyte can sync; `max.message.bytes` of the topic says how large."""

    async def scenario() -> None:
        world = World(batch_bytes_max=300)
        await world.start()
        world.writer.bytes_max = 1000
        assert await world.add(padding=900) == 1
        assert await world.error(world.add(padding=1100)) is ErrorCode.MESSAGE_TOO_LARGE
        await world.runtime.close()

    run_virtual(scenario())


def test_timers_are_put_off_after_the_process_was_held_up() -> None:
    """SIGSTOP for a minute: what those who were to be heard have sent is still to be read."""

    async def scenario() -> None:
        world = World()
        await world.start()
        fired: list[int] = []

        def action(now: Instant) -> Result[None]:
            fired.append(now.monotonic_ms)
            return Result(reply=None)

        def command(shard: CountingShard, now: Instant) -> Result[None]:
            for name in ("soon", "later"):
                after_ms = 10_000 if name == "soon" else 20_000
                shard.timers.schedule(name, now.monotonic_ms + after_ms, action)
            return Result(reply=None)

        await world.runtime.execute(0, command)
        await asyncio.sleep(1)
        selector = asyncio.get_running_loop()._virtual_selector  # type: ignore[attr-defined]
        selector.now_seconds += 60
        await asyncio.sleep(2)
        assert fired == []
        await asyncio.sleep(30)
        assert [round(each / 1000) for each in fired] == [64, 74]
        await world.runtime.close()

    run_virtual(scenario())


def test_what_is_scheduled_after_the_process_was_held_up_is_not_put_off() -> None:
    """Commands may come before the timers do: their members are there, or die, from then on."""

    async def scenario() -> None:
        world = World()
        await world.start()
        fired: list[str] = []

        def schedule(name: str, after_ms: int) -> Callable[..., Result[None]]:
            def action(now: Instant) -> Result[None]:
                fired.append(f"{name} {now.monotonic_ms // 1000}")
                return Result(reply=None)

            def command(shard: CountingShard, now: Instant) -> Result[None]:
                shard.timers.schedule(name, now.monotonic_ms + after_ms, action)
                return Result(reply=None)

            return command

        await world.runtime.execute(0, schedule("before", 10_000))
        selector = asyncio.get_running_loop()._virtual_selector  # type: ignore[attr-defined]
        selector.now_seconds += 60
        await world.runtime.execute(0, schedule("after", 6_000))
        await asyncio.sleep(30)
        assert fired == ["before 63", "after 66"]
        await world.runtime.close()

    run_virtual(scenario())


def test_a_command_that_raises_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        world = World()
        await world.start()

        def command(shard: CountingShard, _: Instant) -> Result[int]:
            shard.add("n")
            raise KafkaError(ErrorCode.INVALID_REQUEST)

        assert await world.error(world.runtime.execute(0, command)) is ErrorCode.INVALID_REQUEST
        assert await world.get() == 0
        assert world.log().records() == []
        await world.runtime.close()

    run_virtual(scenario())


def test_a_hook_may_write_more() -> None:
    async def scenario() -> None:
        world = World()
        await world.start()
        shard = world.shards[0]

        def hook(error: KafkaError | None, _: Instant) -> Result[None]:
            assert error is None
            return Result(reply=None, records=shard.add("more").records)

        await world.add(hook=hook)
        assert await world.get("more") == 1
        assert len(world.log().records()) == 2
        await world.runtime.close()

    run_virtual(scenario())


def test_timers_of_a_shard_fire_and_may_write() -> None:
    async def scenario() -> None:
        world = World()
        await world.start()
        shard = world.shards[0]
        fired_ms: list[int] = []

        def action(now: Instant) -> Result[None]:
            fired_ms.append(now.monotonic_ms)
            if len(fired_ms) == 1:
                shard.timers.schedule("again", now.monotonic_ms + 500, action)
            return Result(reply=None, records=shard.add("fired").records)

        def command(shard: CountingShard, now: Instant) -> Result[None]:
            shard.timers.schedule("late", now.monotonic_ms + 60_000, action)
            shard.timers.schedule("soon", now.monotonic_ms + 1_000, action)
            shard.timers.cancel("late")
            return Result(reply=None)

        await world.runtime.execute(0, command)
        await asyncio.sleep(2)
        assert 1_000 <= fired_ms[0] <= 1_010
        assert 1_500 <= fired_ms[1] <= 1_520
        assert await world.get("fired") == 2
        await world.runtime.close()

    run_virtual(scenario())


def test_a_caller_that_gives_up_disturbs_nobody() -> None:
    async def scenario() -> None:
        world = World()
        await world.start()
        world.writer.pause()
        impatient = asyncio.ensure_future(world.add())
        patient = asyncio.ensure_future(world.add())
        await asyncio.sleep(0.1)
        impatient.cancel()
        await asyncio.sleep(0.1)
        world.writer.resume()
        assert await patient == 2
        await world.runtime.close()

    run_virtual(scenario())


def test_commands_are_refused_while_too_much_waits() -> None:
    async def scenario() -> None:
        world = World(queue_bytes_max=100)
        await world.start()
        world.writer.pause()
        waiting = [asyncio.ensure_future(world.add(padding=100)) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert await world.error(world.add()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.writer.resume()
        await asyncio.wait(waiting)
        assert await world.add() == waiting[0].result() + 1
        await world.runtime.close()

    run_virtual(scenario())


def test_timers_that_become_due_while_others_fire_wait_for_the_next_turn() -> None:
    """A clean-up that goes on a millisecond later would otherwise hold the loop to its end."""

    async def scenario() -> None:
        world = World()
        await world.start()
        shard, events = world.shards[0], list[str]()
        loop = asyncio.get_running_loop()

        def step(now: Instant) -> Result[None]:
            events.append("step")
            loop.call_soon(events.append, "others")
            # Each step takes as long as the pause that it asks for.
            world.clock.worked_ms += 1
            if len(events) < 9:
                shard.timers.schedule("clean-up", now.monotonic_ms + 1, step)
            return Result(reply=None)

        shard.timers.schedule("clean-up", world.clock.monotonic_ms() + 10, step)
        await world.add()
        await asyncio.sleep(1)
        assert events == ["step", "others"] * 5
        await world.runtime.close()

    run_virtual(scenario())
