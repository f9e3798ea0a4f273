"""The end of a turn: first the files, then the answers, and nobody loses by another's failure."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_broker.replication.turn import ROUNDS_MAX, Turn
from tests.support.virtual_loop import run_virtual


class Piece:
    """A writer and a session at once, which notes its calls."""

    def __init__(self, name: str, seen: list[str], then: Callable[[], None] | None = None) -> None:
        self.name = name
        self.seen = seen
        self.then = then

    def finish_turn(self) -> None:
        self.seen.append(f"write {self.name}")
        if self.then is not None:
            self.then()

    def flush(self) -> None:
        self.seen.append(f"flush {self.name}")
        if self.then is not None:
            self.then()


def fail() -> None:
    raise OSError("broken")


def test_writers_run_before_callbacks_and_these_before_answers() -> None:
    """architecture.md section 4: no reply leaves before its data is in the file."""

    async def work() -> None:
        turn, seen = Turn(asyncio.get_running_loop()), list[str]()
        a, b = Piece("a", seen), Piece("b", seen)
        turn.flush(b)
        turn.after(lambda: seen.append("after"))
        turn.writer(a)
        turn.writer(b)
        turn.writer(a)
        turn.flush(b)
        assert seen == []
        await asyncio.sleep(0)
        assert seen == ["write a", "write b", "after", "flush b"]
        await asyncio.sleep(0)
        assert len(seen) == 4
        assert turn.turn_count == 1

    run_virtual(work())


def test_what_callbacks_stage_is_written_before_the_answers_of_the_turn() -> None:
    """A completed operation may append again."""

    async def work() -> None:
        turn, seen = Turn(asyncio.get_running_loop()), list[str]()
        a, b = Piece("a", seen), Piece("b", seen)

        def more() -> None:
            turn.writer(b)
            turn.flush(b)
            turn.after(lambda: seen.append("after b"))

        turn.writer(a)
        turn.flush(a)
        turn.after(more)
        await asyncio.sleep(0)
        assert seen == ["write a", "write b", "after b", "flush a", "flush b"]

    run_virtual(work())


def test_a_failure_never_loses_the_work_of_others(caplog: pytest.LogCaptureFixture) -> None:
    """NET-2, NET-9."""

    async def work() -> None:
        failed: list[object] = []
        turn = Turn(asyncio.get_running_loop(), lambda writer, error: failed.append(writer))
        seen: list[str] = []
        bad, good = Piece("bad", seen, fail), Piece("good", seen)
        for piece in (bad, good):
            turn.writer(piece)
            turn.flush(piece)
        turn.after(fail)
        turn.after(lambda: seen.append(f"after {len(failed)}"))
        await asyncio.sleep(0)
        assert seen == ["write bad", "write good", "after 1", "flush bad", "flush good"]
        assert failed == [bad]
        assert turn.failure_count == 3

    run_virtual(work())
    assert "writing what a turn has staged failed" in caplog.text


def test_endless_staging_lets_the_loop_run_and_sends_nothing_too_early() -> None:
    """Every loop has a limit."""

    async def work() -> None:
        turn, seen = Turn(asyncio.get_running_loop()), list[str]()
        rounds = 0

        def again() -> None:
            nonlocal rounds
            rounds += 1
            if rounds < 2 * ROUNDS_MAX:
                turn.after(again)

        turn.after(again)
        turn.flush(Piece("a", seen))
        await asyncio.sleep(0)
        assert rounds == ROUNDS_MAX
        assert seen == []
        while not seen:
            await asyncio.sleep(0)
        assert rounds == 2 * ROUNDS_MAX

    run_virtual(work())
