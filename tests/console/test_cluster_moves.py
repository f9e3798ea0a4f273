"""`cluster_moves`: a time is told only where something has been seen to move (CON-121)."""

from barnabas_console.cluster_moves import MoveProgress, Progress, drain_rows


def test_nothing_is_known_at_first_sight_and_the_rate_tells_later() -> None:
    progress = MoveProgress()
    assert progress.seconds_left({"a-0": Progress(100, 1000)}, 0) == {"a-0": None}
    assert progress.seconds_left({"a-0": Progress(400, 1000)}, 3_000) == {"a-0": 6.0}
    assert progress.seconds_left({"a-0": Progress(1000, 1000)}, 9_000) == {"a-0": 0.0}


def test_a_move_that_stands_still_has_no_time() -> None:
    progress = MoveProgress()
    progress.seconds_left({"a-0": Progress(100, 1000)}, 0)
    assert progress.seconds_left({"a-0": Progress(100, 1000)}, 60_000) == {"a-0": None}


def test_a_move_that_is_over_is_forgotten() -> None:
    """A second move of the same partition does not go on with the first one's rate."""
    progress = MoveProgress()
    progress.seconds_left({"a-0": Progress(100, 1000)}, 0)
    progress.seconds_left({}, 1_000)
    assert progress.seconds_left({"a-0": Progress(500, 1000)}, 9_000) == {"a-0": None}


def test_a_drain_says_how_many_leaders_are_left_and_for_how_long() -> None:
    """CON-121: by the speed at which leaders went since it was first seen."""
    progress = MoveProgress()
    others = {"id": 0, "drain": None, "leaders": 9}
    draining = {"id": 1, "drain": "draining", "leaders": 12}
    (row,) = drain_rows([others, draining], progress, 0)
    assert row == {"broker": 1, "phase": "draining", "leaders_left": 12, "seconds_left": None}
    (row,) = drain_rows([others, {**draining, "leaders": 4}], progress, 4_000)
    assert (row["leaders_left"], row["seconds_left"]) == (4, 2.0)
    (row,) = drain_rows([{"id": 1, "drain": "drained", "leaders": 0}], progress, 6_000)
    assert (row["phase"], row["seconds_left"]) == ("drained", 0.0)
    assert drain_rows([others], progress, 7_000) == []
